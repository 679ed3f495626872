"""The journal under torture, in short: kills, power cuts, a disk that fails, files that go, a long history."""

from support.short_trial import row


def test_kills() -> None:
    """However often it is killed, nothing is lost that it can have seen, nothing counted twice, nothing damaged."""
    assert "`integrity_check` ok" in row("kills")


def test_power() -> None:
    """What it has told is still known after a power cut."""
    found = row("power")
    assert " 0 lost" in found or "needs Linux and root" in found


def test_disk() -> None:
    """A disk that is full, read-only, damaged, somebody else's or locked stops no poll, and loses nothing."""
    assert "none lost or twice" in row("disk")


def test_history() -> None:
    """A long history is streamed to followers, and work on it keeps no poll waiting for long."""
    assert "nothing lost" in row("history")


def test_journal() -> None:
    """Whatever is done to the journal's files, each transition is there once, in order, also for followers."""
    assert "each once in the journal" in row("journal")
