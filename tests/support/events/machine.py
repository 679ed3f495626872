"""A VM whose exporter is polled by hand against a simulator, at moments of the test's own."""

import logging
from contextlib import ExitStack
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path

from azure_scheduled_events_exporter.approval.policy_reload import load_policy
from azure_scheduled_events_exporter.config.resolution import resolve
from azure_scheduled_events_exporter.core.spans import SpanFacts
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import Outcome
from azure_scheduled_events_exporter.imds.rate_limiter import RateLimiter
from azure_scheduled_events_exporter.service.exporter import Exporter
from azure_scheduled_events_exporter.simulator import Simulator
from support.events.imds_bodies import entry
from support.events.journal_recorder import MANY
from support.programs import eventually

START = 1_700_000_000.0
ID = "602D9444-D2CD-49C7-8624-8643E7171297"
LOG = logging.getLogger("tests.machine")


@dataclass
class MachineClock:
    """The clocks of a machine that boots on command."""

    wall: float = START
    booted: float = START - 100_000
    boot: int = 1

    def __call__(self) -> Timestamp:
        """Return this moment."""
        return Timestamp(self.wall, self.wall - self.booted, f"boot-{self.boot}")

    def reboots(self, at: float) -> None:
        """Boot again, ``at`` seconds after START."""
        self.booted = START + at
        self.boot += 1


@dataclass
class Machine:
    """A VM whose exporter is polled by hand against a real wire, at moments of our own."""

    imds: Simulator
    folder: Path
    stack: ExitStack
    policy: str = "off"
    name: str = "vmss_0"
    timeout: str = "10s"
    clock: MachineClock = field(default_factory=MachineClock)
    exporter: Exporter | None = None
    collector: str = ""
    proxy: str = ""  # the address of what stands before ``imds``; none if empty

    def ends(self, *, boots_at: float | None = None, in_order: bool = False) -> None:
        """End the exporter as SIGKILL does, or ``in_order``; boot the machine too, so many seconds
        after START.
        """
        if self.exporter:
            if in_order:
                self.exporter.stop()
            self.exporter.journal.close()
            self.exporter = None
        if boots_at is not None:
            self.clock.reboots(boots_at)

    def polls(self, at: float, *events: dict[str, object], body: bytes | None = None) -> None:
        """Poll a document of ``events``, ``at`` seconds after START.

        If there is a ``body``, IMDS answers this body instead; it still approves ``events``.
        """
        self.imds.set_document(list(events))
        self.imds.serve_body(body)
        self.looks(at)

    def looks(self, at: float) -> None:
        """Poll what the simulator shows ``at`` seconds after START."""
        self.clock.wall = START + at
        self.begins()
        good = {Outcome.OK, Outcome.INVALID_DOCUMENT}
        eventually(lambda: self.poll_outcome() in good, "a poll that is not throttled")

    def begins(self) -> None:
        """Start the exporter if it does not run; nothing is polled yet."""
        if self.exporter is None:
            flags = {
                "imds.endpoint": self.proxy or self.imds.url,
                "imds.timeout": self.timeout,
                "instance.name": self.name,
                "journal.path": str(self.folder),
                "approval.policy": self.policy,
                **({"otlp.endpoint": self.collector} if self.collector else {}),
            }
            config = resolve(flags, {})
            self.exporter = Exporter(
                config,
                LOG,
                self.clock,
                RateLimiter(1000),  # the moments are those of the test
                policy=load_policy(config.approval_policy),
            )
            self.stack.callback(self.exporter.journal.close)

    def poll_outcome(self) -> Outcome:
        """Poll once at this time, and return the outcome."""
        assert self.exporter
        return self.exporter.poller.poll()

    @property
    def transitions(self) -> dict[str, int]:
        """Every transition counted so far, without those that are 0."""
        assert self.exporter
        counted: dict[str, int] = {}
        for (*_, transition), count in self.exporter.poller.snapshot.statistics.transitions.items():
            if count:
                counted[transition] = counted.get(transition, 0) + count
        return counted

    @property
    def phases(self) -> dict[tuple[str, str], float]:
        """The sum of the phase durations by type and phase."""
        assert self.exporter
        found = self.exporter.poller.snapshot.statistics.time_in_state.items()
        return {(kind, phase): histogram.total for (kind, phase), histogram in found}

    @property
    def pauses(self) -> dict[str, tuple[int, float]]:
        """How many pauses were observed, and their sum, by type."""
        assert self.exporter
        found = self.exporter.poller.snapshot.statistics.pauses.items()
        return {kind: (sum(histogram.counts), histogram.total) for (kind,), histogram in found}

    @property
    def spans(self) -> dict[str, SpanFacts]:
        """The journalled spans by name, none of them delivered yet."""
        assert self.exporter
        spans = list(self.exporter.journal.queued_spans(MANY).values())
        assert len(spans) == len({span.name for span in spans}), "a name stands for one span"
        return {span.name: span for span in spans}

    def times(self) -> dict[str, tuple[float, float]]:
        """Start and end of each span, in seconds after START."""
        return {name: (span.start - START, span.end - START) for name, span in self.spans.items()}


def event(kind: str = "Reboot", status: str = "Scheduled", **more: object) -> dict[str, object]:
    """Return an event of the first VM, with 900 s of notice from START; ``more`` are keys of the
    document.
    """
    due = formatdate(START + 900, usegmt=True) if status == "Scheduled" else ""
    return (
        entry(EventId=ID, EventStatus=status, EventType=kind, Resources=["vmss_0"], NotBefore=due)
        | more
    )
