"""How many series an exporter costs: counted in the exposition of real ones, on the simulator.

Run: ``PYTHONPATH=tests .venv/bin/python -m support.monitoring.cardinality``; it prints the tables of docs/fleet.md.
With ``--update`` it writes them there. Nothing here depends on the speed of the machine.
"""

import logging
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from azure_scheduled_events_exporter.core.approvals import mark_approved
from azure_scheduled_events_exporter.core.document import Document, EventSource, EventStatus, ScheduledEvent
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.core.lifecycle import Approver, Change, Lifecycles
from azure_scheduled_events_exporter.core.observation import ObservationContext, observe
from azure_scheduled_events_exporter.core.pause import Pause
from azure_scheduled_events_exporter.core.statistics import Statistics, measure
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.journal.journal import Journal
from azure_scheduled_events_exporter.journal.store import Entry
from azure_scheduled_events_exporter.simulator import PlannedEvent, Scenario, Simulator, Starts, VirtualMachine, shipped
from support.paths import ROOT
from support.programs import Exporter, Scrape

PAGE = ROOT / "docs" / "fleet.md"
BEGIN, END = "<!-- written by tests/support/monitoring/cardinality.py -->\n", "<!-- end -->\n"
VM, PEER = "vmss_0", "vmss_1"
INTERVAL = 5  # seconds between scrapes
FLEETS = (1, 100, 10_000)
ADDED = 5  # by Prometheus to each target: up, scrape_duration_seconds and three more
LOG = logging.getLogger("benchmark")

