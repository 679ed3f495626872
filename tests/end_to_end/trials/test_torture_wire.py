"""Who the exporter talks to under torture, in short: IMDS, a collector, and approvals that are not heard."""

from support.short_trial import row


def test_imds() -> None:
    """Whatever IMDS answers, nothing is made up, nothing told twice, and never more asked than it bears."""
    assert "none missing of what was seen" in row("imds")


def test_collector() -> None:
    """Whatever a collector answers, every span arrives that it did not refuse for good."""
    assert " 0 lost" in row("collector")


def test_approvals() -> None:
    """Whenever it is killed, an approval is neither forgotten nor asked for again."""
    assert "each approved" in row("approvals")


def test_turns() -> None:
    """Another VM approves in its turn, with one request, once the exporter of the event's own VM has ended."""
    assert "with 1 POST" in row("turns")
