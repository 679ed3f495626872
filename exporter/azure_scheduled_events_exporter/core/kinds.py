"""Decides the kind of a current event: what people have to be told about it.

Rules, pushed alerts, dashboards, the status page and hooks select by the kind and decide nothing
again. Pure: the time is an argument. Must not know how a kind is told.
"""

from enum import StrEnum

from .document import EventSource
from .event_types import EVENT_FACTS, EventType
from .lifecycle import Lifecycle, State

FAR_AHEAD_SECONDS = 86_400.0
"""Routine maintenance is announced at most 15 minutes ahead, a predicted host failure days ahead.

https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events (Event scheduling)
"""

SHORT_FREEZE_SECONDS = 9.0
"""Microsoft's sample approves a Freeze announced as shorter than this without asking anybody.

https://github.com/Azure-Samples/scheduled-events-python
"""


class Kind(StrEnum):
    """What an event is for the people who run the VM. The first case that applies is used."""

    ADVISORY = "advisory"  # advice; nothing is scheduled
    # announced as no interruption, or as a Freeze so short that the sample approves it
    HARMLESS = "harmless"
    REQUESTED = "requested"  # a user requested it
    WITHOUT_NOTICE = (
        "without_notice"  # a restart that had started when it was first seen: its host failed
    )
    FAR_AHEAD = "far_ahead"  # NotBefore is more than a day away; no eviction is that
    UNKNOWN_TYPE = "unknown_type"  # a type that is in no table
    ANNOUNCED = "announced"


def kind_of(life: Lifecycle, now: float) -> Kind:
    """Return the kind of a current event at ``now``, wall-clock seconds.

    It may change while the event goes on.
    """
    event = life.event
    facts = EVENT_FACTS.get(event.event_type)
    if life.state is State.ADVISORY:
        return Kind.ADVISORY
    if is_harmless(event.event_type, event.duration_seconds):
        return Kind.HARMLESS
    if event.source == EventSource.USER:
        return Kind.REQUESTED
    if facts and facts.restarts and not life.announced and not life.approved_here:
        return Kind.WITHOUT_NOTICE
    is_eviction = (
        event.event_type == EventType.PREEMPT
    )  # never announced that early: nobody should wait for a mistake
    far = life.state is not State.STARTED and (life.not_before or 0.0) - now > FAR_AHEAD_SECONDS
    if far and not is_eviction:
        return Kind.FAR_AHEAD
    return Kind.ANNOUNCED if facts else Kind.UNKNOWN_TYPE


def is_harmless(event_type: str, duration_seconds: float | None) -> bool:
    """Return whether an event of this type and announced duration interrupts nothing that people notice."""
    if duration_seconds is None:
        return False
    return duration_seconds == 0 or (
        event_type == EventType.FREEZE and duration_seconds < SHORT_FREEZE_SECONDS
    )
