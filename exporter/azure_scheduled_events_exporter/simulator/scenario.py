"""Reads scenarios: the VMs, and what happens to them, from YAML files or from recordings.

Uses no clock and no network.
"""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final

from azure_scheduled_events_exporter import yaml_file
from azure_scheduled_events_exporter.core.event_types import EVENT_FACTS, EventType
from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.recording.file import RecordedDocument
from azure_scheduled_events_exporter.recording.file import parse as parse_recording
from azure_scheduled_events_exporter.text_file import read_text
from azure_scheduled_events_exporter.yaml_file import Section

from .document import ADVICE
from .faults import Fault, FaultPlan

_LARGEST_RECORDING: Final = 64 << 20  # bytes

SHIPPED: Final = (
    "live-migration",
    "host-maintenance",
    "user-reboot",
    "user-redeploy",
    "spot-preempt",
    "terminate",
    "cancelled",
    "host-failure",
    "degraded-host",
    "rollout",
    "waiting-neighbors",
    "single-fault-domain",
    "automatic-approval",
    "spot-advice",
)
"""The scenarios that come with the package, in the order in which ``all`` plays them."""

LONGEST: Final = 365 * 86_400.0
"""Seconds; the longest duration and the latest moment that a scenario file may have."""

_FOLDER: Final = Path(__file__).parent / "scenarios"
_TIMES: Final = ("announced_at", "notice", "started_for", "approval_delay", "new_notice")
"""The keys of an event that are durations with a default."""
_OF_NOTICE: Final = ("notice", "approval_delay", "rescheduled_at", "new_notice")
"""The keys that make no sense for an event without notice."""
_SHORTEST: Final = 60.0
"""Seconds; minimum length of a scenario, so that a loop of empty scenarios does not spin."""


class Starts(StrEnum):
    """When an event begins if nobody approves it."""

    NOT_BEFORE = "at NotBefore"
    AT_ONCE = "at once"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class VirtualMachine:
    """One VM of the placement group; fields as in ``/metadata/instance``.

    Without ``vm_id``, it has one that follows from its name. With ``own_events_only``, its
    documents show only the events that name it in Resources.
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
    """One event of a scenario.

    All times are seconds of scenario time, moments counted from its beginning.

    ``duration`` is DurationInSeconds as announced (-1 unknown). ``notice`` is the time from
    ``announced_at`` to NotBefore; at ``rescheduled_at``, NotBefore becomes ``new_notice`` after
    that moment. Once approved, the event starts after ``approval_delay``, at NotBefore at the
    latest. It stays Started for ``started_for``. If it has not been approved, it leaves the
    document at ``cancelled_at``. An event of type :data:`ADVICE` schedules nothing: it is shown
    from ``announced_at`` to ``cancelled_at``.
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
        """NotBefore after any reschedule, on the scenario's clock."""
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
        """How long it is played at least, in seconds of scenario time.

        For a minute, for the length of its recording, and until its last fault with an end is over.
        """
        length = self.recording[-1].time - self.recording[0].time if self.recording else 0
        return max(_SHORTEST, length, *(plan.ends for plan in self.faults if plan.ends < math.inf))


Choice = str | Path | Scenario
"""A shipped scenario's name (or ``all``), the path of a file, or a scenario."""

PLACEMENT_GROUP: Final = tuple(
    VirtualMachine(f"vmss_{number}", scale_set="vmss", zone="1", fault_domain=str(number))
    for number in range(5)
)
"""The VMs of a scenario without ``vms``."""


@cache
def shipped() -> tuple[Scenario, ...]:
    """Return the scenarios that come with the package, in the order of :data:`SHIPPED`.

    They are read once.
    """
    return tuple(load(_FOLDER / f"{name}.yaml") for name in SHIPPED)


def find(choice: Choice | Sequence[Choice]) -> tuple[Scenario, ...]:
    """Return the scenarios of ``choice``.

    Raises:
        UsageError: there is no such scenario, or the file is invalid.
    """
    if isinstance(choice, Scenario):
        return (choice,)
    if isinstance(choice, Path):
        return (load(choice),)
    if isinstance(choice, str):
        return _named(choice)
    return tuple(each for one in choice for each in find(one))


def _named(name: str) -> tuple[Scenario, ...]:
    """Return the scenarios of a name: ``all``, one that is shipped, or a file."""
    if name == "all":
        return shipped()
    if name in SHIPPED:
        return (shipped()[SHIPPED.index(name)],)
    path = Path(name)
    if path.suffix not in {".yaml", ".yml", ".json"} and not os.path.isfile(path):  # noqa: PTH113 - Path.is_file raises for names that are too long
        raise UsageError(
            f"'{name}' is no scenario: choose from all, {', '.join(SHIPPED)}, or give the path of a"
            " .yaml file or of a recording"
        )
    return (load(path),)


def load(path: Path) -> Scenario:
    """Read the scenario or the recording at ``path``; UsageError has file, line and what to do."""
    text = read_text(path, _LARGEST_RECORDING, "recording")
    if path.suffix == ".json" or (text.lstrip().startswith("{") and '"recording"' in text):
        return _recorded(path, text)
    return _scenario(yaml_file.load(path), path.stem)  # which refuses more than 1 MiB


def _recorded(path: Path, text: str) -> Scenario:
    """Return the scenario that plays the recording ``text``, on the VM that it names last."""
    recording = parse_recording(text, str(path))
    name = next(
        (each.vm_name for each in reversed(recording) if each.vm_name), PLACEMENT_GROUP[0].name
    )
    return Scenario(path.stem, "a recording", (VirtualMachine(name),), (), recording=recording)


