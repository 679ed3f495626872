"""A VM whose exporter is killed and started again on one journal, with the spans and phases that come of it."""

import logging
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from azure_scheduled_events_exporter.config import resolve
from azure_scheduled_events_exporter.core.spans import SpanFacts
from azure_scheduled_events_exporter.core.statistics import Histogram
from azure_scheduled_events_exporter.errors import Outcome
from azure_scheduled_events_exporter.journal.files import read_only
from azure_scheduled_events_exporter.service.daemon import Exporter
from azure_scheduled_events_exporter.simulator import Simulator
from support.events.machine import START, MachineClock, counted_transitions
from support.monitoring.collector import Collector
from support.programs import eventually

LOG = logging.getLogger("tests.resume")


@dataclass
class Machine:
    """A VM whose exporter is polled by hand, killed and started again on one journal."""

    imds: Simulator
    collector: Collector
    folder: Path
    stack: ExitStack
    name: str = "vmss_0"
    clock: MachineClock = field(default_factory=MachineClock)
    exporter: Exporter | None = None

    def start(self) -> None:
        """Start the exporter; nothing is asked yet."""
        flags = {
            "imds.endpoint": self.imds.url,
            "instance.name": self.name,
            "journal.path": str(self.folder),
            "otlp.endpoint": self.collector.url,
        }
        self.exporter = Exporter(resolve(flags, {}), LOG, self.clock)
        self.stack.callback(self.exporter.journal.close)
        self.stack.callback(self.exporter._ending.set)

    def dies(self) -> None:
        """End without a shutdown, as SIGKILL and power failures do: only committed data remains."""
        assert self.exporter
        self.exporter.journal.close()
        self.exporter = None

    def polls(self, at: float, *events: dict[str, object]) -> None:
        """Poll, ``at`` seconds after START, when the document shows ``events``."""
        self.clock.wall = START + at
        if self.exporter is None:
            self.start()
        assert self.exporter
        self.imds.set_document(list(events))
        poll = self.exporter.poller.poll
        eventually(lambda: poll() is Outcome.OK, "a poll that is not throttled")

    @property
    def transitions(self) -> dict[str, int]:
        """Every transition counted so far, without those that are 0."""
        return counted_transitions(self.exporter)

    @property
    def phases(self) -> dict[tuple[str, str], Histogram]:
        """The phase durations by type and phase."""
        assert self.exporter
        return dict(self.exporter.poller.snapshot.statistics.phases)

    @property
    def spans(self) -> dict[str, SpanFacts]:
        """The journalled spans by name, none of them delivered yet."""
        assert self.exporter
        spans = [queued.span for queued in self.exporter.journal.queued_spans(-1)]
        assert len(spans) == len({span.name for span in spans})
        return {span.name: span for span in spans}

    def times(self) -> dict[str, tuple[float, float]]:
        """Start and end of each span, in seconds after START."""
        return {name: (span.start - START, span.end - START) for name, span in self.spans.items()}

    def journalled(self) -> list[tuple[str, str]]:
        """EventId and transition of every row of the journal, as another process reads it."""
        return [(str(r["event_id"]), str(r["transition"])) for _, r in read_only(self.folder).transitions(0, -1)]
