"""Converts events and durations to text for the status page, reports and tables.

Pure. The script of the page (``status.js``) writes durations in the same way.
"""

from collections.abc import Mapping
from typing import Final

from azure_scheduled_events_exporter.core.document import EventSource, Scope
from azure_scheduled_events_exporter.core.event_types import EVENT_FACTS, NO_INTERRUPTION
from azure_scheduled_events_exporter.core.lifecycle import (
    Approver,
    Kind,
    Lifecycle,
    State,
    Transition,
)
from azure_scheduled_events_exporter.core.statistics import PAUSE_BOUNDS
from azure_scheduled_events_exporter.snapshot.hooks import HookRun, RunOutcome
from azure_scheduled_events_exporter.times import iso_time

from .html import Markup, tag

LONGEST_TEXT = 500
"""Maximum number of characters shown of a text from IMDS; ``/api/v1/events`` has the whole text."""

_MINUTE = 60.0
_NOISE = PAUSE_BOUNDS[0]  # seconds: shorter pauses and smaller clock steps are not measured well
_MOST_UNITS = 3
_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))

SOURCES: Mapping[str, str] = {
    EventSource.PLATFORM: "Platform: initiated by Azure",
    EventSource.USER: "User: initiated by somebody with access to the VM",
    "": "unknown: this api-version does not say",
}

WHOSE = {Scope.SELF: "this VM", Scope.PEER: "other VMs", Scope.UNKNOWN: "possibly this VM"}
"""Whom an event affects, by its scope."""

OUTCOMES: Mapping[Transition, tuple[str, str]] = {
    Transition.COMPLETED: ("completed", "The event started and ended."),
    Transition.CANCELLED: (
        "cancelled",
        "The event disappeared before NotBefore: Azure cancelled it.",
    ),
    Transition.LOST: ("lost", "The event disappeared, and it is unknown whether it happened."),
    Transition.WITHDRAWN: ("withdrawn", "Azure no longer gives this advice."),
}

_APPROVERS: Mapping[Approver, str] = {
    Approver.EXPORTER: "approved by this exporter's policy",
    Approver.OPERATOR: "approved by an operator on this VM",
    Approver.HOOK: "approved by a script on this VM, which was ready",
    Approver.EXTERNAL: (
        "approved by another VM, a program here, Azure's API or Azure's own policy: "
        "it started before NotBefore"
    ),
    Approver.DEADLINE: "not approved: it started at NotBefore",
}
_UNWATCHED = "not approved from here: it started at NotBefore or later, while nobody watched"

ANY_MOMENT = "may begin at any moment"
"""When an event begins whose NotBefore has passed."""

HOOK_OUTCOMES: Mapping[str, str] = {
    RunOutcome.OK: "done",
    RunOutcome.FAILED: "failed",
    RunOutcome.TIMEOUT: "stopped at its deadline",
    RunOutcome.TOO_LATE: "too late",
    RunOutcome.CANCELLED: "stopped, because the event was cancelled",
}

_NO_END: Final = "running, or interrupted"
"""A hook that is down cannot record that its run has ended."""

RUNBOOKS: Mapping[Kind, str] = {
    Kind.REQUESTED: "AzureScheduledEventRequested",
    Kind.WITHOUT_NOTICE: "AzureScheduledEventWithoutNotice",
    Kind.HARMLESS: "",
    Kind.FAR_AHEAD: "AzureScheduledEventDegradedHost",
    Kind.ADVISORY: "AzureScheduledEventEvictionRisk",
    Kind.UNKNOWN_TYPE: "AzureScheduledEventUnknownType",
}
"""The alerts of the kinds whose alert is not one of the type; harmless events raise none."""

KINDS: Mapping[Kind, str] = {
    Kind.ANNOUNCED: "announced by Azure",
    Kind.REQUESTED: "requested by a user",
    Kind.WITHOUT_NOTICE: "without notice: the host has probably failed",
    Kind.HARMLESS: "harmless: no interruption, or a short pause",
    Kind.FAR_AHEAD: "more than a day ahead",
    Kind.ADVISORY: "advice: nothing is scheduled",
    Kind.UNKNOWN_TYPE: "of an unknown type",
}


def runbook(life: Lifecycle) -> str:
    """Return the name of the alert for an event, which is that of its runbook; ``""`` for none."""
    if life.kind is Kind.ANNOUNCED:
        known = life.event.event_type in EVENT_FACTS
        return f"AzureScheduledEvent{life.event.event_type if known else 'UnknownType'}"
    return RUNBOOKS[life.kind]


def hook_status(run: HookRun) -> str:
    """Return with which exit status or by which signal a hook's command has ended.

    It follows the outcome, as in "failed with exit status 3"; ``""`` for the exit status 0, and if
    neither is known.
    """
    if run.exit_status:
        return f" with exit status {run.exit_status}"
    if run.signal:
        return f" with {run.signal}"
    return ""