def parse(text: str, source: str, name: str = "scenario") -> Scenario:
    """Read a scenario from ``text``; ``source`` names it in error messages.

    Raises as :func:`load` does.
    """
    return _scenario(yaml_file.parse(text, source), name)


def _scenario(section: Section, name: str) -> Scenario:
    """Return the scenario in ``section``, called ``name``."""
    description = section.text("description")
    vms = tuple(_vm(entry) for entry in section.sections("vms")) or PLACEMENT_GROUP
    names = tuple(vm.name for vm in vms)
    for vm_name in names:
        if names.count(vm_name) > 1:
            raise section.error(f"'{vm_name}' appears twice: every VM needs its own name", "vms")
    events = tuple(_event(entry, names) for entry in section.sections("events"))
    faults = tuple(_fault(entry) for entry in section.sections("faults"))
    section.finish()
    return Scenario(name, description, vms, events, faults)


def _vm(section: Section) -> VirtualMachine:
    """Return a VM; keys that are missing have the defaults of the class."""
    name = section.text("name")
    if not name or "/" in name or not name.isprintable():
        raise section.error(
            "must be a VM's name: not empty, without '/', and of printable characters", "name"
        )
    usual = VirtualMachine(name, own_events_only=section.flag("own_events_only", default=False))
    texts = [field.name for field in fields(usual) if field.name not in {"name", "own_events_only"}]
    values: dict[str, Any] = {key: section.text(key, getattr(usual, key)) for key in texts}
    section.finish()
    return replace(usual, **values)


def _event(section: Section, vms: tuple[str, ...]) -> PlannedEvent:
    """Return an event; keys that are missing have what is usual for its type."""
    event_type = section.choice("type", (*EventType, ADVICE))
    # Advice has no facts. It uses no notice and no time Started, so any numbers will do.
    facts = EVENT_FACTS.get(event_type, EventType.PREEMPT.facts)
    resources = section.texts("resources", vms)
    for name in resources:
        if name not in vms:
            raise section.error(
                f"'{name}' is none of this scenario's VMs: {', '.join(vms)}", "resources"
            )
    usual = PlannedEvent(
        event_type, resources, notice=facts.usual_notice, started_for=facts.usual_started
    )
    times: dict[str, Any] = {key: _seconds(section, key, getattr(usual, key)) for key in _TIMES}
    event = replace(
        usual,
        source=section.choice("source", ("Platform", "User"), usual.source),
        description=section.text("description", usual.description),
        duration=_impact(section),
        starts=Starts(section.choice("starts", tuple(Starts), usual.starts)),
        cancelled_at=_moment(section, "cancelled_at"),
        rescheduled_at=_moment(section, "rescheduled_at"),
        **times,
    )
    section.finish()
    _check(section, event)
    return event


def _check(section: Section, event: PlannedEvent) -> None:
    """Refuse an event whose times contradict each other."""
    left = event.cancelled_at
    if event.is_advice:
        _refuse(
            section, "advice schedules nothing", *_OF_NOTICE, "starts", "started_for", "duration"
        )
        if left is None or left <= event.announced_at:
            raise section.error(
                "advice needs cancelled_at, after announced_at: when it leaves the document", "type"
            )
        return
    if event.starts is Starts.AT_ONCE:
        _refuse(section, "the event starts at once", *_OF_NOTICE, "cancelled_at")
        return
    if "rescheduled_at" in section and "new_notice" not in section:
        raise section.error(
            "needs new_notice too, the time from then to NotBefore", "rescheduled_at"
        )
    if "new_notice" in section and "rescheduled_at" not in section:
        raise section.error(
            "needs rescheduled_at too, the moment at which NotBefore changes", "new_notice"
        )
    moved = event.rescheduled_at
    if moved is not None and not event.announced_at < moved < event.announced_at + event.notice:
        raise section.error("must lie after announced_at and before NotBefore", "rescheduled_at")
    if event.starts is Starts.NEVER and left is None:
        raise section.error(
            "an event that never starts needs cancelled_at, or it would stay for good", "starts"
        )
    if left is not None and left <= max(event.announced_at, moved or 0):
        raise section.error("must come after announced_at and rescheduled_at", "cancelled_at")
    if left is not None and event.starts is Starts.NOT_BEFORE and left >= event.not_before:
        raise section.error(
            "comes after the start: make it earlier, or write 'starts: never'", "cancelled_at"
        )


def _refuse(section: Section, reason: str, *keys: str) -> None:
    """Raise UsageError if the section has one of ``keys``."""
    for key in keys:
        if key in section:
            raise section.error(f"cannot be, since {reason}", key)


def _impact(section: Section) -> int:
    """Return DurationInSeconds, which is -1 if it is unknown."""
    if section.text("duration", "unknown") == "unknown":
        return -1
    return round(_seconds(section, "duration"))


def _moment(section: Section, key: str) -> float | None:
    """Return the seconds at ``key``; None if it is not there. A file cannot have less than 0."""
    seconds = _seconds(section, key, -1)
    return None if seconds < 0 else seconds


def _seconds(section: Section, key: str, default: float | None = None) -> float:
    """Return the duration at ``key``, at most :data:`LONGEST`."""
    seconds = section.duration(key, default)
    if seconds > LONGEST:
        raise section.error("must be at most 1y", key)
    return seconds


def _fault(section: Section) -> FaultPlan:
    """Return a fault; it lasts until it is healed if ``for`` is missing."""
    fault = Fault(section.choice("fault", tuple(Fault)))
    lasts = _moment(section, "for")
    plan = FaultPlan(fault, _seconds(section, "at", 0), math.inf if lasts is None else lasts)
    section.finish()
    return plan
