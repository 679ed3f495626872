"""The comments of the rule file, for somebody who reads it before it is loaded.

Most of a comment comes from the table of alerts. The texts in this module are for readers of the
expressions only. Changes no rule.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from textwrap import fill, wrap

from azure_scheduled_events_exporter.alerts.events import (
    HOLDS,
    NO_IMPACT_HOLD,
    OTHER_HOLD,
    RESOLVE_AFTER,
)
from azure_scheduled_events_exporter.alerts.rule import PREFIX, Alert, Events, Group, Recording
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.times import format_duration

_WIDTH = 120
_FIRST_LINE = re.compile(r"^( *)- (?:name|record|alert): (\S+)$", re.MULTILINE)
"""The first line of a group, a recording or an alert. Its groups: the indentation, the name."""
_COMMON = "azure_scheduled_events"
"""The prefix of the names of recordings, which comments leave out."""
_RECORDING = re.compile(rf"{_COMMON}(:\w+)")
"""A recording in an expression. Its group: the name without the prefix."""

_WORDS: Mapping[str, str] = {
    "event": (
        "A Scheduled Event of Azure, known by its event_id. IMDS, the metadata service of Azure"
        " VMs, announces it to the VMs that it hits, and to others of their scale set."
    ),
    "kind": (
        "What the exporter calls an event: announced (by Azure), requested (by a user),"
        " without_notice (already Started when first seen), far_ahead (in more than 24 h), advisory"
        " (a VM may be evicted), unknown_type, harmless (no interruption: no alert)."
    ),
    "scope": (
        '"self": exported by a VM that the event hits, an own VM of the event. Else "peer":'
        " exported by another VM."
    ),
    "seen": (
        "When an exporter last read a document of IMDS with the event. It stands still while IMDS"
        " does not answer."
    ),
    "impact": (
        "When the event begins to affect its VMs, or began: the announced time, then the start."
    ),
    "hit, away": (
        "A VM is hit by an event that will affect it, or does. It counts as away from 60 s before"
        " to 120 s after the impact, whether it answers or not, and then until it answers. It is"
        " not away once it is back, or the event is over."
    ),
    "missing": "A VM that an event has taken down, and that has not answered since.",
    "blind": "An exporter that cannot be scraped, or that cannot read IMDS.",
    "up": (
        "`up` is of Prometheus: the scrape worked. `azure_scheduled_events_up`: the last poll of"
        " IMDS worked."
    ),
    "four labels": (
        "subscription_id, resource_group, scale_set and vm_name identify a VM. Addresses change,"
        " these do not."
    ),
    ":event": (
        "In these comments, short for the recording azure_scheduled_events:event (which holds the"
        " time at which an event was last seen). Reboot is short for AzureScheduledEventReboot."
    ),
}
_HOW = (
    (
        "1. It fires when an own VM of the event shows it. This part reads the scrape, and"
        " waits for no recording: some engines can read a recording only 10 s after it is"
        " written. [1m] covers these 10 s, in which the VM may go down."
    ),
    (
        "2. It also fires when any exporter shows the event, of an own VM or of another one. This"
        " part reads the recording :event_impact. Part 1 is only faster, and needs a known time."
    ),
    (
        "3. It is held while no exporter shows the event with this kind, because its VMs may be"
        " down: until the hold has passed since an exporter last saw it with this kind. The hold"
        " stands above each alert, and in its expression as a window (twice) and in seconds. While"
        " an exporter that cannot read IMDS goes on showing the event so, the alert stays, too."
    ),
    (
        "4. It gives way if another kind or type of the same event is newer by 60 s"
        " (:event_outdated): the alert of that one fires, if it has one (harmless has none)."
    ),
    (
        f"5. It ends {RESOLVE_AFTER} s after the end of the event (:event_ended), unless an"
        " exporter has seen the event since."
    ),
    (
        "Its value is the time of the impact, or 0 if that is unknown. VMs of one event whose kept"
        " labels (setting labels.keep) differ give an alert each."
    ),
)
_NEEDS = (
    (
        "- A scrape every 5 s is best: an eviction has a notice of 30 s or less. The rules work"
        " with up to 2 minutes. A window of seconds over a recording (such as [45s]) is three"
        " evaluations long, and does not depend on the scrapes."
    ),
    (
        "- The clocks of Prometheus and Azure must agree within seconds: time() is compared"
        " with times by the clock of IMDS."
    ),
    (
        "- All times are in seconds since 1970. `and` and `unless` bind tighter than `or`, and"
        " comparisons tighter than both."
    ),
)
_GROUPS: Mapping[str, str] = {
    "azure-scheduled-events": "Events: what Azure is going to do, or does.",
    "azure-scheduled-events-vms": "VMs: which are away because of an event, or do not come back.",
    "azure-scheduled-events-life": "Events that are late, or that did more than was announced.",
    "azure-scheduled-events-exporters": "Exporters that do not work, or see nothing.",
}

_RESTARTS = "a VM may take so long to restart"
_MOVES = "a VM may take so long to start on another host"
_HOLD_REASONS: Mapping[int, str] = {
    HOLDS[EventType.FREEZE]: "a live migration may take so long",
    HOLDS[EventType.REBOOT]: _RESTARTS,
    OTHER_HOLD: _RESTARTS,
    HOLDS[EventType.REDEPLOY]: _MOVES,
    HOLDS[EventType.PREEMPT]: "the VM does not come back, so nobody waits for its exporter",
    NO_IMPACT_HOLD: "no VM goes down, so this covers a restart of the exporter only",
}
"""Why a hold is as long as it is, by its seconds."""

_EACH: Mapping[str, str] = {
    "ScaleSetHit": "scale set",
    "VmNotBack": "VM",
    "Maintenance": "VM (with the labels by which your own alerts name it)",
    "Overdue": "event",
    "StartedTooLong": "event",
    "NotApproved": "event",
    "PausedLonger": "event and exporter",
    "NoExporters": "Prometheus or vmalert",
    "HookFailed": "exporter, type of event, phase and outcome",
}
"""What there is one alert for; of all others, each exporter (scrape target)."""

_SEEING = (
    "`max_over_time(…up[2m]) == 0` leaves out what exporters say that have not read IMDS for 2m."
)
_NOTES: Mapping[str, str] = {
    "WithoutNotice": (
        "Last line: not if any exporter showed the same event as announced within the last hour,"
        " because that event has raised Reboot or Redeploy."
    ),
    "ScaleSetHit": (
        "First half: at least half (0.5) of the VMs of the set are away. A VM counts as away from"
        " 60 s before to 120 s after its impact, whether it answers or not. Only VMs that have an"
        " exporter count, in :vm as in :scale_set_vms, which counts deleted ones for 30m. Second"
        " half: those that are away because of events that no user requested are more than the"
        " largest of these events takes. So one event alone never fires this, nor do event A on"
        " VMs 1 and 2 and event B on VM 1. Both halves have the labels of the set."
    ),
    "VmNotBack": (
        "The recording holds itself, so `for` is the only wait. It pages once for a VM. One good"
        " scrape ends it. ExporterDown reports a VM that boots in a loop, once the event has ended."
        " A Preempt or Terminate ends it as soon as its time is exported for this VM: by the VM"
        " when it is announced, by others when it is Started."
    ),
    "Maintenance": (
        "[5m] holds it for 5 minutes after the VM has left :vm_away; with the 115m there, this"
        " makes at most 2 hours. It notifies nobody: inhibit rules of Alertmanager compare its"
        " labels with those of your own alerts."
    ),
    "Overdue": f"600 s are 10m. {_SEEING}",
    "StartedTooLong": f"1800 s are 30m. {_SEEING}",
    "NotApproved": "60 s, because an approval is sent within seconds.",
    "PausedLonger": (
        "The value is the whole pause in seconds, not what exceeds the announcement. The exporter"
        " compares, so the rule has no threshold. The exporter shows the pause for 1h after"
        " the end of the event. [10m] adds 10 minutes, and bridges failed scrapes of up to 10"
        " minutes."
    ),
    "Throttled": (
        "Refused polls by all polls. With native histograms there is no _count: then the polls are"
        " the sum over outcomes."
    ),
    "ExporterDown": (
        "The average of the scrapes of 3m (one value each 15 s), without the times at which the VM"
        " was away or missing: so a planned reboot is no failure. A missing VM that answered within"
        " 5m is not left out: it may boot in a loop. For an exporter that stops, the alert fires"
        " after about 11 minutes. It also fires for a deleted VM whose scrape target stays."
    ),
    "ClockOff": "Line 2: the clock of the VM is ahead by more than 30 s. Line 3: it is behind.",
    "HookFailed": (
        "From line 3: the first failure is the first sample of its series, which increase() does"
        " not count. It counts if the exporter was already scraped 15m ago, and also if the VM"
        " has been evicted since."
    ),
}
"""How an expression works, by the alert's name without its prefix."""


