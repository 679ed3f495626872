"""The counters and histograms of all transitions.

A pure fold over ``core.lifecycle.Change``, so that a restart can rebuild it from the journal. Must not depend on a
metric library or on polls.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .document import Scope
from .event_types import EventType
from .lifecycle import Approver, Change, Transition

TransitionKey = tuple[str, str, str, str]
"""event_type, event_source, scope, transition"""

# Every bound is a limit that matters to users: no notice, the documented notices (30 s, 5, 10, 15 min), days for a
# predicted failure. A bound costs each VM up to 20 series. With these, an exporter that has been through all shipped
# scenarios has less than 400, which docs/fleet.md counts.
NOTICE_BOUNDS = (0.0, 30.0, 300.0, 600.0, 900.0, 86400.0)
LATENCY_BOUNDS = (1.0, 30.0, 300.0, 900.0, 3600.0)
PHASE_BOUNDS = (10.0, 60.0, 300.0, 1200.0)
# Noise ends at 0.1 s; a live migration takes up to 5 s, a Freeze up to 30 s; what lasts minutes was a boot.
PAUSE_BOUNDS = (0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 120.0)


@dataclass(frozen=True, slots=True)
class Histogram:
    """The number of values in each bucket; ``counts`` has one more entry than ``bounds``, for larger values."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float = 0.0

    def __post_init__(self) -> None:
        """Refuse counts that do not belong to the bounds."""
        if len(self.counts) != len(self.bounds) + 1:
            raise ValueError(f"{len(self.counts)} counts for {len(self.bounds)} bounds")

    @classmethod
    def empty(cls, bounds: tuple[float, ...]) -> "Histogram":
        """Return a histogram over ``bounds`` (ascending) without values."""
        return cls(bounds, (0,) * (len(bounds) + 1))

    def observe(self, *values: float) -> "Histogram":
        """Return the histogram with ``values`` counted too."""
        counts = list(self.counts)
        for value in values:
            counts[bisect_left(self.bounds, value)] += 1
        return Histogram(self.bounds, tuple(counts), self.total + sum(values))


_FORESEEN = tuple(transition for transition in Transition if transition is not Transition.WITHDRAWN)
"""Transitions whose series exist as 0 before the first one. Only advice is withdrawn, and nothing alerts on it."""


