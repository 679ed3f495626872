"""Writes what a report says, from what the journal has about an event.

Pure. Each statement has its evidence in the journal; what it does not have is named as unknown,
with the reason.
"""

from collections.abc import Iterator

from azure_scheduled_events_exporter.core.document import EventSource, comparable_name
from azure_scheduled_events_exporter.core.event_types import EVENT_FACTS, URGENT_NOTICE_SECONDS
from azure_scheduled_events_exporter.core.kinds import Kind
from azure_scheduled_events_exporter.core.lifecycle import (
    Approver,
    Lifecycle,
    State,
    Transition,
    impact_values,
)
from azure_scheduled_events_exporter.core.records import seconds_between
from azure_scheduled_events_exporter.core.spans import trace_id
from azure_scheduled_events_exporter.snapshot.hooks import HookRun, Phase
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
from .timeline import PROVEN_BY_BOOT, timeline
from .unknown import unknown

_MOST_NAMED = 10
_MOST_OTHERS = 20
_ABOUT_IMPACT = (
    "An event stays Started for longer than its impact. What applications noticed, only their own"
    " metrics tell."
)
_ABOUT_TCP = (
    "TCP counts all connections of the exporter's network namespace: of the VM, or, in a pod"
    " without host network, of that pod."
)
_NOT_MEASURED = "not measured"
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
        line += [", ", Quoted(name)]
    if len(names) > _MOST_NAMED:
        line.append(f" and {len(names) - _MOST_NAMED} more")
    return tuple(line[1:])  # without the first comma


def _summary(life: Lifecycle) -> Line:
    parts = [f"First seen at {_time(life.first_seen.wall)}.", *_course(life)]
    if life.observed_pause is not None:
        announced = impact(life.event.duration_seconds)
        parts.append(f"Announced interruption: {announced}.")
        parts.append(f"The longest pause that this VM measured: {paused(life.observed_pause)}.")
    if life.approval is None:
        return (" ".join(parts),)
    return (" ".join(parts), " Approved by ", *_approver(life), ".")


def _course(life: Lifecycle) -> Iterator[str]:
    """Yield sentences about its start and its end."""
    if life.proven_by_boot and life.ended_at is not None:
        yield PROVEN_BY_BOOT
        yield f"Over by {_time(life.ended_at.wall)}, when a document no longer showed it."
        return
    if life.started_at is not None and life.announced:
        waited = life.started_at.since(life.first_seen)
        yield f"Started at {_time(life.started_at.wall)}, {length(waited)} later."
    elif life.started_at is not None:
        yield "It had started when it was first seen."
    if life.outcome is not None and life.ended_at is not None:
        _, said = OUTCOMES[life.outcome]
        yield f"Over at {_time(life.ended_at.wall)}. {said}"
    else:
        yield f"It is current: {standing(life)}."


def _event(life: Lifecycle) -> Section:
    event = life.event
    source: Line = (Quoted(event.source),)
    if event.source in SOURCES:
        source = (SOURCES[event.source],)
    description: Line = ("none",)
    if event.description:
        description = (Quoted(event.description),)
    facts = [
        Fact("EventId", (Quoted(life.event_id),)),
        Fact("Type", (Quoted(title(life)), f". {meaning(life)}")),
        Fact("Kind", (_kind(life),)),
        Fact("Requested by", source),
        Fact("VMs", _vms(life)),
        Fact("This VM", _this_vm(life)),
        Fact("Description", description),
    ]
    return Section("The event", facts=tuple(facts))


def _kind(life: Lifecycle) -> str:
    if life.paused_longer:
        return f"{KINDS[life.kind]}; it paused this VM for longer than announced"
    return KINDS[life.kind]


def _this_vm(life: Lifecycle) -> Line:
    if life.own_name:
        names = {comparable_name(name) for name in life.event.resources}
        ending = ", which earlier documents named"
        if comparable_name(life.own_name) in names:
            ending = ", which the event names"
        return (Quoted(life.own_name), ending)
    if life.vm_name:
        return (Quoted(life.vm_name), ", which the event does not name")
    return ("unknown: IMDS had not told its name",)


def _notice(life: Lifecycle) -> Section:
    facts = [Fact("Given", (_given(life),))]
    if life.started_at is not None and life.announced and not life.proven_by_boot:
        left = length(life.started_at.since(life.first_seen))
        facts.append(Fact("Until the start", (f"{left}, from first seen to Started",)))
    facts.append(Fact("Documented", (_documented(life),)))
    if life.not_before is not None:
        not_before = _time(life.not_before)
        if _was_rescheduled(life):
            not_before = f"{not_before}, the last one"
        facts.append(Fact("NotBefore", (not_before,)))
    return Section("Notice", facts=tuple(facts))


def _given(life: Lifecycle) -> str:
    if not life.announced:
        return "none: it had started when it was first seen"
    if life.notice_seconds is None:
        return "unknown: no document had a NotBefore"
    if life.notice_seconds == 0:
        return "none: NotBefore had passed when it was first seen"
    first = "NotBefore"
    if _was_rescheduled(life):
        first = "the first NotBefore"
    return f"{length(life.notice_seconds)}, from first seen to {first}"


def _was_rescheduled(life: Lifecycle) -> bool:
    return any(move.transition is Transition.RESCHEDULED for move in life.moves)