def head() -> Iterator[str]:
    """Yield the first lines of the rule file: what its reader must know."""
    yield (
        "Rules for azure-scheduled-events-exporter, for Prometheus and vmalert:"
        " docs/how-the-rules-work.md."
    )
    yield from ("", "WORDS")
    for word, meaning in _WORDS.items():
        yield from _wrapped(f"  {word:13}", meaning, " " * 15)
    yield ""
    yield "HOW AN ALERT ABOUT AN EVENT FIRES, IS HELD AND ENDS (first group; one alert per event)"
    for paragraph in _HOW:
        yield from _wrapped("  ", paragraph, " " * 5)
    yield from ("", "WHAT THE RULES NEED")
    for paragraph in _NEEDS:
        yield from _wrapped("  ", paragraph, " " * 4)
    yield ""


def _wrapped(begin: str, text: str, indent: str) -> list[str]:
    """Return the lines of a paragraph of the head, to which ``# `` is added."""
    return wrap(
        text,
        _WIDTH - 2,
        initial_indent=begin,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )


def with_comments(text: str, groups: Sequence[Group]) -> str:
    """Return the file ``text`` with a comment above each group, recording and alert."""
    comments: dict[str, list[str]] = {}  # paragraphs, by the name of what they are about
    for group in groups:
        comments[group.name] = [_GROUPS[group.name]]
        for recording in group.recordings:
            comments[recording.record] = list(_of_recording(recording, groups))
        for alert in group.alerts:
            comments[alert.name] = list(_of_alert(alert))

    def commented(found: re.Match[str]) -> str:
        indentation, name = found.groups()
        mark = f"{indentation}# "
        paragraphs = [
            fill(each, _WIDTH, initial_indent=mark, subsequent_indent=mark, break_on_hyphens=False)
            for each in comments[name]
        ]
        return "\n".join((*paragraphs, found[0]))

    return _FIRST_LINE.sub(commented, text)


