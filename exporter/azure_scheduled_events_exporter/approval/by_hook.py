"""Decides which events a hook may approve, whatever it has prepared for. Pure.

The hook asks before it requests an approval, and the sender asks again with what IMDS shows then.
"""

from azure_scheduled_events_exporter.core.document import comparable_name
from azure_scheduled_events_exporter.core.event_types import EVENT_FACTS
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle


def obstacle(life: Lifecycle) -> str:
    """Return why a hook may not approve an event that waits for an approval; ``""`` if it may.

    It may approve one that affects this VM alone, whatever earlier documents have shown. Never one
    that deletes the VM, nor one of a type that nobody knows.
    """
    facts = EVENT_FACTS.get(life.event.event_type)
    if facts is None:
        return "a hook approves no event of an unknown type"
    if facts.deletes:
        return "a hook approves no event that deletes the VM"
    if not life.own_name:
        return "it is not known to be an event of this VM"
    names = {comparable_name(name) for name in life.event.resources}
    if life.most_resources > 1 or names != {comparable_name(life.own_name)}:
        return "the event has other VMs, and a hook approves only for its own"
    return ""
