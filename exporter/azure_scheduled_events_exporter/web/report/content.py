"""Puts a report together: its sections, from what the journal has about an event.

Pure. ``course``, ``measured`` and ``hooks`` decide what is known and what is not; this module only
relays it.
"""

from azure_scheduled_events_exporter.core.document import EventSource, comparable_name
from azure_scheduled_events_exporter.core.event_types import EVENT_FACTS, URGENT_NOTICE_SECONDS
from azure_scheduled_events_exporter.core.lifecycle import Approver, Kind, Lifecycle, Transition
from azure_scheduled_events_exporter.core.spans import trace_id
from azure_scheduled_events_exporter.web.wording import KINDS, length, meaning, standing, title

from . import hooks, measured
from .course import approval, end, notice, start
from .measured import announced_duration, interruption
from .model import Fact, Line, Link, Quoted, Report, Section, Sources, Table
from .moments import clock_time, utc
from .timeline import timeline
from .unknown import unknown

_MOST_NAMED = 10  # VMs of an event
_MOST_OTHERS = 20  # events at the same time
_NEGLIGIBLE = 0.05
"""The part of the documented notice that may be missing: a poll is always a little late."""
_SOURCES = {
    EventSource.PLATFORM: "Azure (EventSource Platform)",
    EventSource.USER: "somebody with access to the VM (EventSource User)",
    "": "not known: this api-version of IMDS does not say",
}
_CLOCKS = (
    "The times of events, hooks and boots are by the clock of IMDS. Those of pauses and of requests"
    " to approve are by the clock of this VM."
)
_WORDS = (
    Fact("Exporter", ("The program that wrote this report. It watches the events of its VM.",)),
    Fact("IMDS", ("Azure's metadata service, which the exporter on this VM asks for events.",)),
    Fact("Document", ("An answer of IMDS: the events that it knows at that moment.",)),
    Fact("NotBefore", ("The earliest time of the start, unless somebody approves the event.",)),
    Fact("Started", ("What IMDS shows from the start of an event to its end.",)),
    Fact("Journal", ("The file on this VM in which the exporter keeps what it has seen.",)),
    Fact("Hook", ("A program on this VM that runs a command before an event and after its end.",)),
    Fact("Prepare, recover", ("The run of this command before an event, and that after its end.",)),
)


def report(sources: Sources) -> Report:
    """Return the report of an event."""
    life = sources.life
    return Report(
        title=(Quoted(title(life)), " of ", *_vms(life)),
        summary=_summary(sources),
        sections=(
            _event(life),
            Section("Timeline, in UTC", table=timeline(sources), notes=((_CLOCKS,),)),
            _notice(life),
            _approval(sources),
            measured.section(life),
            hooks.section(sources),
            _others(sources),
            Section("What is not known", notes=unknown(sources)),
            _trace(sources),
            Section("Words", facts=_WORDS),
        ),
    )


def _vms(life: Lifecycle) -> Line:
    """Return the names of the first ten VMs of an event, and how many more there are."""
    names = life.event.resources
    if not names:
        return ("no VM that IMDS names",)
    line: list[str | Quoted] = []
    for name in names[:_MOST_NAMED]:
        if line:
            line.append(", ")
        line.append(Quoted(name))
    beyond = life.event.resource_count - min(len(names), _MOST_NAMED)
    if beyond:
        line.append(f" and {beyond} more")
    return tuple(line)


def _summary(sources: Sources) -> tuple[Fact, ...]:
    """Return the answers to the questions of a post-mortem; every report has the same questions."""
    life = sources.life
    return (
        Fact("What", (meaning(life),)),
        Fact("First seen", (_first_seen(life),)),
        Fact("Started", start(life).line),
        Fact("Ended", end(life).line),
        Fact("Interruption announced by Azure", announced_duration(life).line),
        Fact("Interruption measured on this VM", interruption(life).line),
        Fact("Approved by", approval(life).line),
        Fact("Scripts of this VM", hooks.summary(sources)),
    )


def _first_seen(life: Lifecycle) -> str:
    """Return when the event was first seen, and the notice that Azure promised then."""
    seen = utc(life.first_seen.wall)
    if not life.announced:
        return f"{seen}, Started already"
    return f"{seen}; promised notice: {_promised(life)}"


def _event(life: Lifecycle) -> Section:
    """Return the part about what IMDS says of the event."""
    event = life.event
    source: Line = (Quoted(event.source),)
    if event.source in _SOURCES:
        source = (_SOURCES[event.source],)
    description: Line = ("none",)
    if event.description:
        description = (Quoted(event.description),)
    facts = [
        Fact("EventId", (Quoted(life.event_id),)),
        Fact("Type", (Quoted(title(life)),)),
        Fact("Kind", (_kind(life),)),
        Fact("Requested by", source),
        Fact("VMs", _vms(life)),
        Fact("This VM", _this_vm(life)),
        Fact("Description", description),
    ]
    return Section("The event", facts=tuple(facts))


def _kind(life: Lifecycle) -> str:
    """Return the kind of the event in words."""
    if life.kind is Kind.WITHOUT_NOTICE:
        return "without notice (first seen Started): the host has probably failed"
    if life.paused_longer:
        return f"{KINDS[life.kind]}; it paused this VM for longer than announced"
    return KINDS[life.kind]