def hook_run(run: HookRun) -> str:
    """Return what a hook did for an event."""
    text = f"{run.phase}: {HOOK_OUTCOMES.get(run.outcome or '', run.outcome or _NO_END)}"
    text += hook_status(run)
    if run.duration is not None:
        text += f" after {length(run.duration)}"
    if run.seconds_left is not None and run.seconds_left >= 0:
        text += f", {length(run.seconds_left)} before NotBefore"
    elif run.seconds_left is not None:
        text += f", {length(-run.seconds_left)} after NotBefore"
    return text


def measured(life: Lifecycle) -> list[str]:
    """Return what an event did to this VM, each in a few words; nothing if nobody measured."""
    found = []
    if life.observed_pause is not None:
        found.append(f"this VM was paused for {paused(life.observed_pause)}")
    if life.impact is not None and life.tcp is not None:
        before = life.impact.before
        beside = "" if before is None else f" ({before.retransmitted} in the minute before)"
        found.append(f"{life.tcp.retransmitted} TCP segments were sent again{beside}")
        if life.tcp.timeouts:
            found.append(f"{life.tcp.timeouts} TCP timeouts")
    if life.impact is not None and abs(life.impact.clock_step) >= _NOISE:
        found.append(f"the clock was set by {life.impact.clock_step:+.1f}s")
    return found


def meaning(life: Lifecycle) -> str:
    """Return what the event does to the affected VMs."""
    known = EVENT_FACTS.get(life.event.event_type)
    if life.event.duration_seconds == 0:
        return NO_INTERRUPTION
    if life.state is State.ADVISORY:
        return "Advice, such as that this Spot VM may be evicted soon. Azure has scheduled nothing."
    if known is None:
        what = "Azure documents no such type" if life.event.event_type else "Azure sent no type"
        return (
            f"{what}, so its effect is unknown. Prepare for the loss of the VM, and read the"
            " description."
        )
    return known.meaning.format("this VM" if life.scope is Scope.SELF else "each affected VM")


def approver(life: Lifecycle) -> str:
    """Return who approved ``life``; ``""`` if nobody has, as far as is known."""
    by = life.approved_by
    if by is None:
        return ""
    if by is Approver.DEADLINE and not life.was_waiting_when_due:
        return _UNWATCHED
    return _APPROVERS[by]


def title(life: Lifecycle) -> str:
    """Return the type as a title."""
    return clipped(life.event.event_type) or "Event without a type"


def standing(life: Lifecycle) -> str:
    """Return the status as Azure spells it."""
    if life.state is State.OTHER:
        return clipped(life.event.status) or "no status"
    return str(life.state)


def impact(seconds: float | None) -> str:
    """Return the announced duration of the impact."""
    if seconds is None:
        return "unknown"
    return length(seconds) if seconds else "none: no interruption"


def length(seconds: float) -> str:
    """Return ``seconds`` in up to three units that follow each other: ``2d 0h 14m``, ``14m 32s``.

    Fractions of a second are cut off, and units at the end of which there are none.
    """
    rest = int(seconds)
    parts: list[str] = []  # from the first unit of which there are any
    told = 0  # how many parts are written: up to the last of which there are any
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        if count or parts:
            parts.append(f"{count}{unit}")
        if count and len(parts) <= _MOST_UNITS:
            told = len(parts)
    return " ".join(parts[:told]) or "0s"


def paused(seconds: float) -> str:
    """Return how long this VM was paused, with tenths of a second below a minute."""
    if seconds < _NOISE:
        return f"less than {_NOISE:g}s"
    return f"{seconds:.1f}s" if seconds < _MINUTE else length(seconds)


def left(seconds: float) -> str:
    """Return the time until NotBefore."""
    if abs(seconds) < 1:
        return "due now"
    return f"in {length(seconds)}" if seconds > 0 else ANY_MOMENT


def ago(seconds: float) -> str:
    """Return how long ago something was; never negative, even if the clock was set back."""
    return f"{length(max(0.0, seconds))} ago"


def clipped(text: str) -> str:
    """Return the beginning of a text from IMDS."""
    return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "…"


def foreign(text: str) -> Markup:
    """Return a text from IMDS, isolated.

    Its writing direction cannot affect the text around it.
    """
    return tag("bdi", clipped(text))


def moment(seconds: float) -> Markup:
    """Return a time (seconds since the epoch) as an HTML ``time`` element."""
    written = iso_time(seconds)
    return tag("time", written.replace("T", " ").replace("Z", " UTC"), datetime=written)


def since(seconds: float, now: float) -> Markup:
    """Return how long ago a time was; the page's script keeps it up to date."""
    return tag("time", ago(now - seconds), datetime=iso_time(seconds), data_since=seconds)
