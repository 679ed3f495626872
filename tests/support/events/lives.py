"""Lives of one ordinary event, as an exporter on its VM sees them: document by document."""

from dataclasses import replace

from azure_scheduled_events_exporter.core.approvals import mark_approved
from azure_scheduled_events_exporter.core.document import Document, ScheduledEvent, Scope
from azure_scheduled_events_exporter.core.lifecycle import (
    Approver,
    Change,
    Lifecycle,
    Lifecycles,
    State,
)
from azure_scheduled_events_exporter.core.observation import observe
from azure_scheduled_events_exporter.core.observation_context import ObservationContext
from azure_scheduled_events_exporter.core.pause import Pause
from azure_scheduled_events_exporter.core.timestamp import Timestamp

NOT_BEFORE = 1_700_000_900.0  # 15 minutes after START
START = 1_700_000_000.0
VM = "vm_0"
SCHEDULED = ScheduledEvent(
    "A", "Reboot", "Scheduled", "Platform", (VM, "vm_1"), NOT_BEFORE, "", 30.0
)
STARTED = replace(SCHEDULED, status="Started", not_before=None)


def at(seconds: float, *, boot: str = "boot-1", jump: float = 0.0) -> Timestamp:
    """Return the moment ``seconds`` after START; ``jump`` is how far the wall clock is off."""
    return Timestamp(START + seconds + jump, 5000.0 + seconds, boot)


class Watch:
    """An exporter's eyes: documents go in, changes come out."""

    def __init__(self, vm_name: str | None = VM) -> None:
        self.known = Lifecycles()
        self.vm_name = vm_name
        self.changes: list[Change] = []

    def sees(
        self,
        now: Timestamp,
        *events: ScheduledEvent,
        watched: bool = True,
        booted_at: Timestamp | None = None,
        unreadable: tuple[str, ...] = (),
        pause: Pause | None = None,
    ) -> list[str]:
        """Return the transitions that a document of ``events`` brings; again, it brings none.

        ``watched``: no document was missed before it. ``booted_at`` moves the clock that begins
        with the VM. ``unreadable``: a line for each entry that cannot be read.
        """
        if booted_at is not None:
            now = replace(now, monotonic=now.wall - booted_at.wall)
        context = ObservationContext(now, self.vm_name, watched, pause)
        self.known, changes = observe(self.known, Document(1, events, unreadable), context)
        self.changes.extend(changes)
        _, changes_again = observe(self.known, Document(1, events, unreadable), context)
        assert changes_again == ()
        return [str(change.transition) for change in changes]

    def approves(
        self, now: Timestamp, approver: Approver = Approver.EXPORTER, event_id: str = "A"
    ) -> list[str]:
        """Return the transitions that an accepted approval brings."""
        self.known, changes = mark_approved(self.known, event_id, approver, now)
        self.changes.extend(changes)
        return [str(change.transition) for change in changes]

    def restarts(self) -> None:
        """Restart the exporter: it knows the events of its journal, and has had no document yet."""
        self.known = replace(self.known, seen={})

    def state(self, event_id: str = "A") -> State:
        """Return the state of a current event."""
        return self.known.current[event_id].state

    def scope(self, event_id: str = "A") -> Scope:
        """Return whose a current event is."""
        return self.known.current[event_id].scope

    @property
    def transitions(self) -> list[str]:
        """All transitions so far."""
        return [str(change.transition) for change in self.changes]

    @property
    def life(self) -> Lifecycle:
        """The life as the last change left it."""
        return self.changes[-1].lifecycle
