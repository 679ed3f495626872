"""Short fault injection into the network: IMDS, a collector, and lost approvals."""

from support.short_trial import row


def test_imds() -> None:
    """With any answers of IMDS, no transition is invented or reported twice, and the rate limit is kept."""
    assert "none missing of what was seen" in row("imds")


def test_collector() -> None:
    """With any answers of a collector, every span arrives that it did not refuse permanently."""
    assert " 0 lost" in row("collector")


def test_pushes() -> None:
    """However often pushing exporters and Alertmanager are restarted, each event is one page and one resolve."""
    assert "one page and one resolve for each event" in row("pushes")


def test_approvals() -> None:
    """Whenever it is killed, an approval is neither forgotten nor asked for again."""
    assert "each approved" in row("approvals")


def test_turns() -> None:
    """Another VM approves in its turn, with one request, once the exporter of the event's own VM has ended."""
    assert "with 1 POST" in row("turns")
