"""The counters and histograms of all transitions.

Pure: each ``core.lifecycle.Change`` adds to the statistics before. The journal stores the result
beside the transitions, so counters go on after a restart. Must not depend on a metric library or on
polls.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .document import Scope
from .event_types import EventType
from .histogram import Histogram
from .label_limit import label_for
from .lifecycle import Approver, Change, Lifecycle, Transition

TransitionKey = tuple[str, str, str, str]
"""The labels of a counter of transitions: event_type, event_source, scope, transition."""

# Upper bounds of buckets, in seconds. Each is a limit that matters to users. A bound costs each VM
# up to 20 series. With these bounds, an exporter that has been through all shipped scenarios has
# less than 400 series, which docs/fleet.md counts.

# No notice, the documented notices (30 s, 5, 10, 15 min), days for a predicted failure.
NOTICE_BOUNDS = (0.0, 30.0, 300.0, 600.0, 900.0, 86400.0)
LATENCY_BOUNDS = (1.0, 30.0, 300.0, 900.0, 3600.0)
STATE_BOUNDS = (10.0, 60.0, 300.0, 1200.0)
# Noise takes up to 0.1 s, a live migration up to 5 s, a Freeze up to 30 s, and a boot minutes.
PAUSE_BOUNDS = (0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 120.0)


_FORESEEN = tuple(transition for transition in Transition if transition is not Transition.WITHDRAWN)
"""The transitions whose series exist as 0 before they first happen.

