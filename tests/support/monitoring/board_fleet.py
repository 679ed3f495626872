"""The fleet of the dashboards' story: its VMs, and the events of its last 30 days and of now.

Data only: ``board_samples`` makes series of it.
"""

from dataclasses import dataclass

from azure_scheduled_events_exporter.core.lifecycle import Kind

MINUTE = 60
HOUR = 3600
DAY = 86_400
BLIND_FOR = 20 * MINUTE
"""For how long an exporter that is blind has been."""
JOB = "azure-scheduled-events-exporter"
HOST = "Host server is undergoing maintenance."
MOVE = "Virtual machine is being paused because of a memory-preserving Live Migration operation."
RESTART = "Virtual machine is going to be restarted as requested by authorized user."


@dataclass(frozen=True, slots=True)
class Vm:
    """A VM with an exporter; VMs of one ``group`` see each other's events."""

    name: str
    group: str
    zone: str
    priority: str = "Regular"
    cores: int = 4

    @property
    def scale_set(self) -> str:
        """Its scale set, "" if it has none."""
        return self.name.rpartition("_")[0]

    @property
    def target(self) -> dict[str, str]:
        """The labels of Prometheus' target."""
        return {"job": JOB, "instance": f"{self.name.replace('_', '-')}:10169"}


FLEET = (
    *(Vm(f"web_{index}", "web", str(index % 3 + 1)) for index in range(5)),
    *(Vm(f"batch_{index}", "batch", str(index % 3 + 1), "Spot") for index in range(3)),
    Vm("db-primary", "data", "1", cores=16),
    Vm("db-standby", "data", "2", cores=16),
)


@dataclass(frozen=True, slots=True)
class Event:
    """An event; times in seconds from now, negative ones are past.

    Attributes:
        seen: when the exporters first saw it.
        not_before: NotBefore; None if it has none.
        started: when it started; None if it did not.
        ended: when it left the document; None while it is current.
        outcome: how it ended, if it has.
        duration: DurationInSeconds; None if IMDS gives none.
        source: EventSource.
        approved: the VM whose exporter approved it; ``""`` if none did.
        due: when a policy will approve it; None if none will.
        unseen: since when no exporter shows it, because its VM is away and nobody else sees it.
        pause: the longest pause that its VMs measured; None if they measured nothing.
        retransmitted: how many TCP segments they sent again.
    """

    type: str
    vms: tuple[str, ...]
    seen: float
    not_before: float | None
    started: float | None = None
    ended: float | None = None
    outcome: str = "completed"
    kind: Kind = Kind.ANNOUNCED
    duration: float | None = None
    description: str = HOST
    source: str = "Platform"
    approved: str = ""
    due: float | None = None
    unseen: float | None = None
    pause: float | None = None
    retransmitted: float = 0.0


def _past(
    days: float, type_: str, vm: str, notice: float, lasted: float = 8 * MINUTE, **more: object
) -> Event:
    """Return an event that was first seen so many ``days`` ago and started at its NotBefore."""
    seen = -days * DAY
    begun = seen + notice
    times = (seen, begun, begun, begun + lasted)
    return Event(type_, (vm,), *times, **more)  # type: ignore[arg-type]


PAST = (
    _past(27.4, "Freeze", "web_2", 15 * MINUTE, duration=9.0),
    _past(25.1, "Preempt", "batch_1", 30, 60, description=""),
    _past(21.3, "Freeze", "db-primary", 15 * MINUTE, duration=30.0),
    _past(21.2, "Freeze", "db-standby", 15 * MINUTE, duration=30.0),
    _past(
        16.7,
        "Reboot",
        "web_0",
        4 * MINUTE,
        source="User",
        kind=Kind.REQUESTED,
        description=RESTART,
        approved="web_0",
    ),
    _past(13.6, "Preempt", "batch_0", 28, 50, description=""),
    _past(13.59, "Preempt", "batch_2", 30, 60, description=""),
    Event(
        "Freeze",
        ("web_4",),
        -9.5 * DAY,
        -9.5 * DAY + 900,
        None,
        -9.5 * DAY + 400,
        "cancelled",
        duration=9.0,
    ),
    _past(
        6.2,
        "Freeze",
        "web_1",
        15 * MINUTE,
        duration=5.0,
        kind=Kind.HARMLESS,
        description=MOVE,
        approved="web_1",
    ),
    _past(3.4, "Redeploy", "web_4", 10 * MINUTE, 14 * MINUTE),
    Event("Reboot", ("db-standby",), -2.3 * DAY, -2.3 * DAY + 900, None, -2.3 * DAY + 1200, "lost"),
    _past(
        0.7,
        "Freeze",
        "web_4",
        15 * MINUTE,
        duration=5.0,
        description=MOVE,
        pause=12.3,
        retransmitted=240,
    ),
    _past(
        0.4,
        "Freeze",
        "db-primary",
        15 * MINUTE,
        duration=9.0,
        description=MOVE,
        pause=4.2,
        retransmitted=20,
    ),
    _past(0.25, "Redeploy", "web_1", 10 * MINUTE, 14 * MINUTE),
    Event(
        "Reboot",
        ("web_3",),
        -1.1 * DAY,
        None,
        -1.1 * DAY,
        -1.1 * DAY + 11 * MINUTE,
        kind=Kind.WITHOUT_NOTICE,
    ),
)
NOW = (
    Event(
        "Freeze",
        ("web_1",),
        -16 * MINUTE,
        -60,
        -60,
        duration=9.0,
        description=MOVE,
        pause=11.8,
        retransmitted=140,
    ),
    Event(
        "Reboot",
        ("web_2",),
        -4 * MINUTE,
        11 * MINUTE,
        kind=Kind.REQUESTED,
        source="User",
        description=RESTART,
        due=60,
    ),
    Event("Redeploy", ("db-primary",), -2 * HOUR, 2.9 * DAY, kind=Kind.FAR_AHEAD),
    Event("Preempt", ("batch_1",), -5, 25, description=""),
    Event("Reboot", ("db-standby",), -20 * MINUTE, -5 * MINUTE, -5 * MINUTE, unseen=-3 * MINUTE),
)
