"""What was measured of an event's impact on this VM, and why the rest was not. Pure.

Each question has a function that returns its answer; ``section`` puts them into a table.
"""

from azure_scheduled_events_exporter.core.document import Scope
from azure_scheduled_events_exporter.core.lifecycle import (
    Lifecycle,
    State,
    Transition,
    impact_values,
)
from azure_scheduled_events_exporter.core.records import seconds_between
from azure_scheduled_events_exporter.web.wording import impact, length, length_with_tenths

from .answer import Answer
from .course import has_restarted, is_end_watched, is_start_watched
from .model import Fact, Line, Section, Table
from .moments import utc

_HOW_LONG_INTERRUPTED = "How long the VM was interrupted"
_HOW_LONG_STARTED = "How long it was Started"
_TCP = "What happened to TCP connections"
_CLOCK = "Whether the clock was set"
_SMALLEST_STEP = 0.1
"""Seconds. Time synchronization always sets the clock by a little."""
_ABOUT_STARTED = (
    "An event stays Started for longer than its impact. What applications noticed, only their own"
    " metrics tell."
)
_ABOUT_TCP = (
    "TCP counts all connections of the exporter's network namespace: of the VM, or, in a pod"
    " without host network, of that pod."
)
# With "early" or "late".
_ABOUT_CLOCK = (
    "The clock of this VM was set while the event was Started, so it was wrong before. The times of"
    " pauses are by this clock: they may be too {} by up to as much."
)


def announced_duration(life: Lifecycle) -> Answer:
    """Return how long Azure expected the interruption to be."""
    question = "How long Azure expected the interruption to be"
    if life.event.duration_seconds is not None:
        return Answer(question, (impact(life.event.duration_seconds),))
    if life.state is State.ADVISORY:
        return Answer(question, ("none: it is advice",))
    return Answer(question, why="it announced no duration")


def _not_ours(life: Lifecycle) -> str:
    """Return why this VM measured nothing of an event that is not known to be its own."""
    if life.scope is Scope.UNKNOWN:
        return "it is not known whether this VM is one of its VMs, and only then it is measured"
    return "this VM is not one of its VMs, and measures only itself"


def _unmeasured(life: Lifecycle) -> str:
    """Return why all or a part of an event was not measured; ``""`` if nothing prevented it."""
    if not life.is_mine:
        return _not_ours(life)
    if life.proven_by_boot:
        return "nobody watched the start"
    if not life.announced and life.started_at is not None:
        return f"nobody measured before {utc(life.started_at.wall)}, when it was first seen"
    return ""


def interruption(life: Lifecycle) -> Answer:
    """Return how long this VM was interrupted."""
    if life.started_at is None:
        return _without_start(_HOW_LONG_INTERRUPTED, life)
    if not life.is_mine:
        return Answer(_HOW_LONG_INTERRUPTED, why=_not_ours(life))
    if life.observed_pause is None:
        why = _unmeasured(life) or "nobody measured from the start on"
        return Answer(_HOW_LONG_INTERRUPTED, why=why)
    if life.pauses == 0:
        return Answer(_HOW_LONG_INTERRUPTED, ("no pause of 0.1s or more was seen",))
    why = ""
    if is_pause_a_restart(life):
        # If nobody watched the start of the event, there is an observed pause only if the VM
        # restarted. So a part of the interruption can be missing only in this case.
        why = _unmeasured(life)
    return Answer(_HOW_LONG_INTERRUPTED, (_pause(life, life.observed_pause),), why)


def _without_start(question: str, life: Lifecycle) -> Answer:
    """Return what is known of the impact of an event that was not seen Started."""
    if life.outcome is Transition.LOST:
        return Answer(question, why="it disappeared while nobody watched")
    if life.state is State.ADVISORY:
        return Answer(question, ("nothing: advice schedules nothing",))
    if life.outcome is None:
        return Answer(question, ("nothing yet: it has not started",))
    return Answer(question, ("nothing: it never started",))


def _pause(life: Lifecycle, seconds: float) -> str:
    """Return the longest pause in words: how long it was, from when to when."""
    ended = life.pause_ended
    if ended is None:
        return f"{_of_pauses(life, seconds)}, at a time that is not recorded"
    began = utc(ended.wall - seconds)
    if ended.booted_at is None or not is_pause_a_restart(life):
        return f"{_of_pauses(life, seconds)}, from about {began} to {utc(ended.wall)}"
    return (
        f"away for at most {length_with_tenths(seconds)}{_of_several(life)}: from the last sign of"
        f" life, at about {began}, to the first look after the restart, at {utc(ended.wall)};"
        f" the VM booted at {utc(ended.booted_at.wall)}"
    )


def _of_pauses(life: Lifecycle, seconds: float) -> str:
    """Return the length of the longest pause, and how many there were."""
    if life.pauses > 1:
        return f"paused for {length_with_tenths(seconds)}{_of_several(life)}"
    return f"paused once, for {length_with_tenths(seconds)}"


def _of_several(life: Lifecycle) -> str:
    """Return what follows the length of a pause if there were more."""
    if life.pauses > 1:
        return f", the longest of {life.pauses} pauses"
    return ""


