"""What a scenario is: VMs, what happens to them, and what is wrong with IMDS meanwhile.

Only values, without a clock and without files: ``scenario_file`` reads them.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from azure_scheduled_events_exporter.recording.file import RecordedDocument

from .document import ADVICE
from .faults import FaultPlan

_SHORTEST: Final = 60.0
"""Seconds; a scenario is played at least so long, so that a loop of empty ones does not spin."""


class Starts(StrEnum):
    """When an event begins if nobody approves it."""

    NOT_BEFORE = "at NotBefore"
    AT_ONCE = "at once"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class VirtualMachine:
    """One VM of the placement group; fields as in ``/metadata/instance``.

    If ``vm_id`` is empty, the VM has an id that follows from its name. With ``own_events_only``,
    its documents show only the events that name it in Resources.
    """

    name: str
    scale_set: str = ""
    zone: str = ""
    fault_domain: str = "0"
    size: str = "Standard_D4s_v5"
    priority: str = "Regular"
    location: str = "westeurope"
    resource_group: str = "simulated"
    subscription_id: str = "00000000-0000-0000-0000-000000000000"
    vm_id: str = ""
    own_events_only: bool = False


@dataclass(frozen=True, slots=True)
class PlannedEvent:
    """One event of a scenario, with what happens to it if nobody approves it.

    All times are seconds of scenario time: moments are counted from the beginning of the scenario.
    An event of type :data:`ADVICE` schedules nothing: it is shown from ``announced_at`` to
    ``cancelled_at``.

    Attributes:
        duration: DurationInSeconds as announced, -1 if it is unknown.
        notice: the time from ``announced_at`` to NotBefore.
        started_for: how long the event stays Started.
        approval_delay: the time from an approval to the start, which is at NotBefore at the latest.
        cancelled_at: when the event leaves the document if it has not been approved.
        rescheduled_at: when NotBefore changes.
        new_notice: the time from ``rescheduled_at`` to the changed NotBefore.
    """

    event_type: str
    resources: tuple[str, ...]
    source: str = "Platform"
    description: str = ""
    duration: int = -1
    announced_at: float = 30.0
    notice: float = 900.0
    starts: Starts = Starts.NOT_BEFORE
    started_for: float = 600.0
    approval_delay: float = 0.0
    cancelled_at: float | None = None
    rescheduled_at: float | None = None
    new_notice: float = 0.0

    @property
    def is_advice(self) -> bool:
        """Whether nothing is scheduled."""
        return self.event_type == ADVICE

    @property
    def not_before(self) -> float:
        """NotBefore after any reschedule, in seconds from the beginning of the scenario."""
        if self.rescheduled_at is not None:
            return self.rescheduled_at + self.new_notice
        return self.announced_at + self.notice


@dataclass(frozen=True, slots=True)
class Scenario:
    """VMs, their events, and faults of IMDS; or a recording whose documents are served instead."""

    name: str
    description: str
    vms: tuple[VirtualMachine, ...]
    events: tuple[PlannedEvent, ...]
    faults: tuple[FaultPlan, ...] = ()
    recording: tuple[RecordedDocument, ...] = ()

    @property
    def shortest(self) -> float:
        """How long the scenario is played at least, in seconds of scenario time.

        That is a minute, or until its recording and all its faults are over if that is longer. A
        fault that lasts until it is healed does not count. Nor do events: when they end depends on
        approvals, so the player waits for their ends besides.
        """
        lengths = [_SHORTEST]
        if self.recording:
            lengths.append(self.recording[-1].time - self.recording[0].time)
        lengths += [plan.ends for plan in self.faults if plan.ends < math.inf]
        return max(lengths)


PLACEMENT_GROUP: Final = tuple(
    VirtualMachine(f"vmss_{number}", scale_set="vmss", zone="1", fault_domain=str(number))
    for number in range(5)
)
"""The VMs of a scenario that names none."""