def _initial_transitions() -> dict[TransitionKey, int]:
    """Return the series that exist from the start as 0: ``increase()`` misses a counter's step from nothing to 1.

    Each type with each transition, but only of the type's usual source: every series costs each VM of a fleet. Those of
    another source exist once an event of it was seen (:meth:`Statistics.plus`).
    """
    return {
        (str(event_type), event_type.facts.usual_source, str(Scope.SELF), str(transition)): 0
        for event_type in EventType
        for transition in _FORESEEN
    }


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one transition adds to the statistics; times in seconds, None for values that it does not give.

    Attributes:
        notice: the notice given.
        latency: from first seen to approved; ``approved_by`` has the approver.
        scheduled: length of the phase Scheduled, if it ended here; started: of the phase Started.
        pause: seconds of this VM's longest pause, if the event ended here; pauses: how many there were.
    """

    event_type: str
    source: str
    scope: str
    transition: str
    notice: float | None = None
    latency: float | None = None
    approved_by: str = ""
    scheduled: float | None = None
    started: float | None = None
    pause: float | None = None
    pauses: int | None = None

    @property
    def is_own(self) -> bool:
        """Whether the event is one of this VM."""
        return self.scope == Scope.SELF

    def observations(self) -> Iterator[tuple[str, tuple[str, ...], float]]:
        """Yield the values for the histograms of :class:`Statistics`: field, key and value.

        They count events of this VM, and approvals from this VM, so that a sum over a fleet counts each event once for
        each VM that it affects.
        """
        for name, word, value, is_counted in (
            ("notice", (), self.notice, self.is_own),
            ("approval_latency", (self.approved_by,), self.latency, self.is_own or self.approved_by in _HERE),
            ("phases", ("scheduled",), self.scheduled, self.is_own),
            ("phases", ("started",), self.started, self.is_own),
            ("pauses", (), self.pause, self.is_own),
        ):
            if value is not None and is_counted:
                yield name, (self.event_type, *word), value


def measure(change: Change) -> Measurement:
    """Return what ``change`` adds to the statistics.

    Each phase of an event is measured once, not again when it ends after a wrong end. A lost event ends no phase,
    because its end was not observed.
    """
    life, transition, at = change.lifecycle, change.transition, change.at
    began = Transition.COMPLETED if life.proven_by_boot else Transition.STARTED
    decided = began if life.approved_by is Approver.DEADLINE else Transition.APPROVED
    latency = scheduled = started = pause = None
    if transition is decided and life.approved_at is not None and life.wrong_end is not Transition.COMPLETED:
        latency = life.approved_at.since(life.first_seen)
    was_waiting = life.announced and life.wrong_end not in {Transition.CANCELLED, Transition.COMPLETED}
    if was_waiting and transition in {began, Transition.CANCELLED}:
        scheduled = (life.started_at or at).since(life.first_seen)
    if transition is Transition.COMPLETED and life.wrong_end is not Transition.COMPLETED:
        started = None if life.started_at is None else at.since(life.started_at)
        pause = life.observed_pause
    return Measurement(
        event_type=life.event.event_type,
        source=life.event.source,
        # Resources may leave this VM out while its event goes on: the event's end belongs to its beginning.
        scope=str(Scope.SELF if life.is_mine else life.scope),
        transition=str(transition),
        notice=life.notice_seconds if transition is Transition.DETECTED else None,
        latency=latency,
        approved_by="" if latency is None else str(life.approved_by),
        scheduled=scheduled,
        started=started,
        pause=pause,
        pauses=None if pause is None else life.pauses,
    )


_HERE = frozenset({Approver.EXPORTER, Approver.OPERATOR})
_BOUNDS: Mapping[str, tuple[float, ...]] = {
    "notice": NOTICE_BOUNDS,
    "approval_latency": LATENCY_BOUNDS,
    "phases": PHASE_BOUNDS,
    "pauses": PAUSE_BOUNDS,
}


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counters and histograms of all transitions. Immutable: :meth:`plus` returns a new object.

    Attributes:
        transitions: how often each happened, by :data:`TransitionKey`.
        notice: seconds of notice, by event type.
        approval_latency: seconds from first seen to approved, by event type and approver.
        phases: seconds spent Scheduled and Started, by event type and phase.
        pauses: seconds of this VM's longest pause while an event of it was Started, by event type.
        pause_counts: how many pauses there were, by event type.
    """

    transitions: Mapping[TransitionKey, int] = field(default_factory=_initial_transitions)
    notice: Mapping[tuple[str], Histogram] = field(default_factory=dict)
    approval_latency: Mapping[tuple[str, str], Histogram] = field(default_factory=dict)
    phases: Mapping[tuple[str, str], Histogram] = field(default_factory=dict)
    pauses: Mapping[tuple[str], Histogram] = field(default_factory=dict)
    pause_counts: Mapping[tuple[str], int] = field(default_factory=dict)

    def plus(self, measured: Iterable[Measurement]) -> "Statistics":
        """Return the statistics with ``measured`` counted too."""
        transitions, pause_counts = dict(self.transitions), dict(self.pause_counts)
        histograms: dict[str, Any] = {name: dict(getattr(self, name)) for name in _BOUNDS}
        for one in measured:
            key = (one.event_type, one.source, one.scope, one.transition)
            transitions[key] = transitions.get(key, 0) + 1
            if one.is_own:  # series of possible next transitions exist as 0 before they happen
                for transition in _FORESEEN:
                    transitions.setdefault((*key[:3], str(transition)), 0)
                if one.pauses:
                    pause_counts[one.event_type,] = pause_counts.get((one.event_type,), 0) + one.pauses
            for name, labels, value in one.observations():
                before = histograms[name].get(labels, Histogram.empty(_BOUNDS[name]))
                histograms[name][labels] = before.observe(value)
        return Statistics(transitions, pause_counts=pause_counts, **histograms)