Without that, ``increase()`` would miss the step from nothing to 1. ``withdrawn`` is left out: only
advice is withdrawn, and nothing alerts on it.
"""


def _initial_transitions() -> dict[TransitionKey, int]:
    """Return the series that exist from the start, all 0.

    They are those of each type with each foreseen transition, but only of the type's usual source:
    a series is a cost for each VM of a fleet. Those of another source exist once an event of that
    source was seen (:func:`_count_transition`).
    """
    return {
        (str(event_type), event_type.facts.usual_source, str(Scope.SELF), str(transition)): 0
        for event_type in EventType
        for transition in _FORESEEN
    }


_BOUNDS: Mapping[str, tuple[float, ...]] = {
    "notice": NOTICE_BOUNDS,
    "approval_latency": LATENCY_BOUNDS,
    "time_in_state": STATE_BOUNDS,
    "pauses": PAUSE_BOUNDS,
}
"""The fields of :class:`Statistics` that are histograms, and the bounds of each."""


_COUNTERS = ("pause_counts", "retransmitted", "timeouts")
"""The fields of :class:`Statistics` that :func:`_counted` adds to."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counters and histograms of all transitions. Immutable: :meth:`plus` returns a new object.

    Attributes:
        transitions: how often each happened, by :data:`TransitionKey`.
        notice: seconds of notice, by event type.
        approval_latency: seconds from first seen to approved, by event type and approver.
        time_in_state: seconds spent Scheduled and Started, by event type and state.
        pauses: seconds of this VM's longest pause while one of its events was Started, by event
            type.
        pause_counts: how many pauses there were then, by event type.
        retransmitted: TCP segments that were sent again then, by event type.
        timeouts: TCP retransmission timeouts then, by event type.
    """

    transitions: Mapping[TransitionKey, int] = field(default_factory=_initial_transitions)
    notice: Mapping[tuple[str], Histogram] = field(default_factory=dict)
    approval_latency: Mapping[tuple[str, str], Histogram] = field(default_factory=dict)
    time_in_state: Mapping[tuple[str, str], Histogram] = field(default_factory=dict)
    pauses: Mapping[tuple[str], Histogram] = field(default_factory=dict)
    pause_counts: Mapping[tuple[str], int] = field(default_factory=dict)
    retransmitted: Mapping[tuple[str], int] = field(default_factory=dict)
    timeouts: Mapping[tuple[str], int] = field(default_factory=dict)

    def plus(self, changes: Iterable[Change]) -> "Statistics":
        """Return the statistics with ``changes`` counted too."""
        # Copies of the fields, by their names.
        transitions = dict(self.transitions)
        counters: dict[str, Any] = {name: dict(getattr(self, name)) for name in _COUNTERS}
        histograms: dict[str, Any] = {name: dict(getattr(self, name)) for name in _BOUNDS}
        labels = _Labels.of(transitions)
        for change in map(labels.relabelled, changes):
            _count_transition(transitions, change)
            for value in _measured(change):
                of_field = histograms[value.histogram]
                before = of_field.get(value.key, Histogram.empty(_BOUNDS[value.histogram]))
                of_field[value.key] = before.observe(value.seconds)
            for name, number in _counted(change):
                of_type = (change.lifecycle.event.event_type,)
                counters[name][of_type] = counters[name].get(of_type, 0) + number
        return Statistics(transitions, **counters, **histograms)


@dataclass(frozen=True, slots=True)
class _Measured:
    """A value for a histogram of :class:`Statistics`.

    Attributes:
        histogram: the name of the field there, such as ``time_in_state``.
        key: which of the histograms in that field.
        seconds: the value.
    """

    histogram: str
    key: tuple[str, ...]
    seconds: float


def _measured(change: Change) -> Iterator[_Measured]:
    """Yield what ``change`` adds to the histograms of :class:`Statistics`.

    They count events of this VM, and the approvals that were sent from this VM, so that a sum over
    a fleet counts each event once for each VM that it affects. After an event has returned, nothing
    is added, so that each of its states is measured once.
    """
    life = change.lifecycle
    if life.has_returned:
        return
    if life.is_mine or life.approved_here:
        yield from _until_approved(change)
    if life.is_mine:
        yield from _of_this_vm(change)


def _until_approved(change: Change) -> Iterator[_Measured]:
    """Yield the time from the first sight to the approval, if ``change`` shows the approval."""
    life = change.lifecycle
    shown_by = Transition.APPROVED
    if life.approved_by is Approver.DEADLINE:  # which is only known with the start
        shown_by = _start_of(life)
    if life.approval is not None and change.transition is shown_by:
        key = (life.event.event_type, str(life.approval.by))
        yield _Measured("approval_latency", key, life.approval.at.since(life.first_seen))


def _of_this_vm(change: Change) -> Iterator[_Measured]:
    """Yield the notice, the time in a state that has ended, and the pause.

    A lost event adds no time in a state, because its end was not observed.
    """
    life = change.lifecycle
    event_type = life.event.event_type
    if change.transition is Transition.DETECTED and life.notice_seconds is not None:
        yield _Measured("notice", (event_type,), life.notice_seconds)
    if life.announced and change.transition in {_start_of(life), Transition.CANCELLED}:
        scheduled_until = life.started_at or change.at
        scheduled_for = scheduled_until.since(life.first_seen)
        yield _Measured("time_in_state", (event_type, "scheduled"), scheduled_for)
    if change.transition is not Transition.COMPLETED:
        return
    if life.started_at is not None:
        started_for = change.at.since(life.started_at)
        yield _Measured("time_in_state", (event_type, "started"), started_for)
    if life.observed_pause is not None:
        yield _Measured("pauses", (event_type,), life.observed_pause)


def _start_of(life: Lifecycle) -> Transition:
    """Return the transition with which it is known when the event began.

    If only a boot proves that it began, it is the one with which the event ended.
    """
    if life.proven_by_boot:
        return Transition.COMPLETED
    return Transition.STARTED


def _counted(change: Change) -> Iterator[tuple[str, int]]:
    """Yield what ``change`` adds to the :data:`_COUNTERS`: the name of a field, and a number.

    They count what was measured during events of this VM, each event once, at its end.
    """
    life = change.lifecycle
    if change.transition is not Transition.COMPLETED or life.has_returned or not life.is_mine:
        return
    if life.pauses:
        yield "pause_counts", life.pauses
    if life.tcp is not None:
        yield "retransmitted", life.tcp.retransmitted
        yield "timeouts", life.tcp.timeouts


@dataclass(slots=True)
class _Labels:
    """The event types and the sources that have series of their own, as ``label_limit`` permits.

    :meth:`relabelled` adds to them.
    """

    types: set[str]
    sources: set[str]

    @classmethod
    def of(cls, transitions: Mapping[TransitionKey, int]) -> "_Labels":
        """Return those that are in ``transitions``."""
        types = {event_type for event_type, _, _, _ in transitions}
        sources = {source for _, source, _, _ in transitions}
        return cls(types, sources)

    def relabelled(self, change: Change) -> Change:
        """Return ``change`` with the type and the source as which it is counted."""
        event = change.lifecycle.event
        event_type = label_for(event.event_type, self.types)
        source = label_for(event.source, self.sources)
        if (event_type, source) == (event.event_type, event.source):
            return change
        counted = replace(event, event_type=event_type, source=source)
        return replace(change, lifecycle=replace(change.lifecycle, event=counted))


def _count_transition(transitions: dict[TransitionKey, int], change: Change) -> None:
    """Count ``change`` in ``transitions``; add the series of what may follow, as 0."""
    life = change.lifecycle
    of_event = (life.event.event_type, life.event.source, str(life.scope))
    key = (*of_event, str(change.transition))
    transitions[key] = transitions.get(key, 0) + 1
    if life.is_mine:
        for transition in _FORESEEN:
            transitions.setdefault((*of_event, str(transition)), 0)