def _this_vm(life: Lifecycle) -> Line:
    """Return the name of this VM, and whether the event names it.

    ``own_name`` is set only if some document named this VM; the newest may no longer do so.
    """
    if life.own_name:
        names = {comparable_name(name) for name in life.event.resources}
        ending = ", which earlier documents named"
        if comparable_name(life.own_name) in names:
            ending = ", which the event names"
        return (Quoted(life.own_name), ending)
    if life.vm_name:
        return (Quoted(life.vm_name), ", which the event does not name")
    return ("not known: IMDS had not told its name",)


def _notice(life: Lifecycle) -> Section:
    """Return the part about the notice: given, promised and documented."""
    documented = Fact("Documented", (_documented(life),))
    facts = [Fact("Notice", notice(life).line), documented]
    if life.announced:
        promised = Fact("Promised", (_promised(life),))
        facts = [Fact("Real notice", notice(life).line), promised, documented]
    if life.not_before is not None:
        not_before = utc(life.not_before)
        if _was_rescheduled(life):
            not_before = f"{not_before}, the last one"
        facts.append(Fact("NotBefore", (not_before,)))
    return Section("Notice", facts=tuple(facts))


def _promised(life: Lifecycle) -> str:
    """Return the notice from first seen to NotBefore, in words."""
    if life.notice_seconds is None:
        return "not known: no document had a NotBefore"
    if life.notice_seconds == 0:
        return "none: NotBefore had passed when it was first seen"
    first = "NotBefore"
    if _was_rescheduled(life):
        first = "the first NotBefore"
    return f"{length(life.notice_seconds)}, from first seen to {first}"


def _was_rescheduled(life: Lifecycle) -> bool:
    """Return whether NotBefore has changed."""
    return any(move.transition is Transition.RESCHEDULED for move in life.moves)


def _documented(life: Lifecycle) -> str:
    """Return the notice that Azure documents, and how much less was promised."""
    documented = EVENT_FACTS.get(life.event.event_type)
    if documented is None:
        return "not known: Azure documents no such type"
    usual = documented.usual_notice
    text = length(usual)
    if usual > URGENT_NOTICE_SECONDS:
        text += f"; any event may have as little as {length(URGENT_NOTICE_SECONDS)}"
    if life.notice_seconds:  # "Promised" tells if it is unknown (None), or if there is none (0)
        missing = usual - int(life.notice_seconds)  # without fractions, as "Promised" shows it
        if missing > _NEGLIGIBLE * usual:
            text += f". {length(missing)} less than that were promised"
    return text


def _approval(sources: Sources) -> Section:
    """Return the part about the approval, and the requests for one."""
    life = sources.life
    facts = [Fact("Approved by", approval(life).line)]
    if life.approved_at is not None and life.approved_by is not Approver.DEADLINE:
        after = length(life.approved_at.since(life.first_seen))
        when = f"{utc(life.approved_at.wall)}, {after} after first seen"
        if not life.approved_here:  # the approval is only known by the start
            when += ", at the latest: then it was seen Started"
        facts.append(Fact("When", (when,)))
    for asked in sources.asked:
        who = (f"by the {asked.approver} ", Quoted(asked.who), f" at {utc(asked.at)}. Result: ")
        facts.append(Fact("Asked for", (*who, Quoted(asked.result or "no result yet"))))
    return Section("Approval", facts=tuple(facts))


def _others(sources: Sources) -> Section:
    """Return the part about other events at the same time."""
    name = "Other events at the same time"
    if not sources.others:
        return Section(name, notes=(("The journal has none.",),))
    rows = tuple(_row_of_other(life) for life in sources.others[:_MOST_OTHERS])
    notes: list[Line] = [("IMDS does not say whether events belong together.",)]
    more = len(sources.others) - _MOST_OTHERS
    if more > 0:
        notes.append((f"And {more} more.",))
    heads = ("Type", "VMs", "First seen", "Seen Started", "Ended", "Outcome", "EventId")
    return Section(name, table=Table(heads, rows), notes=tuple(notes))


def _row_of_other(life: Lifecycle) -> tuple[Line, ...]:
    """Return another event as a row of the table."""
    started = ""
    if life.started_at is not None:
        started = clock_time(life.started_at.wall)
    ended = ""
    if life.ended_at is not None:
        ended = clock_time(life.ended_at.wall)
    return (
        (Quoted(title(life)),),
        _vms(life),
        (clock_time(life.first_seen.wall),),
        (started,),
        (ended,),
        (str(life.outcome or standing(life)),),
        (Quoted(life.event_id),),
    )


def _trace(sources: Sources) -> Section:
    """Return the part about the trace of the event."""
    facts = [Fact("Trace id", (trace_id(sources.life.event_id),))]
    if sources.trace_link:
        facts.append(Fact("Trace", (Link(sources.trace_link),)))
    note = (
        "If tracing is set up, the exporters of all VMs of the event add what they saw to this"
        " trace."
    )
    return Section("Trace", facts=tuple(facts), notes=((note,),))
