"""Short fault injection into the journal: kills, power failures, a failing disk, removed files, a long history."""

from support.short_trial import row


def test_kills() -> None:
    """After any number of kills, no observable transition is lost or counted twice, and no file is damaged."""
    assert "`integrity_check` ok" in row("kills")


def test_power() -> None:
    """Reported transitions are still in the journal after a power failure."""
    found = row("power")
    assert " 0 lost" in found or "needs Linux and root" in found


def test_disk() -> None:
    """With a disk that is full, read-only, damaged, another program's or locked, polls continue and nothing is lost."""
    assert "none lost or twice" in row("disk")


def test_history() -> None:
    """A long history is streamed to followers, and work on it keeps no poll waiting for long."""
    assert "nothing lost" in row("history")


def test_journal() -> None:
    """After any damage to the journal's files, each transition is there once, in order, also for followers."""
    assert "each once in the journal" in row("journal")
