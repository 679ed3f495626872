"""Writes events and durations in words, for the status page, reports and tables.

Returns plain text, never HTML (``elements``). Pure. The script of the page (``status.js``) writes
durations in the same way.
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

LONGEST_TEXT = 500
"""Maximum number of characters shown of a text from IMDS; ``/api/v1/events`` has the whole text."""

_MINUTE = 60.0
_NOISE = PAUSE_BOUNDS[0]  # seconds: shorter pauses and smaller clock steps are not measured well
_MOST_UNITS = 3  # of a duration in words
_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))  # with their seconds

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
"""How an event has ended: in one word, and in a sentence."""

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
"""The outcome of a run without a recorded end: a hook that is down cannot record the end."""

REPORT: Final = "Report, as root or the exporter's user on this VM: "
"""What precedes the command that prints the report of an event: who may run it, and where."""

_RUNBOOKS: Mapping[Kind, str] = {
    Kind.REQUESTED: "AzureScheduledEventRequested",
    Kind.WITHOUT_NOTICE: "AzureScheduledEventWithoutNotice",
    Kind.HARMLESS: "",
    Kind.FAR_AHEAD: "AzureScheduledEventDegradedHost",
    Kind.ADVISORY: "AzureScheduledEventEvictionRisk",
    Kind.UNKNOWN_TYPE: "AzureScheduledEventUnknownType",
}
"""The alert of each kind; harmless events have none.

The kind that is missing, ``ANNOUNCED``, has an alert for each type of event.
"""

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
    if life.kind is not Kind.ANNOUNCED:
        return _RUNBOOKS[life.kind]
    # An event is ANNOUNCED also as long as its kind has not been decided. Then its type may be any
    # text from IMDS, which must not get into the name.
    if life.event.event_type not in EVENT_FACTS:
        return _RUNBOOKS[Kind.UNKNOWN_TYPE]
    return f"AzureScheduledEvent{life.event.event_type}"


def hook_status(run: HookRun) -> str:
    """Return the words that follow the outcome of a run, as in "failed with exit status 3".

    They tell the exit status or the signal with which the command has ended; ``""`` for the exit
    status 0, and if neither is known.
    """
    if run.exit_status:
        return f" with exit status {run.exit_status}"
    if run.signal:
        return f" with {run.signal}"
    return ""


def hook_run(run: HookRun) -> str:
    """Return what one run of a hook did: its phase, its outcome, and how long it took."""
    outcome = _NO_END
    if run.outcome is not None:
        outcome = HOOK_OUTCOMES.get(run.outcome, run.outcome)
    text = f"{run.phase}: {outcome}{hook_status(run)}"
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
        found.append(f"this VM was paused for {length_with_tenths(life.observed_pause)}")
    if life.impact is not None and life.tcp is not None:
        text = f"{life.tcp.retransmitted} TCP segments were sent again"
        if life.tcp.retransmitted == 1:
            text = "1 TCP segment was sent again"
        if life.impact.before is not None:
            text += f" ({life.impact.before.retransmitted} in the minute before)"
        found.append(text)
        if life.tcp.timeouts == 1:
            found.append("1 TCP timeout")
        elif life.tcp.timeouts:
            found.append(f"{life.tcp.timeouts} TCP timeouts")
    if life.impact is not None and abs(life.impact.clock_step) >= _NOISE:
        found.append(f"the clock was set by {life.impact.clock_step:+.1f}s")
    return found


def meaning(life: Lifecycle) -> str:
    """Return what the event does to the affected VMs."""
    if life.event.duration_seconds == 0:
        return NO_INTERRUPTION
    if life.state is State.ADVISORY:
        return "Advice, such as that this Spot VM may be evicted soon. Azure has scheduled nothing."
    documented = EVENT_FACTS.get(life.event.event_type)
    if documented is not None:
        vms = "this VM" if life.scope is Scope.SELF else "each affected VM"
        return documented.meaning.format(vms)
    what = "Azure documents no such type" if life.event.event_type else "Azure sent no type"
    return (
        f"{what}, so its effect is unknown. Prepare for the loss of the VM, and read the"
        " description."
    )


def approver(life: Lifecycle) -> str:
    """Return who approved an event; ``""`` if nobody has, as far as is known."""
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
    """Return the announced duration of the impact; ``seconds`` is None if it was not announced."""
    if seconds is None:
        return "unknown"
    if seconds == 0:
        return "none: no interruption"
    return length(seconds)


def length(seconds: float) -> str:
    """Return ``seconds`` in up to three units that follow each other: ``2d 0h 14m``, ``14m 32s``.

    The largest unit is the first whose count is not zero. Zeros at the end are not written, and
    what is smaller than the third unit is cut off.
    """
    rest = int(seconds)
    counts: list[tuple[int, str]] = []  # from the largest unit on
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        if count or counts:
            counts.append((count, unit))
    written = counts[:_MOST_UNITS]
    while written and written[-1][0] == 0:  # a count of zero at the end
        written.pop()
    return " ".join(f"{count}{unit}" for count, unit in written) or "0s"


def length_with_tenths(seconds: float) -> str:
    """Return ``seconds`` as :func:`length` does, but with tenths of a second below a minute."""
    if seconds < _NOISE:
        return f"less than {_NOISE:g}s"
    if seconds < _MINUTE:
        return f"{seconds:.1f}s"
    return length(seconds)


def left(seconds: float) -> str:
    """Return when an event begins whose NotBefore is ``seconds`` ahead; negative once it passed."""
    if abs(seconds) < 1:
        return "due now"
    if seconds < 0:
        return ANY_MOMENT
    return f"in {length(seconds)}"


def ago(seconds: float) -> str:
    """Return how long ago something was; never negative, even if the clock was set back."""
    return f"{length(max(0.0, seconds))} ago"


def clipped(text: str) -> str:
    """Return a text from IMDS, without what is beyond :data:`LONGEST_TEXT` characters."""
    if len(text) <= LONGEST_TEXT:
        return text
    return text[:LONGEST_TEXT] + "…"
