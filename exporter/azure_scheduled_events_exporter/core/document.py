"""What IMDS announces: an event, and a document of events.

Data and questions about it; ``core.document_parser`` makes it from the body of an answer. What a
document means for the life of an event is decided in ``core.observation``.

Source of the rules: https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum

RESOURCES_SHOWN = 10
"""Maximum number of VMs in a label or a text that names the VMs of an event."""

LONGEST_NAMES = 80
"""Characters for the names of VMs in a text that must fit into the subject of a mail.

A single name may be longer.
"""

MOST_NAMES = 100
"""How many names of Resources are kept, logged and stored: a placement group has at most 100 VMs.

https://learn.microsoft.com/azure/virtual-machine-scale-sets/virtual-machine-scale-sets-placement-groups
"""


STATUSES = ("Scheduled", "Started", "Advisory")
"""The documented values of EventStatus.

There is no Completed: a finished event leaves the document.
"""


class EventSource(StrEnum):
    """Who caused the event."""

    PLATFORM = "Platform"
    USER = "User"


class Scope(StrEnum):
    """Whether an event affects this VM, which only its Resources decide."""

    SELF = "self"
    PEER = "peer"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ScheduledEvent:
    """One event as one document shows it.

    A new field of IMDS is added here, in :func:`event_values` and in ``core.document_parser``.

    Attributes:
        event_id: the EventId in upper case, since Azure compares without regard to case; never
            empty. An id of more than 256 characters, which Azure has never sent, is replaced by a
            hash.
        sent_id: the EventId as sent, for requests to Azure.
        event_type: one of ``event_types.EventType``, or whatever Azure sent; ``""`` when absent.
        status: one of :data:`STATUSES`, or whatever Azure sent; ``""`` when absent.
        source: one of :class:`EventSource`, or whatever Azure sent; ``""`` before api-version
            2019-08-01.
        resources: VM names as sent, in order, each VM once; the first one is the documented leader
            for approvals.
        unlisted: number of further VMs, whose names :meth:`bounded` has left out.
        not_before: seconds since the epoch (UTC); None when empty (Started), absent or unreadable.
        description: a hint for people, often ``""``; nothing is decided by it.
        duration_seconds: announced impact, 0 for none; None when unknown (-1, absent or
            unreadable).
        resource_type: as sent; ``VirtualMachine`` so far.
        is_contradictory: whether one document has several entries with this EventId that differ in
            more than Resources.

    ``core.document_parser`` limits the length of each text.
    """

    event_id: str
    event_type: str = ""
    status: str = ""
    source: str = ""
    resources: tuple[str, ...] = ()
    not_before: float | None = None
    description: str = ""
    duration_seconds: float | None = None
    resource_type: str = ""
    # Not compared: an EventId in another case is no change of the event.
    sent_id: str = field(default="", compare=False)
    is_contradictory: bool = False
    unlisted: int = 0

    @property
    def resource_count(self) -> int:
        """The number of VMs in Resources."""
        return len(self.resources) + self.unlisted

    @property
    def vms(self) -> str:
        """The VMs in words, such as ``web_1, web_2 and 3 more``, for one line of a notification."""
        shown = [" ".join(name.split()) for name in self.resources[:RESOURCES_SHOWN]]
        while len(", ".join(shown)) > LONGEST_NAMES and len(shown) > 1:
            shown.pop()
        listed = ", ".join(shown)
        more = self.resource_count - len(shown)
        if not more:
            return listed
        return f"{listed} and {more} more"

    def bounded(self, vm_name: str | None) -> "ScheduledEvent":
        """Return the event with the first :data:`MOST_NAMES` names.

        If the VM ``vm_name`` is a later one, its name replaces the last of them.
        """
        if len(self.resources) <= MOST_NAMES:
            return self
        names = list(self.resources[:MOST_NAMES])
        own = comparable_name(vm_name or "")
        for name in self.resources[MOST_NAMES:]:
            if comparable_name(name) == own:
                names[-1] = name
        return replace(self, resources=tuple(names), unlisted=self.resource_count - len(names))

    def spelling(self, vm_name: str | None) -> str:
        """Return the name of the VM ``vm_name`` as Resources spell it.

        The underscore that :func:`comparable_name` explains is left out. It is ``""`` if Resources
        do not name that VM.
        """
        own = comparable_name(vm_name or "")
        if not own:
            return ""
        spellings = (name.lstrip("_") for name in self.resources if comparable_name(name) == own)
        return next(spellings, "")

    def scope(self, vm_name: str | None) -> Scope:
        """Return whether Resources name the VM ``vm_name``; unknown while the name is None."""
        if not vm_name:
            return Scope.UNKNOWN
        if self.spelling(vm_name):
            return Scope.SELF
        return Scope.PEER


FieldValue = str | float | tuple[str, ...] | None
"""A value of :func:`event_values`."""


def event_values(event: ScheduledEvent) -> dict[str, FieldValue]:
    """Return the fields of ``event`` for JSON records, log lines and spans.

    Its status and NotBefore are not among them: each caller writes those in its own form.

    The keys are the names in records and log lines. In spans, ``event_type`` is
    ``azure.scheduled_event.type``, and ``resources`` is ``azure.scheduled_event.resources``.

    An unknown duration is None, other unknown fields are ``""``.
    """
    return {
        "event_id": event.event_id,
        "event_type": event.event_type,
        "event_source": event.source,
        "resource_type": event.resource_type,
        "resources": event.resources,
        "resource_count": event.resource_count,
        "description": event.description,
        "duration_seconds": event.duration_seconds,
    }


@dataclass(frozen=True, slots=True)
class Document:
    """One answer of IMDS.

    Attributes:
        incarnation: DocumentIncarnation; None when absent (an empty body carries none). It changes
            with the events but may skip, fall or start over: compare with ``!=`` only.
        events: in the order of the body; no two have the same EventId.
        unreadable: a line for each entry of Events that cannot be read, the first hundred of them.
            Such an entry may be an event that seems to be missing, so no event may end because it
            is absent from this document.
        remarks: a line for each unexpected value in a readable event, such as an unreadable
            NotBefore; the first hundred of them, and one that says that there are more.
        is_empty_body: whether the body was empty, which is weaker evidence than an empty list of
            Events.
    """

    incarnation: int | None = None
    events: tuple[ScheduledEvent, ...] = ()
    unreadable: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    is_empty_body: bool = False


def comparable_name(name: str) -> str:
    """Return ``name`` in a form in which two spellings of one VM are equal.

    Azure compares names without regard to case, and api-version 2017-03-01 prefixes them with an
    underscore.
    """
    return name.lstrip("_").casefold()
