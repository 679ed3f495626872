"""Writes what a report says, from what the journal has about an event.

Pure. Each statement has its evidence in the journal; what it does not have is named as unknown,
with the reason.
"""

from azure_scheduled_events_exporter.core.document import EventSource, comparable_name
from azure_scheduled_events_exporter.core.event_types import EVENT_FACTS, URGENT_NOTICE_SECONDS
from azure_scheduled_events_exporter.core.lifecycle import Approver, Lifecycle, State, Transition
from azure_scheduled_events_exporter.core.records import life_record, seconds_between
from azure_scheduled_events_exporter.core.spans import trace_id
from azure_scheduled_events_exporter.times import iso_time
from azure_scheduled_events_exporter.web.wording import (
    KINDS,
    OUTCOMES,
    SOURCES,
    impact,
    length,
    meaning,
    paused,
    standing,
    title,
)

from .model import Fact, Line, Link, Output, Quoted, Report, Section, Sources, Table
from .timeline import timeline
from .unknown import unknown

_MOST_NAMED = 10
_MOST_OTHERS = 20
_ABOUT_IMPACT = (
    "An event stays Started for longer than its impact. What applications noticed, only their own"
    " metrics tell."
)
_APPROVERS = {
    Approver.EXPORTER: "the policy of this exporter",
    Approver.OPERATOR: "a person on this VM",
    Approver.HOOK: "a hook on this VM, when its script was ready",
    Approver.EXTERNAL: "somebody else: it started before NotBefore without an approval from here",
    Approver.DEADLINE: "nobody: it started at NotBefore",
}


def report(sources: Sources) -> Report:
    """Return the report of an event."""
    life = sources.life
    return Report(
        title=(Quoted(title(life)), " of ", *_vms(life)),
        summary=_summary(life),
        sections=(
            _event(life),
            Section("Timeline, in UTC", table=timeline(sources)),
            _notice(life),
            _approval(sources),
            _impact(life),
            _hooks(sources),
            *_others(sources),
            _trace(sources),
            Section("What is not known", notes=unknown(sources)),
        ),
    )


def _vms(life: Lifecycle) -> Line:
    """Return the VMs of an event, at most :data:`_MOST_NAMED` by name."""
    names = life.event.resources
    if not names:
        return ("no VM that IMDS names",)
    line: list[str | Quoted] = []
    for name in names[:_MOST_NAMED]:
        line += [", ", Quoted(name)] if line else [Quoted(name)]
    more = len(names) - _MOST_NAMED
    return (*line, f" and {more} more") if more > 0 else tuple(line)


def _summary(life: Lifecycle) -> Line:
    parts: list[str] = [f"First seen at {_time(life.first_seen.wall)}."]
    if life.started_at is not None and life.announced:
        waited = life.started_at.since(life.first_seen)
        parts.append(f"Started at {_time(life.started_at.wall)}, {length(waited)} later.")
    elif life.started_at is not None:
        parts.append("It had started when it was first seen.")
    if life.outcome is not None and life.ended_at is not None:
        _, said = OUTCOMES[life.outcome]
        parts.append(f"Gone at {_time(life.ended_at.wall)}. {said}")
    else:
        parts.append(f"It is current: {standing(life)}.")
    if life.observed_pause is not None:
        parts.append(f"The longest pause that this VM measured: {paused(life.observed_pause)}.")
    return (" ".join(parts),)


def _event(life: Lifecycle) -> Section:
    event = life.event
    source = SOURCES.get(event.source)
    facts = [
        Fact("EventId", (Quoted(life.event_id),)),
        Fact("Type", (Quoted(title(life)), f". {meaning(life)}")),
        Fact("Kind", (KINDS[life.kind],)),
        Fact("Requested by", (source,) if source else (Quoted(event.source),)),
        Fact("VMs", _vms(life)),
        Fact("This VM", _this_vm(life)),
        Fact("Description", (Quoted(event.description),) if event.description else ("none",)),
    ]
    return Section("The event", facts=tuple(facts))


def _this_vm(life: Lifecycle) -> Line:
    if life.own_name:
        names = {comparable_name(name) for name in life.event.resources}
        is_named = comparable_name(life.own_name) in names
        ending = ", which it affected" if is_named else ", which earlier documents named"
        return (Quoted(life.own_name), ending)
    if life.vm_name:
        return (Quoted(life.vm_name), ", which it did not affect")
    return ("unknown: IMDS had not told its name",)


def _notice(life: Lifecycle) -> Section:
    given = "unknown: no document had a NotBefore"
    if life.notice_seconds == 0 and life.announced:
        given = "none: NotBefore had passed when it was first seen"
    elif life.notice_seconds == 0:
        given = "none: it had started when it was first seen"
    elif life.notice_seconds is not None:
        given = f"{length(life.notice_seconds)}, from first seen to NotBefore"
    known = EVENT_FACTS.get(life.event.event_type)
    usual = "unknown: Azure documents no such type"
    if known is not None:
        usual = (
            f"{length(known.usual_notice)}; any event may have as little as"
            f" {length(URGENT_NOTICE_SECONDS)}"
        )
    facts = [Fact("Given", (given,)), Fact("Documented", (usual,))]
    if life.not_before is not None:
        facts.append(Fact("NotBefore", (_time(life.not_before),)))
    return Section("Notice", facts=tuple(facts))


