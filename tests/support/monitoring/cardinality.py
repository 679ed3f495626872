"""How many series an exporter costs: counted in the exposition of what it knows.

Run: ``PYTHONPATH=tests .venv/bin/python -m support.monitoring.cardinality``; it prints the tables
of docs/fleet.md. With ``--update`` it writes them there. Nothing here depends on the speed of the
machine.
"""

import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from azure_scheduled_events_exporter.core.approvals import mark_approved
from azure_scheduled_events_exporter.core.document import Document, EventSource, ScheduledEvent
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.lifecycle import Approver, Change, Lifecycles, State
from azure_scheduled_events_exporter.core.observation import observe
from azure_scheduled_events_exporter.core.observation_context import ObservationContext
from azure_scheduled_events_exporter.core.pause import Pause
from azure_scheduled_events_exporter.core.statistics import Statistics
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.metrics.exposition import Exposition
from azure_scheduled_events_exporter.simulator import shipped
from azure_scheduled_events_exporter.snapshot.snapshot import Polls, Snapshot
from support.paths import ROOT
from support.programs import Scrape

PAGE = ROOT / "docs" / "fleet.md"
BEGIN = "<!-- written by tests/support/monitoring/cardinality.py -->\n"
END = "<!-- end -->\n"
VM = "vmss_0"
PEER = "vmss_1"
INTERVAL = 5  # seconds between scrapes
FLEETS = (1, 100, 10_000)
ADDED = 5  # by Prometheus to each target: up, scrape_duration_seconds and three more

_HISTOGRAMS = (
    "azure_scheduled_events_(notice|approval_latency|phase_duration|observed_pause)_seconds"
    "_(bucket|sum|count)"
)

# When what happens, in seconds since the first document; NotBefore is at 900, later moved to 1,000.
_FATES = {
    "deadline": {0: "Scheduled", 10: "Moved", 1001: "Started", 1100: ""},
    "external": {0: "Scheduled", 100: "Started", 200: ""},
    "exporter": {0: "Scheduled", 100: "Started", 200: ""},
    "operator": {0: "Scheduled", 100: "Started", 200: ""},
    "cancelled": {0: "Scheduled", 300: ""},
    "lost": {0: "Scheduled", 950: ""},
}
_APPROVED_AT = 50  # where the fate is an approver that the exporter hears of

Life = tuple[str, str, str]
"""Type and source of an event, and which of the fates it has."""
_EVERY: tuple[Life, ...] = tuple(product(EventType, EventSource, _FATES))
_USUAL: tuple[Life, ...] = tuple(
    (event.event_type, event.source, fate)
    for scenario in shipped()
    for event in scenario.events
    if not event.is_advice
    for fate in ("deadline", "exporter", "cancelled")
    if (event.event_type, fate) != (EventType.PREEMPT, "exporter")  # no shipped policy approves it
)


@dataclass(frozen=True, slots=True)
class Figures:
    """Series of an exporter that has seen nothing, of one current event, of all history, and of
    what alerts need.

    ``histograms`` are those of history alone: notice, approvals, phases and pauses. ``history`` is
    that of the shipped scenarios, which has what happens in practice; ``history_own`` and
    ``history_all`` have what can happen at all.
    """

    idle: int
    scheduled: int
    started: int
    histograms: int
    history: int
    history_own: int
    history_all: int
    alerts: int


def measure_all(kept: str) -> Figures:
    """Return the figures; ``kept`` is the expression of names that alerts need."""
    both = _scrape((VM, PEER))
    return Figures(
        idle=_count(_scrape()),
        scheduled=_of_events(_scrape(current=State.SCHEDULED)),
        started=_of_events(_scrape(current=State.STARTED)),
        histograms=_count(both, _HISTOGRAMS),
        history=_count(_scrape((VM, PEER), _USUAL)),
        history_own=_count(_scrape((VM,))),
        history_all=_count(both),
        alerts=_count(both, kept),
    )


def _scrape(
    history: Sequence[str] = (), lives: Sequence[Life] = _EVERY, current: str = ""
) -> Scrape:
    """Return what an exporter shows with the ``lives`` of some VMs in its history, and perhaps a
    current event.
    """
    changes = [change for resource in history for change in _history(resource, lives)]
    now = Timestamp(time.time(), 0.0, "boot")
    not_before = now.wall + 86_400 if current == State.SCHEDULED else None
    event = ScheduledEvent(
        "A", EventType.FREEZE, current, "Platform", (VM, PEER), not_before, "", 5.0
    )
    document = Document(1, (event,) if current else ())
    known, more = observe(Lifecycles(), document, ObservationContext(now, VM))
    statistics = Statistics().plus([*changes, *more])
    polls = Polls(up=True, last_success=now.wall)
    known_vm = Instance(VM, scale_set="vmss", zone="1", host_name="vmss000000")
    snapshot = Snapshot(
        polls=polls, vm_name=VM, identity=known_vm, incarnation=1, statistics=statistics
    )
    return Scrape(
        Exposition(lambda: snapshot.with_events(known, now.wall), lambda: now.wall)
        .render()
        .body.decode()
    )