_HISTOGRAMS = (
    "azure_scheduled_events_(notice|approval_latency|phase_duration|observed_pause)_seconds_(bucket|sum|count)"
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
    """Series of an exporter that has seen nothing, of one current event, of all history, and of what alerts need.

    ``histograms`` are those of history alone: notice, approvals, phases and pauses. ``history`` is that of the shipped
    scenarios, which has what happens in practice; ``history_own`` and ``history_all`` have what can happen at all.
    """

    idle: int
    scheduled: int
    started: int
    histograms: int
    history: int
    history_own: int
    history_all: int
    alerts: int


def measure_all(folder: Path, kept: str) -> Figures:
    """Return the figures; ``kept`` is the expression of names that alerts need. Files go into ``folder``."""
    idle = _scrape(folder / "idle", ())
    scheduled = _scrape(folder / "scheduled", (_planned(Starts.NEVER),))
    started = _scrape(folder / "started", (_planned(Starts.AT_ONCE),))
    usual = _scrape(folder / "usual", (), (VM, PEER), _USUAL)
    own = _scrape(folder / "own", (), (VM,))
    both = _scrape(folder / "all", (), (VM, PEER))
    return Figures(
        idle=_count(idle),
        scheduled=_of_events(scheduled),
        started=_of_events(started),
        histograms=_count(both, _HISTOGRAMS),
        history=_count(usual),
        history_own=_count(own),
        history_all=_count(both),
        alerts=_count(both, kept),
    )


def _planned(starts: Starts) -> PlannedEvent:
    return PlannedEvent(
        "Freeze", (VM, PEER), duration=5, announced_at=0, notice=86_400, started_for=86_400, starts=starts
    )


def _scrape(
    folder: Path, events: tuple[PlannedEvent, ...], history: Sequence[str] = (), lives: Sequence[Life] = _EVERY
) -> Scrape:
    """Return what an exporter shows that knows ``events``, and whose journal has the ``lives`` of some VMs."""
    folder.mkdir()
    vm = VirtualMachine(VM, scale_set="vmss", zone="1")
    with ExitStack() as stack:
        simulator = stack.enter_context(Simulator(Scenario("still", "Nothing moves.", (vm,), events)))
        journal = folder / "journal.sqlite"
        if history:
            _write(journal, history, lives)
        flags = ("--journal.path", str(journal), "--poll.interval", "200ms")
        exporter = stack.enter_context(Exporter(simulator.url, folder / "log", *flags))

        def settled(scrape: Scrape) -> list[Scrape]:
            named = scrape.value("up") == 1 and scrape.series("instance_info", vm_name=VM)
            return [scrape] if named and len(scrape.series("event_info")) == len(events) else []

        return exporter.shows("a poll, its own name and all events", settled)[0]


def _count(scrape: Scrape, kept: str = ".*") -> int:
    full = re.compile(kept)
    names = {name: len(samples) for name, samples in scrape.samples.items()}
    return sum(count for name, count in names.items() if full.fullmatch(_full_name(name)))


def _full_name(name: str) -> str:
    """Undo what :class:`Scrape` leaves out."""
    return name if name.startswith(("process_", "python_")) else f"azure_scheduled_events_{name}"


def _of_events(scrape: Scrape) -> int:
    return sum("event_id" in labels for samples in scrape.samples.values() for labels, _ in samples)


def _write(path: Path, resources: Sequence[str], lives: Sequence[Life]) -> None:
    changes = [change for resource in resources for change in _history(resource, lives)]
    with closing(Journal(path, 90 * 86_400.0, LOG)) as journal:
        known = Lifecycles()
        journal.record(
            Entry(changes, [change.lifecycle for change in changes]), Statistics().plus(map(measure, changes)), known
        )


def _history(resource: str, lives: Sequence[Life]) -> Iterator[Change]:
    """Yield every transition of events with ``lives`` that touch ``resource``."""
    began = time.time() - 86_400  # longer ago than metrics show what has ended
    known = Lifecycles()
    for at in sorted({at for fate in _FATES.values() for at in fate} | {50}):
        now = Timestamp(began + at, at, "boot")
        events = [
            _at(ScheduledEvent(f"{resource}/{kind}/{source}/{fate}".upper(), kind, "", source, (resource,)), at, fate)
            for kind, source, fate in lives
        ]
        there = tuple(
            replace(event, not_before=event.not_before and began + event.not_before) for event in events if event.status
        )
        known, changes = observe(known, Document(at, there), ObservationContext(now, VM, pause=Pause(1.0)))
        yield from changes
        if at == 50:
            for approver in (Approver.EXPORTER, Approver.OPERATOR):
                ids = [event_id for event_id in known.current if event_id.endswith(f"/{approver}".upper())]
                known, changes = mark_approved(known, ids, approver, now)
                yield from changes


def _at(event: ScheduledEvent, at: int, fate: str) -> ScheduledEvent:
    """Return the event as a document shows it at a moment; without a status once it is gone."""
    steps = _FATES[fate]
    status = steps[max(step for step in steps if step <= at)]
    if status == "Started":
        return replace(event, status=EventStatus.STARTED)
    moved = "Moved" in steps.values() and at >= next(step for step, name in steps.items() if name == "Moved")
    return replace(event, status=EventStatus.SCHEDULED if status else "", not_before=1000.0 if moved else 900.0)


def tables(figures: Figures) -> str:
    """Return the text in the page."""
    rows = [
        ("an exporter to which nothing has happened", figures.idle),
        ("for each current event, while Scheduled", f"+ {figures.scheduled}"),
        ("for each current event, while Started", f"+ {figures.started}"),
        ("all histograms of history: every type of event, phase and approver", figures.histograms),
        ("an exporter that has been through the shipped scenarios, with and without a policy", figures.history),
        ("an exporter whose VM has been through everything: all types, sources, approvers, ends", figures.history_own),
        ("… and whose neighbors have been, too", figures.history_all),
        ("with [what alerts need](#only-alerts) alone, whatever has happened", figures.alerts),
        ("Prometheus' own, of each target (`up`, `scrape_…`)", f"+ {ADDED}"),
    ]
    text = ["| series | |", "| --- | --- |", *(f"| {what} | {count} |" for what, count in rows), ""]
    text += [
        "| VMs | series: nothing, everything has happened | samples a second | alerts only: series | samples a second |"
    ]
    text += ["| --- | --- | --- | --- | --- |"]
    for vms in FLEETS:
        series = [vms * (count + ADDED) for count in (figures.idle, figures.history_all, figures.alerts)]
        low, high, few = (each / INTERVAL for each in series)
        text.append(
            f"| {vms:,} | {series[0]:,} to {series[1]:,} | {low:,.0f} to {high:,.0f} | {series[2]:,} | {few:,.0f} |"
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
    with tempfile.TemporaryDirectory() as folder:
        text = tables(measure_all(Path(folder), kept_by_alerts(page)))
    if "--update" in sys.argv[1:]:
        head, _, rest = page.partition(BEGIN)
        PAGE.write_text(head + BEGIN + text + END + rest.partition(END)[2], encoding="utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