def _of_recording(recording: Recording, groups: Sequence[Group]) -> Iterator[str]:
    """Yield the paragraphs above a recording."""
    yield f"{_sentence(recording.meaning)} One row per {recording.rows}; value: {recording.value}."
    if recording.note:
        yield recording.note
    readers = list(_readers(recording.record, groups))
    if readers:
        yield f"Read by {', '.join(readers)}."


def _readers(record: str, groups: Sequence[Group]) -> Iterator[str]:
    """Yield the rules that read a recording, but for itself, in the order of the file.

    The alerts about events are one item.
    """
    readers: dict[str, None] = {}  # a dictionary keeps each once, in the order of the file
    short = record.removeprefix(_COMMON)
    for rule in (rule for group in groups for rule in group.rules):
        if short not in _RECORDING.findall(rule.expression):
            continue
        if isinstance(rule, Recording):
            readers[rule.record.removeprefix(_COMMON)] = None
        elif rule.events:
            readers["the alerts about events"] = None
        else:
            readers[rule.name.removeprefix(PREFIX)] = None
    readers.pop(short, None)
    yield from readers


def _of_alert(alert: Alert) -> Iterator[str]:
    """Yield the paragraphs above an alert."""
    short = alert.name.removeprefix(PREFIX)
    if alert.events:
        yield f"{alert.meaning} {_events(alert.events)}"
    else:
        yield f"One alert per {_EACH.get(short, 'exporter (scrape target)')}. {alert.meaning}"
        yield alert.ends
    if short in _NOTES:
        yield _NOTES[short]


def _events(events: Events) -> str:
    """Return the sentences that say which events an alert is about, and for how long it is held."""
    types = ""
    if events.types:
        types = f" and type {' or '.join(events.types)}"
    elif events.excluded:
        types = f" and any type but {events.excluded}"
    hold = f"{format_duration(events.hold)} ({events.hold} s)"
    return f"Kind {events.kind}{types}. Held for {hold}: {_HOLD_REASONS[events.hold]}."


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