def _count(scrape: Scrape, kept: str = ".*") -> int:
    full = re.compile(kept)
    names = {name: len(samples) for name, samples in scrape.samples.items()}
    return sum(count for name, count in names.items() if full.fullmatch(_full_name(name)))


def _full_name(name: str) -> str:
    """Undo what :class:`Scrape` leaves out."""
    return name if name.startswith(("process_", "python_")) else f"azure_scheduled_events_{name}"


def _of_events(scrape: Scrape) -> int:
    return sum("event_id" in labels for samples in scrape.samples.values() for labels, _ in samples)


def _history(resource: str, lives: Sequence[Life]) -> Iterator[Change]:
    """Yield every transition of events with ``lives`` that touch ``resource``."""
    began = time.time() - 86_400  # longer ago than metrics show what has ended
    known = Lifecycles()
    for at in sorted({at for fate in _FATES.values() for at in fate} | {_APPROVED_AT}):
        now = Timestamp(began + at, at, "boot")
        events = [
            _at(
                ScheduledEvent(
                    f"{resource}/{kind}/{source}/{fate}".upper(), kind, "", source, (resource,)
                ),
                at,
                fate,
            )
            for kind, source, fate in lives
        ]
        there = tuple(
            replace(event, not_before=event.not_before and began + event.not_before)
            for event in events
            if event.status
        )
        known, changes = observe(
            known, Document(at, there), ObservationContext(now, VM, pause=Pause(1.0))
        )
        yield from changes
        if at == _APPROVED_AT:
            for approver in (Approver.EXPORTER, Approver.OPERATOR):
                for event_id in [
                    name for name in known.current if name.endswith(f"/{approver}".upper())
                ]:
                    known, changes = mark_approved(known, event_id, approver, now)
                    yield from changes


def _at(event: ScheduledEvent, at: int, fate: str) -> ScheduledEvent:
    """Return the event as a document shows it at a moment; without a status once it is gone."""
    steps = _FATES[fate]
    status = steps[max(step for step in steps if step <= at)]
    if status == "Started":
        return replace(event, status=State.STARTED)
    moved = "Moved" in steps.values() and at >= next(
        step for step, name in steps.items() if name == "Moved"
    )
    return replace(
        event, status=State.SCHEDULED if status else "", not_before=1000.0 if moved else 900.0
    )


def tables(figures: Figures) -> str:
    """Return the text in the page."""
    rows = [
        ("an exporter to which nothing has happened", figures.idle),
        ("for each current event, while Scheduled", f"+ {figures.scheduled}"),
        ("for each current event, while Started", f"+ {figures.started}"),
        ("all histograms of history: every type of event, phase and approver", figures.histograms),
        (
            "an exporter that has been through the shipped scenarios, with and without a policy",
            figures.history,
        ),
        (
            "an exporter whose VM has been through everything: all types, sources, approvers, ends",
            figures.history_own,
        ),
        ("… and whose neighbors have been, too", figures.history_all),
        ("with [what alerts need](#only-alerts) alone, whatever has happened", figures.alerts),
        ("Prometheus' own, of each target (`up`, `scrape_…`)", f"+ {ADDED}"),
    ]
    text = ["| series | |", "| --- | --- |", *(f"| {what} | {count} |" for what, count in rows), ""]
    text.append(
        "| VMs | series: nothing, everything has happened | samples a second | alerts only: series"
        " | samples a second |"
    )
    text.append("| --- | --- | --- | --- | --- |")
    for vms in FLEETS:
        series = [
            vms * (count + ADDED) for count in (figures.idle, figures.history_all, figures.alerts)
        ]
        low, high, few = (each / INTERVAL for each in series)
        text.append(
            f"| {vms:,} | {series[0]:,} to {series[1]:,} | {low:,.0f} to {high:,.0f} |"
            f" {series[2]:,} | {few:,.0f} |"
        )
    return "\n".join(text) + "\n"


def kept_by_alerts(page: str) -> str:
    """Return the expression of names that the page keeps where only alerts are wanted."""
    found = re.search(r"action: keep\n\s+source_labels: \[__name__\]\n\s+regex: (\S+)\n", page)
    if found is None:
        sys.exit(f"{PAGE}: there is no rule that keeps what alerts need")
    return found[1]


def main() -> None:
    """Print the tables, or write them into the page."""
    page = PAGE.read_text(encoding="utf-8")
    text = tables(measure_all(kept_by_alerts(page)))
    if "--update" in sys.argv[1:]:
        head, _, rest = page.partition(BEGIN)
        PAGE.write_text(head + BEGIN + text + END + rest.partition(END)[2], encoding="utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
