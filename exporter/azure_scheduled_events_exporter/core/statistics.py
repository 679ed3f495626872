"""The counters and histograms of all transitions.

A pure fold over ``core.lifecycle.Change``, so that a restart can rebuild it from the journal. Must not depend on a
metric library or on polls.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from .document import Scope
from .event_types import EventType
from .lifecycle import Approver, Change, Lifecycle, Transition

_Key = TypeVar("_Key")
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

    def observe(self, value: float) -> "Histogram":
        """Return the histogram with ``value`` counted too."""
        index = bisect_left(self.bounds, value)
        counts = (*self.counts[:index], self.counts[index] + 1, *self.counts[index + 1 :])
        return replace(self, counts=counts, total=self.total + value)

    def together(self, other: "Histogram") -> "Histogram":
        """Return the histogram with the values of another one, over the same bounds, counted too."""
        counts = tuple(map(sum, zip(self.counts, other.counts, strict=True)))
        return Histogram(self.bounds, counts, self.total + other.total)

    def over(self, bounds: tuple[float, ...]) -> "Histogram":
        """Return the histogram with other ``bounds``: values of a removed bucket count in the next larger one."""
        if bounds == self.bounds:
            return self
        counts = [0] * (len(bounds) + 1)
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            counts[bisect_left(bounds, bound)] += count
        return Histogram(bounds, tuple(counts), self.total)


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


def measure(change: Change) -> Measurement:
    """Return what ``change`` adds to the statistics."""
    life = change.lifecycle
    latency = None
    if _settles_approval(change) and life.approved_at is not None:
        latency = life.approved_at.since(life.first_seen)
    phases = dict(phase_durations(change))
    is_measured = change.transition is Transition.COMPLETED and life.wrong_end is not Transition.COMPLETED
    pause = life.observed_pause if is_measured else None
    return Measurement(
        event_type=life.event.event_type,
        source=life.event.source,
        # Resources may leave this VM out while its event goes on: the event's end belongs to its beginning.
        scope=str(Scope.SELF if life.is_mine else life.scope),
        transition=str(change.transition),
        notice=life.notice_seconds if change.transition is Transition.DETECTED else None,
        latency=latency,
        approved_by="" if latency is None else str(life.approved_by),
        scheduled=phases.get("scheduled"),
        started=phases.get("started"),
        pause=pause,
        pauses=None if pause is None else life.pauses,
    )


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
        """Return the statistics with ``measured`` counted too.

        Histograms count events of this VM, and approvals from this VM, so that a sum over a fleet counts each event
        once for each VM that it affects.
        """
        transitions, pause_counts = dict(self.transitions), dict(self.pause_counts)
        notice, latency = _Sums(self.notice, NOTICE_BOUNDS), _Sums(self.approval_latency, LATENCY_BOUNDS)
        phases, pauses = _Sums(self.phases, PHASE_BOUNDS), _Sums(self.pauses, PAUSE_BOUNDS)
        own: set[tuple[str, str, str]] = set()
        for one in measured:
            key = (one.event_type, one.source, one.scope, one.transition)
            transitions[key] = transitions.get(key, 0) + 1
            is_own = one.scope == Scope.SELF
            if is_own and key[:3] not in own:  # series of possible next transitions exist as 0 before they happen
                own.add(key[:3])
                for transition in _FORESEEN:
                    transitions.setdefault((*key[:3], str(transition)), 0)
            if is_own or one.approved_by in {Approver.EXPORTER, Approver.OPERATOR}:
                latency.observe((one.event_type, one.approved_by), one.latency)
            if not is_own:
                continue
            notice.observe((one.event_type,), one.notice)
            phases.observe((one.event_type, "scheduled"), one.scheduled)
            phases.observe((one.event_type, "started"), one.started)
            pauses.observe((one.event_type,), one.pause)
            if one.pauses:
                pause_counts[one.event_type,] = pause_counts.get((one.event_type,), 0) + one.pauses
        return Statistics(
            transitions, notice.histograms, latency.histograms, phases.histograms, pauses.histograms, pause_counts
        )

    def together(self, *others: "Statistics") -> "Statistics":
        """Return the statistics with what ``others`` have counted."""
        result = self
        for other in others:
            result = Statistics(
                _added(result.transitions, other.transitions),
                _joined(result.notice, other.notice),
                _joined(result.approval_latency, other.approval_latency),
                _joined(result.phases, other.phases),
                _joined(result.pauses, other.pauses),
                _added(result.pause_counts, other.pause_counts),
            )
        return result


def _added(one: Mapping[_Key, int], other: Mapping[_Key, int]) -> dict[_Key, int]:
    return {**one, **{key: one.get(key, 0) + count for key, count in other.items()}}


def _joined(one: Mapping[_Key, Histogram], other: Mapping[_Key, Histogram]) -> dict[_Key, Histogram]:
    return {**one, **{key: one[key].together(each) if key in one else each for key, each in other.items()}}


class _Sums(Generic[_Key]):
    """Histograms that grow in place, so that a journal of hundreds of thousands of transitions is read in seconds."""

    def __init__(self, before: Mapping[_Key, Histogram], bounds: tuple[float, ...]) -> None:
        self._before = before
        self._bounds = bounds
        self._counts: dict[_Key, list[int]] = {}
        self._totals: dict[_Key, float] = {}

    def observe(self, key: _Key, value: float | None) -> None:
        """Count ``value``, unless it is None."""
        if value is None:
            return
        counts = self._counts.get(key)
        if counts is None:
            before = self._before.get(key, Histogram.empty(self._bounds))
            counts = self._counts[key] = list(before.counts)
            self._totals[key] = before.total
        counts[bisect_left(self._bounds, value)] += 1
        self._totals[key] += value

    @property
    def histograms(self) -> dict[_Key, Histogram]:
        """The histograms now."""
        grown = {key: Histogram(self._bounds, tuple(counts), self._totals[key]) for key, counts in self._counts.items()}
        return {**self._before, **grown}


def phase_durations(change: Change) -> list[tuple[str, float]]:
    """Return the phases that ended with ``change``, with the seconds they lasted; each phase of an event once.

    A lost event ends no phase, because its end was not observed. A phase that ended with a wrong end, before the
    event returned, is not measured again.
    """
    life = change.lifecycle
    waited = [] if life.wrong_end in {Transition.CANCELLED, Transition.COMPLETED} else ["scheduled"]
    match change.transition:
        case Transition.STARTED if not _began_started(life):
            return [(phase, change.at.since(life.first_seen)) for phase in waited]
        case Transition.CANCELLED:
            return [(phase, change.at.since(life.first_seen)) for phase in waited]
        case Transition.COMPLETED if life.started_at is not None and life.wrong_end is not Transition.COMPLETED:
            started = ("started", change.at.since(life.started_at))
            if life.proven_by_boot:
                return [*((phase, life.started_at.since(life.first_seen)) for phase in waited), started]
            return [started]
        case _:
            return []


def _settles_approval(change: Change) -> bool:
    """Return whether ``change`` decides who approved the event: the approval itself, or a start at NotBefore."""
    life = change.lifecycle
    if life.wrong_end is Transition.COMPLETED:  # decided before the event returned
        return False
    if life.approved_by is not Approver.DEADLINE:
        return change.transition is Transition.APPROVED
    return change.transition is (Transition.COMPLETED if life.proven_by_boot else Transition.STARTED)


def _began_started(life: Lifecycle) -> bool:
    return life.started_at == life.first_seen
