"""Power failures: every transition that the exporter has reported must be on the disk at that
moment.
"""

import re
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from azure_scheduled_events_exporter.core.spans import span_id
from azure_scheduled_events_exporter.journal.access import read_only
from azure_scheduled_events_exporter.simulator import PlannedEvent, Scenario, Simulator
from support.monitoring.collector import Collector
from support.programs import NOBODY, Exporter
from trials.storage.image import Power, can_mount
from trials.trial import POLL, VMS, Crew, Order, Row, passes
from trials.truth import Transition, check_file, transitions_in

_LINE = re.compile(r'msg="event (\w+)" event_id=(\S+)')
"""The line of a transition in the log: the transition, and the EventId."""
_VM = "vmss_0"


def busy(order: Order, events: int = 60) -> Scenario:
    """Return a minute in which something happens several times a second."""
    chance = order.chance

    def event() -> PlannedEvent:
        kind = chance.choice(["Freeze", "Reboot", "Redeploy", "Preempt"])
        announced_at = chance.uniform(0, 50)
        notice = chance.uniform(1, 5)
        started_for = chance.uniform(1, 4)
        return PlannedEvent(
            kind, (_VM,), announced_at=announced_at, notice=notice, started_for=started_for
        )

    return Scenario("busy", "Much happens.", VMS, tuple(event() for _ in range(events)))


@dataclass
class Count:
    """What all cuts together showed.

    Attributes:
        reported: the transitions that the exporter had logged before a cut.
        kept: for each cut, the transitions in the journal that it left, in their order.
        unsaid: how many transitions were on disk at a cut, and not in the log yet.
        spans: how many spans were looked for on disk or at the collector.
    """

    cuts: int = 0
    reported: set[Transition] = field(default_factory=set)
    kept: list[list[Transition]] = field(default_factory=list)
    unsaid: int = 0
    spans: int = 0


@dataclass
class Cutter:
    """An exporter on a disk whose power is cut, and other exporters that start from what the cuts
    left.
    """

    order: Order
    crew: Crew
    power: Power
    exporter: Exporter
    collector: Collector
    count: Count = field(default_factory=Count)

    @property
    def said(self) -> set[Transition]:
        """The transitions in the exporter's log so far."""
        return {(event_id, transition) for transition, event_id in _LINE.findall(self.exporter.log)}

    def cuts(self) -> None:
        """Cut the power at a random moment, half the time directly after a report, and check what
        is left.
        """
        passes(self.order.chance.uniform(0, 0.8))
        if self.order.chance.random() < 0.5:
            before = len(self.said)
            self.exporter.shows("something new", lambda _: len(self.said) > before)
        delivered = {span.span_id for span in self.collector.accepted}
        scrape = self.exporter.scrape()
        assert scrape.value("journal_up") == 1, (
            "the journal is in memory, which survives no power cut"
        )
        counted = scrape.transitions()
        said = self.said
        remains = self.power.cut()
        with remains:
            self._starts_from(remains.place / "state", said, counted, delivered)
        self.count.cuts += 1

    def _starts_from(
        self, journal: Path, said: set[Transition], counted: dict[str, float], delivered: set[str]
    ) -> None:
        """Check the journal that a cut left, and what another exporter shows that starts from it.

        Before the cut, the exporter had logged ``said`` and counted ``counted``, and the collector
        had the spans whose ids are ``delivered``.
        """
        rows = transitions_in(journal)
        missing = said - set(rows)
        assert not missing, f"reported, and gone after a power cut: {missing}"
        for transition, count in counted.items():
            kept = sum(each == transition for _, each in rows)
            assert kept >= count, f"{count} {transition} in /metrics, {kept} after a power cut"
        self._keeps_spans(journal, said, delivered)
        # IMDS cannot be reached: what this one shows is what the disk told it.
        again = self.crew.start(f"http://{NOBODY}", "--journal.path", str(journal))
        scrape = again.scrape()
        assert scrape.value("journal_up") == 1
        assert scrape.value("journal_errors_total") == 0
        shown = scrape.transitions()
        again.kill()
        assert shown == Counter(transition for _, transition in rows)
        check_file(journal)
        self.count.reported |= said
        self.count.kept.append(rows)
        self.count.unsaid += len(set(rows) - said)

    def _keeps_spans(self, journal: Path, said: set[Transition], delivered: set[str]) -> None:
        """The spans of reported transitions are on the disk, unless the collector has them."""
        with closing(read_only(journal)) as store:
            waiting = {span_id for span_id, _ in store.queued_spans(-1)}
        due = {
            span_id(event_id, _VM, "detected")
            for event_id, transition in said
            if transition == "detected"
        }
        # Those that were struck off since.
        delivered |= {span.span_id for span in self.collector.accepted}
        assert due <= waiting | delivered, "a span was lost"
        self.count.spans += len(due)


def run(order: Order) -> Row:
    """Cut the power while transitions are written."""
    if not can_mount():
        return Row(
            "power",
            "power cuts",
            "not tried here: mounting a file system in a file needs Linux and root",
        )
    cuts = order.pick(40, 3)
    with (
        Simulator(busy(order), loop=True) as simulator,
        Collector() as collector,
        Power(order.folder / "power") as power,
        Crew(order.folder / "logs") as crew,
    ):
        assert power.disk
        live = power.disk.place / "state"
        flags = (*POLL, "--instance.name", _VM, "--journal.path", str(live))
        exporter = crew.start(simulator.url, *flags, "--otlp.endpoint", collector.url)
        exporter.shows("a poll", lambda now: now.value("up") == 1)
        cutter = Cutter(order, crew, power, exporter, collector)
        count = cutter.count
        while count.cuts < cuts:
            cutter.cuts()
            if count.cuts % 10 == 0:
                order.say(
                    f"{count.cuts} cuts, {len(count.reported)} transitions reported before them"
                )
        exporter.kill()
        rows = transitions_in(live)
    for kept in count.kept:
        assert kept == rows[: len(kept)], "a power cut made up something"
    return Row(
        "power",
        f"{cuts} power cuts: the live file system image (ext4, in mid write) copied, mounted, its"
        f" journal opened by another exporter, seed {order.seed}",
        f"{len(count.reported)} transitions reported before the cuts, 0 lost; {count.unsaid} were"
        f" on disk and not reported yet; {count.spans} spans looked for, 0 lost; every"
        " `integrity_check` ok, none set aside",
    )
