"""The trace of an event: returns the spans that a transition completes, as plain data.

Pure: no OpenTelemetry, no clock, no delivery (``tracing.delivery``). Each trace id is derived from
the EventId, and each span id from the EventId, a VM's name and the span's name (for a hook, also
from the id of its run). So all VMs that see an event build one trace without communication, and a
span that is sent twice has the same id.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from azure_scheduled_events_exporter.times import iso_time

from .document import event_values
from .lifecycle import Approver, Change, Lifecycle, Move, State, Transition, impact_values
from .timestamp import Timestamp

ROOT = "scheduled_event"
"""The span of the whole life.

The others are detected, scheduled, approval, started and hook.
"""

_WITH_IMPACT = frozenset({"started", ROOT})
"""The spans whose attributes include the measured impact: the event has its impact during them."""

_PREFIX = "azure.scheduled_event."
"""The beginning of each attribute's name."""

# Azure's spelling in lower case; uuid.UUID reads others too.
_GUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

AttributeValue = str | float | tuple[str, ...]
"""What OpenTelemetry permits as the value of an attribute."""


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """An event within a span: its name, its time (seconds since the epoch), and its attributes."""

    name: str
    at: float
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SpanFacts:
    """One finished span.

    Attributes:
        trace_id: 32 hexadecimal digits.
        span_id: 16 hexadecimal digits.
        parent_id: the ``span_id`` of the span above it; ``""`` for the root of the trace.
        name: such as ``scheduled_event`` or ``started``.
        start: seconds since the epoch.
        end: likewise, never before ``start``.
        attributes: their names begin with ``azure.scheduled_event.``.
        events: what happened within it, oldest first.
    """

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    start: float
    end: float
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    events: tuple[SpanEvent, ...] = ()


def trace_id(event_id: str) -> str:
    """Return the trace id of an event: the digits of its GUID, or of a hash when it is no GUID."""
    lower = event_id.lower()
    if _GUID.fullmatch(lower):
        digits = lower.replace("-", "")
        if digits.strip("0"):  # all zeros are no valid trace id
            return digits
    return hashlib.sha256(lower.encode()).hexdigest()[:32]


def span_id(event_id: str, vm_name: str, span_name: str) -> str:
    """Return the id of one VM's span of an event."""
    return hashlib.sha256(f"{event_id.lower()}/{vm_name}/{span_name}".encode()).hexdigest()[:16]


def is_traced(life: Lifecycle, *, peers_too: bool) -> bool:
    """Return whether this VM sends spans of ``life``.

    Until its own name is known, it sends none.
    """
    return bool(life.vm_name) and (life.is_mine or peers_too)


def finished(change: Change) -> tuple[SpanFacts, ...]:
    """Return the spans that are complete with ``change``."""
    life = change.lifecycle
    at = change.at
    match change.transition:
        case Transition.DETECTED:
            # Sent immediately, so that the trace exists before the VM goes away.
            return (_span(life, "detected", life.first_seen, life.first_seen),)
        case Transition.APPROVED:
            return (_span(life, "approval", life.first_seen, life.approved_at or at),)
        case Transition.STARTED:
            return _until_started(life)
        case Transition.COMPLETED | Transition.CANCELLED | Transition.LOST | Transition.WITHDRAWN:
            if life.proven_by_boot:  # no transition has completed the spans until the start
                return (*_until_started(life), *_open(life, at))
            return _open(life, at)
        case _:  # RESCHEDULED and RETURNED are events within the root span
            return ()


def unfinished(lives: Iterable[Lifecycle], now: Timestamp) -> tuple[SpanFacts, ...]:
    """Return the spans of ``lives`` that are not complete, ended at ``now``.

    They are for an exporter that is stopped during an event.
    """
    return tuple(span for life in lives for span in _open(life, now))


def hook_run(
    life: Lifecycle,
    run: str,
    start: Timestamp,
    end: Timestamp,
    attributes: Mapping[str, AttributeValue],
) -> SpanFacts:
    """Return the span of one run of ``hook``'s command for an event.

    ``run`` is the id of the run: an event may have several, and each has a span. ``attributes``
    are added to those of the event, with ``hook.`` in front of their names.
    """
    span = _span(life, "hook", start, end)
    of_run = {f"{_PREFIX}hook.{name}": value for name, value in attributes.items()}
    # No other span is below this one, so no VM has to compute its id: any spelling of the VM's name
    # will do.
    vm_name = life.own_name or life.vm_name or ""
    return replace(
        span,
        span_id=span_id(life.event_id, vm_name, f"hook/{run}"),
        attributes={**span.attributes, **of_run},
    )


