"""A VM for the tests of pauses: its clocks advance only on command, and its exporter is polled by hand and killed."""

import logging
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from azure_scheduled_events_exporter.config import resolve
from azure_scheduled_events_exporter.core.pause import ClockSample
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import Outcome
from azure_scheduled_events_exporter.service.daemon import Exporter as Daemon
from azure_scheduled_events_exporter.simulator import Simulator
from support.programs import eventually

START = 1_700_000_000.0
LOG = logging.getLogger("tests.observed_pause")


@dataclass
class Guest:
    """A VM whose clocks advance only on command; its exporter is polled by hand and killed."""

    imds: Simulator
    folder: Path
    stack: ExitStack
    wall: float = START
    booted: float = START - 100_000
    boot: int = 1
    daemon: Daemon | None = None

    def now(self) -> Timestamp:
        """Return this moment."""
        return Timestamp(self.wall, self.wall - self.booted, f"boot-{self.boot}")

    def booted_at(self) -> Timestamp | None:
        """Return when this machine booted."""
        return Timestamp(self.booted, 0.0, f"boot-{self.boot}")

    def reading(self) -> ClockSample:
        """Return what each clock says."""
        return ClockSample(self.wall, self.wall - self.booted, self.wall - self.booted, f"boot-{self.boot}")

    def running(self) -> Daemon:
        """Return the exporter, which starts if it does not run; nothing is asked yet."""
        if self.daemon is None:
            flags = {"imds.endpoint": self.imds.url, "instance.name": "vm_0", "journal.path": str(self.folder)}
            self.daemon = Daemon(resolve(flags, {}), LOG, self)
            self.stack.callback(self.daemon.stop)
        return self.daemon

    def polls(self, *events: dict[str, object]) -> None:
        """Poll when the document shows ``events``."""
        self.imds.set_document(list(events))
        poll = self.running().poller.poll
        eventually(lambda: poll() is Outcome.OK, "a poll that is not throttled")

    def fails_to_poll(self) -> None:
        """Poll while IMDS cannot be asked."""
        self.imds.inject("500")
        assert self.running().poller.poll() is not Outcome.OK
        self.imds.heal()

    def dies(self, *, in_order: bool = False) -> None:
        """End the exporter without a word, as SIGKILL and power cuts do, or as SIGTERM does."""
        assert self.daemon
        if in_order:
            self.daemon.stop()
        self.daemon.journal.close()
        self.daemon = None

    def passes(self, seconds: float) -> None:
        """Let time pass while no exporter runs."""
        assert self.daemon is None
        self.wall += seconds

    def reboots(self, seconds: float) -> None:
        """Go down, and be up again after ``seconds``."""
        self.passes(seconds)
        self.booted, self.boot = self.wall - 10, self.boot + 1

    @property
    def pauses(self) -> dict[str, tuple[int, float]]:
        """How many pauses were observed, and their sum, by type."""
        assert self.daemon
        pauses = self.daemon.poller.snapshot.statistics.pauses
        return {kind: (sum(histogram.counts), histogram.total) for (kind,), histogram in pauses.items()}
