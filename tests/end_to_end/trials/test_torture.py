"""The process under torture, in short: clocks that jump, a machine that stands still, clients that are a nuisance."""

from support.short_trial import row


def test_clock() -> None:
    """A wall clock that is set by an hour in mid event lets no duration be negative, and no event end wrongly."""
    assert "no negative duration" in row("clock")


def test_suspended() -> None:
    """After it stood still, it tells what happened once, polls at its rhythm, and answers who waited."""
    assert "all of it reported once" in row("suspended")


def test_clients() -> None:
    """Hundreds of hostile clients keep no scraper waiting, over HTTP and over TLS with users."""
    assert "all answered" in row("clients")
