"""The comments above the rules of the rule file, for somebody who reads it before it is loaded.

Most of a comment comes from the table of alerts. The texts in this module are for readers of the
expressions only. ``rule_head`` writes the head of the file. Changes no rule.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from textwrap import fill

from azure_scheduled_events_exporter.alerts.events import HOLD_REASONS
from azure_scheduled_events_exporter.alerts.rule import PREFIX, Alert, Events, Group, Recording
from azure_scheduled_events_exporter.times import format_duration

from .rule_head import WIDTH, each_of

_FIRST_LINE = re.compile(r"^( *)- (?:name|record|alert): (\S+)$", re.MULTILINE)
"""The first line of a group, a recording or an alert. Its groups: the indentation, the name."""
_COMMON = "azure_scheduled_events"
"""The prefix of the names of recordings, which comments leave out."""
_RECORDING = re.compile(rf"{_COMMON}(:\w+)")
"""A recording in an expression. Its group: the name without the prefix."""

_GROUPS: Mapping[str, str] = {
    "azure-scheduled-events": "Events: what Azure is going to do, or does.",
    "azure-scheduled-events-vms": "VMs: which are away because of an event, or do not come back.",
    "azure-scheduled-events-life": "Events that are late, or that did more than was announced.",
    "azure-scheduled-events-exporters": "Exporters that do not work, or see nothing.",
}

_SEEING = (
    "`max_over_time(…up[2m]) == 0` leaves out what exporters say that have not read IMDS for 2m."
)
_NOTES: Mapping[str, str] = {
    "WithoutNotice": (
        "Last line: not if any exporter showed the same event as announced within the last hour,"
        " because that event has raised the alert of its type. This also ends an alert that fires."
        " After that hour, it fires if an exporter still says without_notice: a known limit."
    ),
    "ScaleSetHit": (
        "First half: at least half (0.5) of the VMs of the set are away. A VM counts as away from"
        " 60 s before to 120 s after its impact, whether it answers or not. Second half: those that"
        " are away because of events that no user requested are more than the largest of these"
        " events takes. So one event alone never fires this, nor do event A on VMs 1 and 2 and"
        " event B on VM 1. Both halves have the labels of the set. Only VMs that have an exporter"
        " count: :vm_away and :scale_set_vms have no others. The latter counts a VM that is deleted"
        " or silent for 30m: after that, the share is too high."
    ),
    "VmNotBack": (
        "The recording holds itself, so `for` is the only wait. It pages 15 minutes after the"
        " impact has begun or the VM has fallen silent, whichever is later, as one alert for a VM."
        " If the VM answers, it ends within a minute. ExporterDown reports a VM that boots in a"
        " loop, once the event has ended. A Preempt or Terminate ends it as soon as its time is"
        " exported for this VM: by the VM when it is announced, by others when it is Started."
    ),
    "Maintenance": (
        "[5m] holds it for 5 minutes after the VM has left :vm_away; with the 115m there, this"
        " makes at most 2 hours. No receiver is meant to get it: inhibit rules of Alertmanager"
        " compare its labels with those of your own alerts."
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
    "ImdsUnreachable": (
        "Line 1: the polls. An answer that cannot be read counts as a failed poll, so"
        " DocumentInvalid fires as well. Line 2: polls work, and the name of the VM is unknown; one"
        " failed scrape ends that. The alert fires 4 to 5 minutes after the last answer of IMDS."
    ),
    "Throttled": (
        "Refused polls by all polls. With native histograms there is no _count: then the polls are"
        " the sum over outcomes."
    ),
    "ExporterDown": (
        "The average of the scrapes of 3m (one value each 15 s), without the times at which the VM"
        " was away or missing: so a planned reboot is no failure. A missing VM that answered within"
        " 5m is not left out: it may boot in a loop. (Nor is any missing VM if VmNotBack is"
        " disabled.) For an exporter that stops, the alert fires"
        " after about 11 minutes. It also fires for a deleted VM whose scrape target stays. The"
        " alert has all labels of `up`."
    ),
    "ClockOff": (
        "Line 2: the clock of the VM differs from that of IMDS by more than 30 s. Lines 3 and 4:"
        " that of Prometheus is behind the clock of IMDS, or ahead of it. The time of the last"
        " success is by the clock of IMDS, and may be one interval old."
    ),
    "HookFailed": (
        "Line 2: a run that failed within 15m, also if the counter has begun again. From line 3:"
        " the first failure is the first sample of its series, which makes no difference in line 2."
        " It counts if the exporter was already scraped 15m ago, and also if the VM has been"
        " evicted since."
    ),
}
"""How an expression works, by the alert's name without its prefix."""


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
            fill(each, WIDTH, initial_indent=mark, subsequent_indent=mark, break_on_hyphens=False)
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
    """Yield the rules that read a recording, except its own rule, in the order of the file.

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
        yield f"One alert per {each_of(alert)}. {alert.meaning}"
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
    return f"Kind {events.kind}{types}. Held for {hold}: {HOLD_REASONS[events.hold]}."


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
