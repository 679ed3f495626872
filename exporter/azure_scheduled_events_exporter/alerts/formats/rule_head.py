"""The head of the rule file: words, how an alert about an event works, and a map of all alerts.

Changes no rule.
"""

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap

from azure_scheduled_events_exporter.alerts.events import RESOLVE_AFTER
from azure_scheduled_events_exporter.alerts.groups import alerts
from azure_scheduled_events_exporter.alerts.rule import PREFIX, Alert, Events
from azure_scheduled_events_exporter.alerts.settings import Settings
from azure_scheduled_events_exporter.alerts.severities import CRITICAL, INFO, WARNING, word_of
from azure_scheduled_events_exporter.times import format_duration

WIDTH = 120
"""Columns of the longest comment."""

_WORDS: Mapping[str, str] = {
    "event": (
        "A Scheduled Event of Azure, known by its event_id. IMDS, the metadata service of Azure"
        " VMs, announces it to the VMs that it hits, and to others of their scale set."
    ),
    "kind": (
        "What the exporter calls an event; the first that fits: advisory (a VM may be evicted),"
        " far_ahead (in more than 24 h), harmless (no interruption, or a Freeze of less than 9 s:"
        " no alert), requested (by a user), unknown_type, without_notice (a Reboot or Redeploy that"
        " was already Started when first seen, and that this VM had not approved), announced (any"
        " other)."
    ),
    "scope": (
        '"self" if the event hits the VM whose exporter shows it, else "peer". The VMs that an'
        " event hits are its own VMs."
    ),
    "seen, shown": (
        "An event is seen when an exporter reads a document of IMDS with it. An exporter shows it"
        " from then on, also while IMDS does not answer: then the time at which it was last seen"
        " stands still."
    ),
    "impact": (
        "When the event begins to affect its VMs: the announced time, and from its start on, the"
        " time of the start."
    ),
    "hit, away": (
        "A VM is hit by an event that will affect it, or does. It counts as away from 60 s before"
        " the impact to the end of the event; from 120 s after the impact, only while it does not"
        " answer, or cannot read IMDS, and is not back (later, one failed scrape does not make it"
        " away again); at most until 30m after an exporter last"
        " showed the impact (Preempt, Terminate: 10m) and 115m after the impact, whichever is"
        " first. VMs without an exporter do not count."
    ),
    "back": (
        "From 180 s after the impact, a VM is back when it answers and has not shown the event for"
        " 3m. One that answers and still shows it may go down yet. A cancelled event hits no VM."
    ),
    "missing": (
        "A VM that does not answer after the time of its impact, although its scrape target"
        " exists. One that an event deletes (Preempt, Terminate) is not missing."
    ),
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
"""What there is one alert for ("one per VM"), by the alert's name without its prefix.

Of an alert that is not in this table, there is one per event if it has ``events``, else one per
exporter: see :func:`each_of`.
"""
_WHEN: Mapping[str, str] = {
    "ScaleSetHit": "half a set is away; two unrequested events take part",
    "VmNotBack": "a VM is missing",
    "Maintenance": "a VM is away; stays for 5m",
    "Overdue": "an event has not begun 10m after its time",
    "StartedTooLong": "an event does not end",
    "NotApproved": "the policy has not approved an event in time",
    "PausedLonger": "a pause was longer than announced; stays for 70m",
    "ImdsUnreachable": "polls of IMDS fail, or the VM is unknown",
    "DocumentInvalid": "the answers of IMDS are not readable",
    "Throttled": "IMDS refuses polls: too many requests",
    "ExporterDown": "scrapes of an exporter fail",
    "NoExporters": "the scrape job has no target",
    "JournalNotOnDisk": "the journal cannot be written",
    "ApprovalRefused": "IMDS has refused an approval; stays for up to 5m",
    "AlertsNotPushed": "Alertmanager does not take pushed alerts",
    "SpansNotDelivered": "spans do not reach the collector; stays for up to 20m",
    "ClockOff": "the clock of a VM or of Prometheus is wrong",
    "HookFailed": "a run of the hook has failed; stays for 15m",
}
"""When an alert fires, for the map of all alerts, by the alert's name without its prefix.

In the rule file, the comment above each alert says more. For alerts about events, the map has their
kind and types instead.
"""


def head(settings: Settings) -> Iterator[str]:
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
    for paragraph in _how(settings):
        yield from _wrapped("  ", paragraph, " " * 5)
    yield from ("", "WHAT THE RULES NEED")
    for paragraph in _needs(settings):
        yield from _wrapped("  ", paragraph, " " * 4)
    yield from ("", f"ALL ALERTS, in the order of the file, without {PREFIX} before each name")
    yield from _map(alerts(settings))
    for paragraph in _LEGEND:
        yield from _wrapped("  ", paragraph, " " * 4)
    yield ""


def each_of(alert: Alert) -> str:
    """Return what there is one alert for, such as ``event``."""
    if alert.events:
        return "event"
    return _EACH.get(alert.name.removeprefix(PREFIX), "exporter (scrape target)")


def _how(settings: Settings) -> Iterator[str]:
    """Yield how alerts about events work, a paragraph each."""
    yield (
        "1. It fires when an own VM of the event shows it. This part reads the scrape, and waits"
        " for no recording: vmalert can read a recording only 10 s after it is written. The VM may"
        " go down within these 10 s, or a scrape may fail, so this part reads the last minute."
    )
    yield (
        "2. It also fires when any exporter shows the event, of an own VM or of another one. This"
        " part reads the recording :event_impact. Part 1 is only faster, and needs a known time."
    )
    yield (
        "3. It is held while no exporter shows the event with this kind, because its VMs may be"
        " down: until the hold has passed since an exporter last saw it with this kind. The hold"
        " stands above each alert, and in its expression as a window (twice) and in seconds. While"
        " an exporter that cannot read IMDS goes on showing the event as this kind, the alert"
        " stays, too, however long that takes. Then only 4 and 5 end it, or the end of that"
        " exporter."
    )
    yield (
        "4. It gives way if an exporter has seen the same event with another kind or type, more"
        " than 60 s later than any has seen it with this one (:event_outdated). The alert of that"
        " kind and type fires, if there is one (harmless has none). The kind without_notice takes"
        " nothing over: an exporter says so if it has started during an event that is not in its"
        " journal, while others saw the announcement."
    )
    yield (
        f"5. It ends {RESOLVE_AFTER} s after the end of the event (:event_ended), unless an"
        " exporter has seen the event since."
    )
    kept = ", ".join(settings.items("labels.keep")) or "none"
    yield (
        "Its value is the time of the impact, or 0 if that is unknown. VMs of one event whose kept"
        f" labels differ give an alert each (setting labels.keep; this file keeps {kept})."
    )


def _needs(settings: Settings) -> Iterator[str]:
    """Yield what the rules need, a paragraph each."""
    yield (
        "- A scrape every 5 s is best: an eviction has a notice of 30 s or less. The rules work"
        " with up to 2 minutes, if the setting scrape.interval says so (it is"
        f" {settings.text('scrape.interval')} in this file). A short window over a recording, such"
        " as that over vm_back, is three evaluations long; that over vm_answers is one scrape"
        " longer."
    )
    yield (
        f"- The name of the scrape job must match {settings.text('job')} (setting job): otherwise"
        " ExporterDown and VmNotBack never fire, and NoExporters does."
    )
    yield (
        "- job and instance together must name one exporter: the rules join its series by these two"
        " labels."
    )
    yield (
        f"- Severities: {word_of(CRITICAL, settings)} is meant to page,"
        f" {word_of(WARNING, settings)} to make a ticket, and {word_of(INFO, settings)} to notify"
        " nobody. Alertmanager decides: one that you have needs routes for this"
        " (docs/existing-alertmanager.md)."
    )
    yield (
        f"- Links to dashboards begin with {settings.text('dashboards.url')}: set dashboards.url to"
        " the address of your Grafana. `assets export DIR --values FILE` makes this file with your"
        " settings (docs/alerts.md)."
    )
    yield (
        "- The clocks of Prometheus and Azure must agree within seconds: time() is compared"
        " with times by the clock of IMDS. If they differ by more than 30 s, ClockOff fires for"
        " every exporter."
    )
    yield (
        "- All times are in seconds since 1970. `and` and `unless` bind tighter than `or`, and"
        " comparisons tighter than both."
    )


_HEADINGS = ("alert", "severity", "for", "hold", "one per", "when")
_LEGEND = (
    (
        "Ends: an alert with a hold, as said above. Any other one within minutes after its"
        " condition has ended, unless the last column says for how long it stays."
    ),
    (
        "Labels: of an event, event_id and event_type; of a VM, the four labels (see WORDS); of a"
        " scale set, the first three of them; of an exporter, job and instance, and in most alerts"
        " all labels of its target. The last group has component=exporter, too. Alerts with a hold,"
        " and VmNotBack, have the kept labels. Maintenance has those by which your own alerts name"
        " a VM."
    ),
)


def _map(every: Sequence[Alert]) -> Iterator[str]:
    """Yield a table of all alerts, a line each."""
    rows = [_HEADINGS, *(_row(each) for each in every)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield f"  {'  '.join(cells)}".rstrip()


def _row(alert: Alert) -> tuple[str, ...]:
    """Return the cells of an alert, as ``_HEADINGS`` names them."""
    name = alert.name.removeprefix(PREFIX)
    waits = alert.pending_for or "-"  # the rule's ``for``
    if alert.events:
        hold = format_duration(alert.events.hold)
        return (name, alert.severity, waits, hold, each_of(alert), _selected(alert.events))
    # The column has room for the first words only: "exporter", not "exporter, type of event, …".
    each = each_of(alert).partition(" (")[0].partition(",")[0]
    return (name, alert.severity, waits, "-", each, _WHEN[name])


def _selected(events: Events) -> str:
    """Return the kind and types of events."""
    if events.types:
        return f"kind {events.kind}, type {' or '.join(events.types)}"
    if events.excluded:
        return f"kind {events.kind}, any type but {events.excluded}"
    return f"kind {events.kind}"


def _wrapped(begin: str, text: str, indent: str) -> list[str]:
    """Return the lines of a paragraph. ``yaml_text`` adds ``# `` to each."""
    return wrap(
        text,
        WIDTH - 2,  # room for ``# ``
        initial_indent=begin,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