def is_pause_a_restart(life: Lifecycle) -> bool:
    """Return whether this VM restarted in its longest pause."""
    if life.pause_ended is None or life.observed_pause is None:
        return False
    booted_at = life.pause_ended.booted_at
    if booted_at is None:
        return False
    return booted_at.wall > life.pause_ended.wall - life.observed_pause


def time_started(life: Lifecycle) -> Answer:
    """Return how long the event was Started."""
    seconds = seconds_between(life.started_at, life.ended_at)
    if life.started_at is None:
        return Answer(_HOW_LONG_STARTED, ("not at all",))
    if seconds is None:
        return Answer(_HOW_LONG_STARTED, ("still Started",))
    if life.proven_by_boot:
        return Answer(_HOW_LONG_STARTED, why="nobody watched the start")
    if not life.announced:
        why = "the first document with it showed it Started"
        return Answer(_HOW_LONG_STARTED, (f"at least {length(seconds)}",), why)
    return _between_documents(life, seconds)


def _between_documents(life: Lifecycle, seconds: float) -> Answer:
    """Return how long an event was Started, as exactly as documents show it."""
    text = length(seconds)
    if is_start_watched(life) and is_end_watched(life):
        return Answer(_HOW_LONG_STARTED, (text,))
    if life.pending_until is None and life.shown_until is None:
        why = "nobody watched the start and the end"
        return Answer(_HOW_LONG_STARTED, (f"about {text}",), why)
    if life.pending_until is None:  # the start was seen late
        return Answer(_HOW_LONG_STARTED, (f"at least {text}",), "nobody watched the start")
    if life.shown_until is None:  # the end was seen late
        return Answer(_HOW_LONG_STARTED, (f"at most {text}",), "nobody watched the end")
    # Both were seen, but between documents that are too far apart to be exact.
    return Answer(_HOW_LONG_STARTED, (f"about {text}",))


def tcp(life: Lifecycle) -> Answer:
    """Return whether TCP was measured, and for which part of the event; not the figures."""
    return _covered(_TCP, life, is_measured=life.tcp is not None)


def clock(life: Lifecycle) -> Answer:
    """Return whether the step of the clock was measured, and for which part of the event."""
    return _covered(_CLOCK, life, is_measured=life.impact is not None)


def _covered(question: str, life: Lifecycle, *, is_measured: bool) -> Answer:
    """Return for which part of an event something was measured; not the figures."""
    if life.started_at is None:
        return _without_start(question, life)
    if not is_measured:
        return Answer(question, why=_unmeasured(life) or "it was not measured")
    seconds = seconds_between(life.started_at, life.ended_at)
    if has_restarted(life):
        why = "nothing was measured across the restart of the VM"
        return Answer(question, ("before the restart",), why)
    part = "so far"
    if seconds is not None:
        part = f"in {length(seconds)}"
    return Answer(question, (part,), _unmeasured(life))


def section(life: Lifecycle) -> Section:
    """Return the part of a report about the impact."""
    if life.started_at is None:
        return Section("Impact", facts=_facts_without_start(life))
    values = impact_values(life)
    rows = (
        _row("Interruption of the VM", announced_duration(life).line, "", interruption(life).line),
        _row(_HOW_LONG_STARTED, (), "", time_started(life).line),
        _row(
            "TCP segments sent again",
            (),
            _count(values["tcp_retransmitted_segments_minute_before"]),
            _figure(_count(values["tcp_retransmitted_segments"]), tcp(life)),
        ),
        _row(
            "TCP retransmission timeouts",
            (),
            _count(values["tcp_timeouts_minute_before"]),
            _figure(_count(values["tcp_timeouts"]), tcp(life)),
        ),
        _row("Step of the clock", (), "", _figure(_step(life), clock(life))),
    )
    heads = ("", "Announced by Azure", "In the minute before", "Measured on this VM")
    notes: list[Line] = [(_ABOUT_STARTED,)]
    if life.tcp is not None:
        notes.append((_ABOUT_TCP,))
    if life.impact is not None and abs(life.impact.clock_step) >= _SMALLEST_STEP:
        # A clock that was set forward was behind before.
        too = "early" if life.impact.clock_step > 0 else "late"
        notes.append((_ABOUT_CLOCK.format(too),))
    return Section("Impact", table=Table(heads, rows), notes=tuple(notes))


def _facts_without_start(life: Lifecycle) -> tuple[Fact, ...]:
    return (
        Fact("Announced interruption", announced_duration(life).line),
        Fact("Measured", interruption(life).line),
    )


def _row(name: str, expected: Line, before: str, measured: Line) -> tuple[Line, ...]:
    """Return a row: what was announced, what was counted in the minute before, and the result."""
    return ((name,), expected, (before,), measured)


def _count(value: float | None) -> str:
    """Return a counted number; ``""`` if nothing was counted."""
    if value is None:
        return ""
    return str(value)


def _figure(value: str, answer: Answer) -> Line:
    """Return a figure and the part of the event that it covers, or why there is none."""
    if not answer.known:
        return answer.line
    return (f"{value} ", *answer.line)


def _step(life: Lifecycle) -> str:
    """Return the step of the clock in words."""
    if life.impact is None or abs(life.impact.clock_step) < _SMALLEST_STEP:
        return "none of 0.1s or more"
    direction = "forward" if life.impact.clock_step > 0 else "backward"
    return f"{direction} by {abs(life.impact.clock_step):.1f}s"