def _approval(sources: Sources) -> Section:
    life = sources.life
    facts = [Fact("Approved by", _approver(life))]
    if life.approved_at is not None and life.approved_by is not Approver.DEADLINE:
        after = length(life.approved_at.since(life.first_seen))
        facts.append(Fact("When", (f"{_time(life.approved_at.wall)}, {after} after first seen",)))
    for asked in sources.asked:
        asking = f"{asked.approver} "
        result = asked.result or "no result yet"
        facts.append(Fact("Asked for", (asking, Quoted(asked.who), ": ", Quoted(result))))
    return Section("Approval", facts=tuple(facts))


def _approver(life: Lifecycle) -> Line:
    approval = life.approval
    if approval is not None:
        text = _APPROVERS[approval.by]
        return (f"{text}: ", Quoted(approval.who)) if approval.who else (text,)
    if life.state is State.ADVISORY:
        return ("nobody: it is advice, and there is nothing to approve",)
    if not life.announced and life.event.source == EventSource.USER:
        return ("unknown: it started at once, as after an automatic approval of Azure",)
    if life.started_at is not None and not life.announced:
        return ("nobody: it had started when it was first seen",)
    if life.outcome is Transition.CANCELLED:
        return ("nobody: it was cancelled",)
    return ("nobody that this exporter knows of",)


def _impact(life: Lifecycle) -> Section:
    record = life_record(life)
    measured = "not measured"
    if life.observed_pause is not None:
        measured = f"{paused(life.observed_pause)}, the longest of {life.pauses}"
    started = seconds_between(life.started_at, life.ended_at)
    rows = [
        ("Interruption of the VM", impact(life.event.duration_seconds), measured),
        ("Time Started", "", "not known" if started is None else length(started)),
    ]
    for name, key in (
        ("TCP segments sent again", "tcp_retransmitted_segments"),
        ("TCP retransmission timeouts", "tcp_timeouts"),
    ):
        before = record.get(f"{key}_minute_before")
        usual = "" if before is None else f"{before} in the minute before"
        rows.append((name, usual, _measured(record.get(key))))
    step = record.get("clock_step_seconds")
    rows.append(("Step of the clock", "", _measured(step, " s")))
    lines = tuple(tuple((cell,) for cell in row) for row in rows)
    return Section(
        "Impact",
        table=Table(("", "Announced, or before", "Measured on this VM"), lines),
        notes=((_ABOUT_IMPACT,),),
    )


def _measured(value: object, unit: str = "") -> str:
    return "not measured" if value is None else f"{value}{unit}"


def _hooks(sources: Sources) -> Section:
    if not sources.runs:
        return Section("Hooks", notes=(("No hook of this VM ran a script for it.",),))
    rows = tuple(
        (
            (run.phase,),
            (Quoted(run.command),),
            (_time(run.started),),
            ("" if run.duration is None else f"{run.duration:.1f} s",),
            ("" if run.seconds_left is None else _left(run.seconds_left),),
            (run.outcome or "no end is known",),
        )
        for run in sources.runs
    )
    heads = ("Phase", "Command", "Began", "Took", "Left to NotBefore", "Outcome")
    outputs = tuple(
        Output((f"Last output of {run.phase} at {_time(run.started)}",), run.output)
        for run in sources.runs
        if run.output
    )
    return Section("Hooks", table=Table(heads, rows), outputs=outputs)


def _left(seconds: float) -> str:
    return length(seconds) if seconds >= 0 else f"{length(-seconds)} too late"


def _others(sources: Sources) -> tuple[Section, ...]:
    """Return the part about other events at the same time; none if there were none."""
    if not sources.others:
        return ()
    rows = tuple(
        (
            (Quoted(title(life)),),
            _vms(life),
            (_time(life.first_seen.wall),),
            (str(life.outcome or standing(life)),),
            (Quoted(life.event_id),),
        )
        for life in sources.others[:_MOST_OTHERS]
    )
    more = len(sources.others) - _MOST_OTHERS
    notes: tuple[Line, ...] = ((f"And {more} more.",),) if more > 0 else ()
    heads = ("Type", "VMs", "First seen", "Outcome", "EventId")
    return (Section("Other events at the same time", table=Table(heads, rows), notes=notes),)


def _trace(sources: Sources) -> Section:
    facts = [Fact("Trace id", (trace_id(sources.life.event_id),))]
    if sources.trace_link:
        facts.append(Fact("Trace", (Link(sources.trace_link),)))
    return Section(
        "Trace",
        facts=tuple(facts),
        notes=(("The exporters of all VMs of the event send their spans to this trace.",),),
    )


def _time(seconds: float) -> str:
    return iso_time(seconds).replace("T", " ").replace("Z", " UTC")
