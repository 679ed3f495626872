"""When a webhook was first told of each event."""

from support.monitoring.paging import Receiver


def first_told(receiver: Receiver) -> dict[str, float]:
    """Return when the webhook was first told of each event (monotonic), by its EventId."""
    found: dict[str, float] = {}
    for each in receiver.webhooks():
        event_id = each.body["groupLabels"].get("event_id")
        # Other alerts have no event, such as those that a busy machine causes.
        if event_id is not None and each.body["status"] == "firing":
            found.setdefault(event_id, each.at)
    return found
