"""Decides the kind of an event: what people have to be told about it.

The kind is a field of the event's :class:`Lifecycle`. Rules, pushed alerts, dashboards, the status
page and hooks select by it and decide nothing again. Pure: the time is an argument, by the clock of
IMDS, as NotBefore is. Must not know how people are told of a kind.
"""

from dataclasses import replace

from .document import EventSource
from .event_types import EVENT_FACTS, EventType
from .lifecycle import Kind, Lifecycle, Lifecycles, State
from .pause import NOISE_SECONDS

FAR_AHEAD_SECONDS = 86_400.0
"""A NotBefore that is further away than this says that the host is predicted to fail.

Routine maintenance is announced at most 15 minutes ahead, a predicted host failure days ahead.

https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events (Event scheduling)
"""

SHORT_FREEZE_SECONDS = 9.0
"""Microsoft's sample approves a Freeze announced as shorter than this without asking anybody.

It is the default of ``--freeze.harmless-below``, and no promise: a live migration can cut TCP
connections for minutes. https://github.com/Azure-Samples/scheduled-events-python
"""

LONG_STARTED_SECONDS = 1800.0
"""An event that is Started for longer is not harmless, whatever was announced.

Usually an event is Started for 10 minutes.
"""


def kind_of(life: Lifecycle, now: float, harmless_below: float = SHORT_FREEZE_SECONDS) -> Kind:
    """Return the kind of an event at ``now``, seconds since the epoch.

    The first kind that applies is returned. It may change while the event goes on.
    ``harmless_below``: a Freeze announced as shorter than so many seconds is harmless.
    """
    if life.state is State.ADVISORY:
        return Kind.ADVISORY
    if _is_far_ahead(life, now):
        return Kind.FAR_AHEAD
    if _is_announced_harmless(life, harmless_below):
        if not _has_impact(life, now, harmless_below):
            return Kind.HARMLESS
        if life.event.event_type in EVENT_FACTS:
            # The announcement was wrong: people are told, even if a user requested the event.
            return Kind.ANNOUNCED
        # What an unknown type does is not known either way, so its origin decides.
    return _by_origin(life)


def _by_origin(life: Lifecycle) -> Kind:
    """Return the kind of an event that is neither advice, nor far ahead, nor harmless."""
    if life.event.source == EventSource.USER:
        return Kind.REQUESTED
    if life.event.event_type not in EVENT_FACTS:
        return Kind.UNKNOWN_TYPE
    if _is_without_notice(life):
        return Kind.WITHOUT_NOTICE
    return Kind.ANNOUNCED


def with_kind(life: Lifecycle, now: float, harmless_below: float) -> Lifecycle:
    """Return ``life`` with its kind at ``now``, and with :attr:`Lifecycle.paused_longer`.

    If neither has changed, it is ``life`` itself.
    """
    kind = kind_of(life, now, harmless_below)
    is_longer = _paused_longer(life, harmless_below)
    if kind is life.kind and is_longer is life.paused_longer:
        return life
    return replace(life, kind=kind, paused_longer=is_longer)


def with_kinds(known: Lifecycles, now: float, harmless_below: float) -> Lifecycles:
    """Return ``known`` with :func:`with_kind` applied to the current events.

    If nothing has changed, it is ``known`` itself.
    """
    changed = []
    for before in known.current.values():
        after = with_kind(before, now, harmless_below)
        if after is not before:
            changed.append(after)
    if not changed:
        return known
    return known.updated(changed)


def _is_far_ahead(life: Lifecycle, now: float) -> bool:
    """Return whether NotBefore is more than a day away, as for a host that is predicted to fail.

    A user's request predicts no failure. An eviction is never far ahead: Azure announces none that
    early, and if NotBefore is wrong, people must be told now.
    """
    if life.state is State.STARTED or life.not_before is None:
        return False
    if life.event.source == EventSource.USER or life.event.event_type == EventType.PREEMPT:
        return False
    return life.not_before - now > FAR_AHEAD_SECONDS


def _is_without_notice(life: Lifecycle) -> bool:
    """Return whether a restart had begun when it was first seen, without an approval from here."""
    facts = EVENT_FACTS.get(life.event.event_type)
    if facts is None or not facts.restarts:
        return False
    return not (life.announced or life.approved_here)


def _is_announced_harmless(life: Lifecycle, harmless_below: float) -> bool:
    """Return whether the announcement says that nobody will notice the event."""
    seconds = life.event.duration_seconds
    if seconds is None:
        return False
    is_freeze = life.event.event_type == EventType.FREEZE
    return seconds == 0 or (is_freeze and seconds < harmless_below)


def _has_impact(life: Lifecycle, now: float, harmless_below: float) -> bool:
    """Return whether an event that was announced as harmless has an impact all the same."""
    is_long = (
        life.state is State.STARTED
        and life.started_at is not None
        and now - life.started_at.wall > LONG_STARTED_SECONDS
    )
    return is_long or _paused_longer(life, harmless_below)


def _paused_longer(life: Lifecycle, harmless_below: float) -> bool:
    """Return whether this VM was paused for longer than announced, and than ``harmless_below``."""
    announced = life.event.duration_seconds
    if announced is None or life.observed_pause is None:
        return False
    return life.observed_pause > max(announced, harmless_below, NOISE_SECONDS)
