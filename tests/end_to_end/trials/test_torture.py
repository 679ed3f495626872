"""Short fault injection into the process: clocks that jump, a paused machine, hostile clients."""

from support.short_trial import row


def test_clock() -> None:
    """If the wall clock is set by an hour during an event, no duration is negative and no event ends wrongly."""
    assert "no negative duration" in row("clock")


def test_suspended() -> None:
    """After a pause, it reports each transition once, polls at its interval, and answers waiting clients."""
    assert "all of it reported once" in row("suspended")


def test_clients() -> None:
    """Hundreds of hostile clients keep no scraper waiting, over HTTP and over TLS with users."""
    assert "all answered" in row("clients")
