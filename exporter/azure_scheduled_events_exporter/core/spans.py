"""The trace of an event: returns the spans that a transition completes, as plain data.

Pure: no OpenTelemetry, no clock, no delivery (``tracing.delivery``). Every id is derived from the
EventId, a VM's name and the span's name (for a hook, also from the id of its run). So all VMs that
see an event build one trace without communication, and a span that is sent twice has the same id.
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

_MEASURED = frozenset({"started", ROOT})
"""The spans during which the event may have had an impact on this VM."""

_PREFIX = "azure.scheduled_event."
# Azure's spelling; uuid.UUID reads others too.
_GUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
AttributeValue = str | float | tuple[str, ...]


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
        trace_id: 32 hexadecimal digits; span_id: 16; parent_id: 16, or ``""`` for the root of the
            trace.
        start: seconds since the epoch; end: likewise, never before ``start``.
        attributes: by OpenTelemetry's rules: text, numbers, or a list of texts.
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
    """Return the trace of an event: the 128 bits of its GUID, or of a hash when it is none."""
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
            if life.proven_by_boot:
                return (*_until_started(life), *_open(life, at))
            return _open(life, at)
        case _:
            return ()


def unfinished(lives: Iterable[Lifecycle], now: Timestamp) -> tuple[SpanFacts, ...]:
    """Return the open spans of ``lives``, ended at ``now``.

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
    """Return the span of one run of ``hook``'s command for an event; ``run`` is its id."""
    span = _span(life, "hook", start, end)
    return replace(
        span,
        # An event may have several runs, so the name alone would give them one id. The VM's name
        # only makes the id differ from those of other VMs: no span refers to this one, so any
        # spelling of the name will do.
        span_id=span_id(life.event_id, life.own_name or life.vm_name or "", f"hook/{run}"),
        attributes={
            **span.attributes,
            **{f"{_PREFIX}hook.{name}": value for name, value in attributes.items()},
        },
    )


def _until_started(life: Lifecycle) -> tuple[SpanFacts, ...]:
    """Return the spans that end with the start; none if the event was first seen Started."""
    if life.started_at is None or not life.announced:
        return ()
    scheduled = _span(life, "scheduled", life.first_seen, life.started_at)
    if life.approved_by is Approver.DEADLINE:
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
    event = life.event
    # Other VMs compute this span's id from the spelling in Resources, as it was when this VM was
    # first known to be among them. A VM that Resources do not name has its own name.
    own = life.own_name or event.spelling(life.vm_name) or (life.vm_name or "").lstrip("_")
    # The root span of the VM that Resources name first is the root of the trace.
    leader = own
    if event.resources:
        leader = event.resources[0].lstrip("_")
    parent = ""
    if name != ROOT:
        parent = span_id(event.event_id, own, ROOT)
    elif own != leader:
        parent = span_id(event.event_id, leader, ROOT)
    events: tuple[SpanEvent, ...] = ()
    if name == ROOT:
        events = tuple(_span_event(move) for move in life.moves)
    return SpanFacts(
        trace_id=trace_id(event.event_id),
        span_id=span_id(event.event_id, own, name),
        parent_id=parent,
        name=name,
        start=start.wall,
        end=max(start.wall, end.wall),
        attributes=_attributes(life, with_impact=name in _MEASURED),
        events=events,
    )


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
    """Return the attributes of a span; ``with_impact``: also what was measured."""
    event = life.event
    values: dict[str, AttributeValue | None] = {}
    for name, value in event_values(event).items():
        values[name.removeprefix("event_")] = value
    if life.not_before is not None:
        values["not_before"] = iso_time(life.not_before)
    if with_impact:
        values |= impact_values(life)
    values |= {
        "outcome": life.outcome and str(life.outcome),
        "approved_by": life.approved_by and str(life.approved_by),
        "notice_seconds": life.notice_seconds,
    }
    return {_PREFIX + key: value for key, value in values.items() if value not in {None, ""}}