def _until_started(life: Lifecycle) -> tuple[SpanFacts, ...]:
    """Return the spans that end with the start; none if the event was first seen Started."""
    if life.started_at is None or not life.announced:
        return ()
    scheduled = _span(life, "scheduled", life.first_seen, life.started_at)
    if life.approved_by is Approver.DEADLINE:  # which no transition ``approved`` shows
        return (scheduled, _span(life, "approval", life.first_seen, life.started_at))
    return (scheduled,)


def _open(life: Lifecycle, until: Timestamp) -> tuple[SpanFacts, ...]:
    """Return the root span and the span of the current state, both ended at ``until``.

    Advice is neither scheduled nor started, so it has the root span alone.
    """
    if life.state is State.ADVISORY:
        return (_span(life, ROOT, life.first_seen, until),)
    name = "scheduled"
    since = life.first_seen
    if life.started_at is not None:
        name = "started"
        since = life.started_at
    return (_span(life, name, since, until), _span(life, ROOT, life.first_seen, until))


def _span(life: Lifecycle, name: str, start: Timestamp, end: Timestamp) -> SpanFacts:
    """Return this VM's span ``name`` of an event."""
    event_id = life.event_id
    own = _own_name(life)
    parent_id = ""
    events: tuple[SpanEvent, ...] = ()
    if name != ROOT:
        parent_id = span_id(event_id, own, ROOT)
    else:
        leader = _leader(life)
        if own != leader:
            parent_id = span_id(event_id, leader, ROOT)
        events = tuple(_span_event(move) for move in life.moves)
    return SpanFacts(
        trace_id=trace_id(event_id),
        span_id=span_id(event_id, own, name),
        parent_id=parent_id,
        name=name,
        start=start.wall,
        end=max(start.wall, end.wall),
        attributes=_attributes(life, with_impact=name in _WITH_IMPACT),
        events=events,
    )


def _own_name(life: Lifecycle) -> str:
    """Return this VM's name in the ids of its spans.

    If Resources name this VM, it is their first spelling of the name: other VMs see the same one,
    and compute the same ids from it. If not, it is the name by which this VM knows itself. The
    underscore that :func:`.document.comparable_name` explains is left out.
    """
    in_resources = life.own_name or life.event.spelling(life.vm_name)
    if in_resources:
        return in_resources
    return (life.vm_name or "").lstrip("_")


def _leader(life: Lifecycle) -> str:
    """Return the name of the VM whose root span is the root of the trace.

    It is the VM that Resources name first; this VM if they name none. The name is spelled as by
    :func:`_own_name`.
    """
    if not life.event.resources:
        return _own_name(life)
    return life.event.resources[0].lstrip("_")


def _span_event(move: Move) -> SpanEvent:
    """Return a reschedule or a return as an event of the root span."""
    times = {"not_before": move.not_before, "previous_not_before": move.previous_not_before}
    attributes = {
        f"{_PREFIX}{name}": iso_time(seconds)
        for name, seconds in times.items()
        if seconds is not None
    }
    return SpanEvent(str(move.transition), move.at.wall, attributes)


def _attributes(life: Lifecycle, *, with_impact: bool) -> dict[str, AttributeValue]:
    """Return the attributes of a span, without those that have no value.

    ``with_impact``: whether the measured impact is among them.
    """
    values: dict[str, AttributeValue | None] = {}
    for name, value in event_values(life.event).items():
        values[name.removeprefix("event_")] = value
    if life.not_before is not None:
        values["not_before"] = iso_time(life.not_before)
    if with_impact:
        values |= impact_values(life)
    if life.outcome is not None:
        values["outcome"] = str(life.outcome)
    if life.approved_by is not None:
        values["approved_by"] = str(life.approved_by)
    values["notice_seconds"] = life.notice_seconds
    return {_PREFIX + name: value for name, value in values.items() if value not in {None, ""}}
