"""Decides which events a hook may approve. Pure.

It may prepare this VM for more events than it may approve. The hook asks here before it requests an
approval, and the exporter asks again before it sends the request, with what IMDS shows then.
"""

from azure_scheduled_events_exporter.core.document import comparable_name
from azure_scheduled_events_exporter.core.event_types import EVENT_FACTS
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle


def obstacle(life: Lifecycle) -> str:
    """Return why a hook may not approve an event that waits for an approval; ``""`` if it may.

    It may approve an event whose Resources name this VM alone, in the newest document and in all
    earlier ones. It never approves an event that deletes the VM, one of an unknown type, or one
    that a document describes in two ways.
    """
    if life.event.is_contradictory:
        return "one document has several entries for it that differ"
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