def _documented(life: Lifecycle) -> str:
    known = EVENT_FACTS.get(life.event.event_type)
    if known is None:
        return "unknown: Azure documents no such type"
    usual = length(known.usual_notice)
    if known.usual_notice <= URGENT_NOTICE_SECONDS:
        return usual
    return f"{usual}; any event may have as little as {length(URGENT_NOTICE_SECONDS)}"


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
    if approval is None:
        return (_without_approval(life),)
    text = _APPROVERS[approval.by]
    if not approval.who:
        return (text,)
    if approval.by is Approver.EXPORTER:
        return (f"{text}, rule ", Quoted(approval.who))
    return (f"{text}: ", Quoted(approval.who))


def _without_approval(life: Lifecycle) -> str:
    if life.state is State.ADVISORY:
        return "nobody: it is advice, and there is nothing to approve"
    if not life.announced and life.event.source == EventSource.USER:
        return "unknown: it started at once, as after an automatic approval of Azure"
    if life.kind is Kind.WITHOUT_NOTICE:
        return "nobody: it came without notice"
    if not life.announced:
        return "unknown: it had started when it was first seen"
    if life.outcome is Transition.CANCELLED:
        return "nobody: it was cancelled"
    return "nobody that this exporter knows of"


def _impact(life: Lifecycle) -> Section:
    if life.started_at is None:
        announced = Fact("Announced interruption", (impact(life.event.duration_seconds),))
        happened = Fact("What happened", (_without_start(life),))
        return Section("Impact", facts=(announced, happened))
    measured = impact_values(life)
    rows = (
        _row("Interruption of the VM", impact(life.event.duration_seconds), _pause(life)),
        _row("Time Started", "", _started(life)),
        _tcp("TCP segments sent again", "tcp_retransmitted_segments", life),
        _tcp("TCP retransmission timeouts", "tcp_timeouts", life),
        _row("Step of the clock", "", _step(measured["clock_step_seconds"])),
    )
    heads = ("", "Announced, or before", "Measured on this VM")
    notes: tuple[Line, ...] = ((_ABOUT_IMPACT,),)
    if measured["tcp_timeouts"] is not None:
        notes += ((_ABOUT_TCP,),)
    return Section("Impact", table=Table(heads, rows), notes=notes)


def _without_start(life: Lifecycle) -> str:
    if life.state is State.ADVISORY:
        return "nothing: advice schedules nothing"
    if life.outcome is Transition.CANCELLED:
        return "nothing: the event never started"
    if life.outcome is Transition.LOST:
        return "unknown: nobody saw whether it started"
    return "nothing yet: it has not started"


def _row(*cells: str) -> tuple[Line, ...]:
    return tuple((cell,) for cell in cells)


def _pause(life: Lifecycle) -> str:
    if life.observed_pause is None:
        return _NOT_MEASURED
    if life.pauses == 0:
        return paused(life.observed_pause)
    if life.pauses == 1:
        return f"{paused(life.observed_pause)}, in one pause"
    return f"{paused(life.observed_pause)}, the longest of {life.pauses} pauses"


def _started(life: Lifecycle) -> str:
    if life.proven_by_boot:
        return "unknown: nobody watched"
    seconds = seconds_between(life.started_at, life.ended_at)
    if seconds is None:
        return "still Started"
    if not life.announced:
        return f"at least {length(seconds)}"
    return length(seconds)


def _tcp(name: str, key: str, life: Lifecycle) -> tuple[Line, ...]:
    """Return the row of a counter of TCP, beside what it was in the minute before."""
    measured = impact_values(life)
    before = measured[f"{key}_minute_before"]
    usual = ""
    if before is not None:
        usual = f"{before} in the minute before"
    during = _NOT_MEASURED
    if measured[key] is not None:
        during = f"{measured[key]}{_period(life)}"
    return _row(name, usual, during)


def _period(life: Lifecycle) -> str:
    """Return for which part of an event TCP was measured; ``""``: for all of it."""
    is_restarted = (
        life.impact is not None
        and life.ended_at is not None
        and life.ended_at.boot_id != life.impact.begins.at.boot_id
    )
    if is_restarted:
        return ", until this VM restarted"
    if not life.announced:
        return ", since it was first seen"
    return ""


def _step(seconds: float | None) -> str:
    if seconds is None:
        return _NOT_MEASURED
    if seconds == 0:
        return "none"
    return f"{seconds:+.1f} s"


def _hooks(sources: Sources) -> Section:
    if not sources.runs:
        return Section("Hooks", notes=(("No hook of this VM ran a script for it.",),))
    rows = tuple(_run(run, sources.life) for run in sources.runs)
    heads = ("Phase", "Command", "Began", "Took", "Left to NotBefore", "Outcome")
    outputs = tuple(
        Output((f"Last output of {run.phase} at {_time(run.started)}",), run.output)
        for run in sources.runs
        if run.output
    )
    return Section("Hooks", table=Table(heads, rows), outputs=outputs)


def _run(run: HookRun, life: Lifecycle) -> tuple[Line, ...]:
    took = ""
    if run.duration is not None:
        took = f"{run.duration:.1f} s"
    outcome = run.outcome or "no end is known"
    if _was_overtaken(run, life):
        outcome += ", but the event had started"
    return (
        (run.phase,),
        (Quoted(run.command),),
        (_time(run.started),),
        (took,),
        (_left(run.seconds_left),),
        (outcome,),
    )


def _was_overtaken(run: HookRun, life: Lifecycle) -> bool:
    """Return whether the event started before a preparation for it was done.

    NotBefore does not tell: an approved event starts before it.
    """
    if run.phase != Phase.PREPARE or run.duration is None or life.started_at is None:
        return False
    return life.started_at.wall < run.started + run.duration


def _left(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 0:
        return f"{length(-seconds)} too late"
    return length(seconds)


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
    notes: tuple[Line, ...] = ()
    if more > 0:
        notes = ((f"And {more} more.",),)
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
