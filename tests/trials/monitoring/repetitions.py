"""What both Alertmanagers of a cluster sent, though one of them would have done.

Two of Alertmanager's own limits stand in docs/alerts.md. An Alertmanager that ends just after a
notification has not told the other one of it, which then sends it too: so a resolve may come from
both. And the second one waits two seconds and then sends what it knew before: so a page may come
again from it just after the first one's resolve.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping

from support.monitoring.paging import Receiver
from trials.monitoring.pushes import event_of

_PEER_TIMEOUT = 2.0
"""For how many seconds the second Alertmanager waits for the first, by its flags."""
_WAY = 1.0
"""How many seconds a page may take from Alertmanager to the receiver."""


def repeated_by_event(receiver: Receiver) -> Mapping[str, Counter[tuple[str, str]]]:
    """Return, by EventId, how often a second Alertmanager sent an alert as ``firing`` or as
    ``resolved`` after the first one had resolved it.

    A page counts only if it came within two seconds after the resolve, and one for its way.
    """
    resolved: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)  # when, by sender
    found: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for each in receiver.webhooks():
        sender = each.body["externalURL"]
        for alert in each.body["alerts"]:
            event_id = event_of(alert)
            name = alert["labels"]["alertname"]
            if not event_id:
                continue
            others = resolved[event_id, name]
            if alert["status"] == "resolved":
                if others and sender not in others:
                    found[event_id][name, "resolved"] += 1
                others[sender] = each.at
            elif any(
                url != sender and each.at - at <= _PEER_TIMEOUT + _WAY for url, at in others.items()
            ):
                found[event_id][name, "firing"] += 1
    return found
