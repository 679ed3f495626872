"""A VM that watches one event and makes spans of what changes, in seconds after START."""

from dataclasses import dataclass, field, replace

from azure_scheduled_events_exporter.core.approvals import mark_approved
from azure_scheduled_events_exporter.core.document import Document, ScheduledEvent
from azure_scheduled_events_exporter.core.lifecycle import Approver, Lifecycle, Lifecycles, State
from azure_scheduled_events_exporter.core.observation import observe
from azure_scheduled_events_exporter.core.observation_context import ObservationContext
from azure_scheduled_events_exporter.core.pause import Pause
from azure_scheduled_events_exporter.core.spans import SpanFacts, finished
from azure_scheduled_events_exporter.core.timestamp import Timestamp

GUID = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"
START = 1_700_000_000.0
PREFIX = "azure.scheduled_event."
"""What the names of attributes begin with."""


def scheduled(event_id: str = GUID, **more: object) -> ScheduledEvent:
    """Return an announced Freeze of two VMs, with 900 s of notice."""
    event = ScheduledEvent(
        event_id=event_id,
        event_type="Freeze",
        status=State.SCHEDULED,
        source="Platform",
        resources=("vmss_0", "vmss_1"),
        not_before=START + 900,
        description="Live Migration",
        duration_seconds=5.0,
    )
    return replace(event, **more)  # type: ignore[arg-type]


STARTED = replace(scheduled(), status=State.STARTED, not_before=None)
"""The same event, as IMDS shows it once it has begun."""


@dataclass
class Watcher:
    """One VM that looks at documents and makes spans of what changes.

    Attributes:
        vm: its name; ``""`` while the VM does not know it.
        boot: when it booted; a test that sets it anew reboots the VM.
        known: the events that it knows.
    """

    vm: str = "vmss_0"
    boot: Timestamp = field(default_factory=lambda: Timestamp(START - 9e6, 0.0, "boot-1"))
    known: Lifecycles = field(default_factory=Lifecycles)

    def sees(
        self, *events: ScheduledEvent, at: float, watched: bool = True, pause: float = 0.0
    ) -> dict[str, SpanFacts]:
        """Return by name the spans that are finished by a document of ``events``, ``at`` seconds
        after START.

        ``watched``: somebody has polled since the document before. ``pause``: how many seconds the
        VM stood still since then.
        """
        context = ObservationContext(self._moment(at), self.vm, watched, Pause(pause))
        self.known, changes = observe(self.known, Document(1, events), context)
        return {span.name: span for change in changes for span in finished(change)}

    def approves(self, at: float) -> dict[str, SpanFacts]:
        """Return by name the spans that an accepted approval of the event finishes."""
        self.known, changes = mark_approved(self.known, GUID, Approver.EXPORTER, self._moment(at))
        return {span.name: span for change in changes for span in finished(change)}

    def _moment(self, at: float) -> Timestamp:
        """Return the moment ``at`` seconds after START, by the clocks of the VM."""
        return Timestamp(START + at, START + at - self.boot.wall, self.boot.boot_id)

    @property
    def life(self) -> Lifecycle:
        """The one current event."""
        (life,) = self.known.current.values()
        return life


def times(spans: dict[str, SpanFacts]) -> dict[str, tuple[float, float]]:
    """Return start and end of each span, in seconds after START."""
    return {name: (span.start - START, span.end - START) for name, span in spans.items()}
