"""The table of documented event types: what each does to a VM, and the defaults that follow.

Facts about Azure that pages, alerts, dashboards and the simulator state are here, once, with their
source. The rules of ``core.absence`` and the first series of counters follow from this table too.

CONTRIBUTING.md lists what has to be written by hand for a new type, such as the runbook. Azure may
send a type before this table has it: whatever handles an event must accept any text as its type.

Source: https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events (Event properties,
Event scheduling)
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, Self

URGENT_NOTICE_SECONDS = 30.0
"""The notice of any event may be as short as this, if the reason is urgent.

https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events (Event scheduling)
"""

PREEMPT_NOTICE = (
    "Microsoft documents a notice of at least 30 seconds in one table, and of up to 30 seconds,"
    " best effort, on another page; people report less than 10 seconds."
)
"""The table is that of Event scheduling of the page above.

The other page is https://learn.microsoft.com/azure/virtual-machines/spot-vms. What people report is
from https://github.com/Azure/karpenter-provider-azure/issues/1769.
"""

LONG_DISCONNECTION = (
    "It may be a live migration (the event does not say): then TCP connections can be cut for"
    " minutes."
)
"""https://github.com/Azure/AKS/issues/3719"""

API_VERSION = "2020-07-01"
"""The newest api-version of Scheduled Events that is not a preview."""

ADVISORY_API_VERSION = "2024-07-09"
"""A preview for Spot VMs: adds events with EventStatus Advisory.

Their type, SpotRebalanceRecommendation, is not in the table: such an event does nothing to a VM.
"""


class EventFacts(NamedTuple):
    """One row of the table.

    Attributes:
        meaning: what the event does, for people; ``{}`` is replaced by the VM or VMs.
        participle: the same in a few words, to follow "will be" or "is being".
        loss: what is lost and what is kept, for people.
        usual_notice: the notice that Azure usually gives, in seconds; for the simulator and the
            drill.
        usual_started: how long the event usually stays Started, in seconds; likewise.
        severity: the default severity of its alert.
        takes_vm_down: whether the VM goes down, so that its memory is lost, and a later boot of the
            VM can prove the event.
        deletes: whether the VM is not expected back.
        since: the first api-version that shows it.
        usual_source: the EventSource whose counters exist from the start.
    """

    meaning: str
    participle: str
    loss: str
    usual_notice: float
    usual_started: float
    severity: str
    takes_vm_down: bool = False
    deletes: bool = False
    since: str = "2017-03-01"
    usual_source: str = "Platform"

    @property
    def restarts(self) -> bool:
        """Whether the VM goes down and comes back."""
        return self.takes_vm_down and not self.deletes


class EventType(StrEnum):
    """The documented types, each with its :class:`EventFacts` as ``facts``.

    A member is written as a pair of its name and its facts, and is equal to its name.
    """

    facts: EventFacts

    def __new__(cls, name: str, facts: EventFacts) -> Self:
        """Return the member called ``name``; Enum calls this with each pair below."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.facts = facts
        return member

    FREEZE = (
        "Freeze",
        EventFacts(
            meaning=(
                "Pauses {} for some seconds: CPU and network stop. Memory and open files are kept."
                " The clock may lag until it is corrected."
            ),
            participle="paused",
            loss=(
                "Memory and open files are kept. CPU and network stop during the pause."
                f" {LONG_DISCONNECTION}"
            ),
            usual_notice=900.0,
            usual_started=600.0,
            severity="warning",
        ),
    )
    REBOOT = (
        "Reboot",
        EventFacts(
            meaning=(
                "Restarts {}. Memory is lost. Disks are kept. In rare cases it is only a pause."
            ),
            participle="rebooted",
            loss="Memory is lost. Disks are kept.",
            takes_vm_down=True,
            usual_notice=900.0,
            usual_started=600.0,
            severity="critical",
        ),
    )
    REDEPLOY = (
        "Redeploy",
        EventFacts(
            meaning="Moves {} to another host. Memory and ephemeral disks are lost.",
            participle="moved to another host",
            loss="Memory and ephemeral disks (temporary and local) are lost. Other disks are kept.",
            takes_vm_down=True,
            usual_notice=600.0,
            usual_started=600.0,
            severity="critical",
        ),
    )
    PREEMPT = (
        "Preempt",
        EventFacts(
            meaning=(
                "Evicts {}: Azure reclaims Spot capacity and deletes or deallocates the VM. Memory"
                f" and ephemeral disks are lost. {PREEMPT_NOTICE}"
            ),
            participle="evicted",
            loss=(
                "The VM is deleted or deallocated. Memory and ephemeral disks (temporary and local)"
                " are lost."
            ),
            takes_vm_down=True,
            deletes=True,
            usual_notice=URGENT_NOTICE_SECONDS,
            usual_started=300.0,
            severity="warning",
            since="2017-11-01",
        ),
    )
    TERMINATE = (
        "Terminate",
        EventFacts(
            meaning="Deletes {}, as its owner or a scale-in requested.",
            participle="deleted",
            loss=(
                "The VM is deleted. Memory, ephemeral disks (temporary and local) and the disks set"
                " to be deleted with the VM are lost."
            ),
            takes_vm_down=True,
            deletes=True,
            usual_notice=600.0,
            usual_started=300.0,
            severity="critical",
            since="2019-01-01",
            usual_source="User",
        ),
    )


NO_INTERRUPTION = "Azure announces no interruption (DurationInSeconds 0)."
"""The meaning of an event with DurationInSeconds 0, used instead of the type's meaning."""


EVENT_FACTS: Mapping[str, EventFacts] = MappingProxyType(
    {str(each): each.facts for each in EventType}
)
"""The facts of each documented type by its name; of a type that Azure adds, there are none."""


def takes_vm_down(event_type: str) -> bool:
    """Return whether ``event_type`` is a documented type that restarts or removes the VM."""
    facts = EVENT_FACTS.get(event_type)
    return facts is not None and facts.takes_vm_down


def hidden_by(api_version: str) -> tuple[EventType, ...]:
    """Return the types that ``api_version`` does not show: their events happen unannounced.

    Versions are dates, as year, month and day, so they are compared as texts. The setting ``auto``
    comes after every date, so it hides no type.
    """
    return tuple(event_type for event_type in EventType if event_type.facts.since > api_version)
