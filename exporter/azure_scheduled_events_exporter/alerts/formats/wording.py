"""The words of alerts that all texts share: those of each engine, and those that exporters push.

The functions fill in facts of a pushed alert, as templates do in the rules.
"""

from azure_scheduled_events_exporter.core.event_types import EVENT_FACTS, EventType

LONGEST_GROUP = 32
"""Characters of a resource group in a title, which may be the subject of a mail."""
LONGEST_TYPE = 22
"""Characters of an event's type in a title."""
UNKNOWN_TIME = "(time unknown)"
NO_VMS = "the VMs of event"
"""Stands before an event's id, in place of the names of VMs that are unknown."""
UNKNOWN_REFUSED = (
    "The event still begins, at its time or later; the log of the exporter says which one."
)
"""What the refusal of an approval means, where the text cannot name the event."""
UNKNOWN_LOSS = "This version of the exporter does not know what such an event does."
AHEAD = (
    "Drain each VM that the event names, and copy what you need from its ephemeral disks. Then"
    " redeploy it, as Microsoft recommends: that moves it to a healthy host at once (the runbook"
    " has the command). Do this within a day; it need not be at night."
)
"""What to do about an event that is days ahead, except a Freeze."""
PAUSE_AHEAD = (
    "Be ready for a pause of seconds. To choose its time, approve the event (the runbook has the"
    " command)."
)
"""What to do about a Freeze that is days ahead."""
PREPARE = (
    "Drain the VM by hand, or hand the role of its database over, before the event begins. If it"
    " has begun, check the VM when it is back."
)
"""What to do if a hook failed before its event."""
RECOVER = "Put the VM back into service by hand."
"""What to do if a hook failed after its event."""


def vms_with_group(vms: str, resource_group: str) -> str:
    """Return what ``{vms}`` stands for."""
    if not resource_group:
        return vms
    return f"{vms} (resource group {_cut(resource_group, LONGEST_GROUP)})"


def type_in_title(event_type: str) -> str:
    """Return what ``{event_type}`` stands for."""
    return _cut(event_type, LONGEST_TYPE)


def loss_of(event_type: str) -> str:
    """Return what ``{loss}`` stands for."""
    facts = EVENT_FACTS.get(event_type)
    if facts is None:
        return UNKNOWN_LOSS
    return facts.loss


def ahead_of(event_type: str) -> str:
    """Return what ``{ahead}`` stands for."""
    if event_type == EventType.FREEZE:
        return PAUSE_AHEAD
    return AHEAD


def _cut(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    return f"{text[:longest]}…"
