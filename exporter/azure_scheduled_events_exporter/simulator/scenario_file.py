"""Reads scenarios from YAML files, and makes scenarios of recordings.

Refuses an event whose times contradict each other, so that ``timeline`` need not check them.
"""

import math
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

from azure_scheduled_events_exporter import yaml_file
from azure_scheduled_events_exporter.core.event_types import EVENT_FACTS, EventType
from azure_scheduled_events_exporter.recording.file import parse as parse_recording
from azure_scheduled_events_exporter.text_file import read_text
from azure_scheduled_events_exporter.yaml_file import Section

from .document import ADVICE
from .faults import Fault, FaultPlan
from .scenario import PLACEMENT_GROUP, PlannedEvent, Scenario, Starts, VirtualMachine

LONGEST: Final = 365 * 86_400.0
"""Seconds; the longest duration and the latest moment that a scenario file may have."""

_LARGEST_RECORDING: Final = 64 << 20  # bytes
_TIMES: Final = ("announced_at", "notice", "started_for", "approval_delay", "new_notice")
"""The keys of an event that are durations with a default."""
_OF_NOTICE: Final = ("notice", "approval_delay", "rescheduled_at", "new_notice")
"""The keys that make no sense for an event without notice."""


def load(path: Path) -> Scenario:
    """Read the scenario or the recording at ``path``.

    A file counts as a recording if its name ends in ``.json``, and also under any other name if it
    looks like a JSON object with the key ``recording``.

    Raises:
        UsageError: the file cannot be read or is invalid. The message has file, line and what to
            do.
    """
    text = read_text(path, _LARGEST_RECORDING, "recording")
    is_object = text.lstrip().startswith("{")
    if path.suffix == ".json" or (is_object and '"recording"' in text):
        return _recorded(path, text)
    # Read again, not parse(text): yaml_file.load() refuses a file of more than 1 MiB. Only a
    # recording may be larger.
    return _scenario(yaml_file.load(path), path.stem)


def parse(text: str, source: str, name: str = "scenario") -> Scenario:
    """Read a scenario, called ``name``, from YAML; ``source`` is its file in error messages.

    Raises:
        UsageError: the text is invalid. The message has source, line and what to do.
    """
    return _scenario(yaml_file.parse(text, source), name)


def _recorded(path: Path, text: str) -> Scenario:
    """Return the scenario that plays the recording ``text``.

    Its one VM is that of the last document that names one.
    """
    recording = parse_recording(text, str(path))
    vm_name = PLACEMENT_GROUP[0].name
    for document in recording:
        if document.vm_name:
            vm_name = document.vm_name
    vms = (VirtualMachine(vm_name),)
    return Scenario(path.stem, "a recording", vms, events=(), recording=recording)


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
    texts: dict[str, Any] = {}
    for field in fields(usual):
        if field.name not in {"name", "own_events_only"}:  # read above
            texts[field.name] = section.text(field.name, getattr(usual, field.name))
    section.finish()
    return replace(usual, **texts)


def _event(section: Section, vms: tuple[str, ...]) -> PlannedEvent:
    """Return an event; keys that are missing have what is usual for its type.

    ``vms`` are the names of the scenario's VMs. All of them are affected if ``resources`` is
    missing.
    """
    event_type = section.choice("type", (*EventType, ADVICE))
    resources = section.texts("resources", vms)
    for name in resources:
        if name not in vms:
            raise section.error(
                f"'{name}' is none of this scenario's VMs: {', '.join(vms)}", "resources"
            )
    usual = PlannedEvent(event_type, resources)
    if facts := EVENT_FACTS.get(event_type):
        usual = replace(usual, notice=facts.usual_notice, started_for=facts.usual_started)
    times: dict[str, Any] = {key: _seconds(section, key, getattr(usual, key)) for key in _TIMES}
    event = replace(
        usual,
        source=section.choice("source", ("Platform", "User"), usual.source),
        description=section.text("description", usual.description),
        duration=_duration(section),
        starts=Starts(section.choice("starts", tuple(Starts), usual.starts)),
        cancelled_at=_optional_seconds(section, "cancelled_at"),
        rescheduled_at=_optional_seconds(section, "rescheduled_at"),
        **times,
    )
    section.finish()
    if event.is_advice:
        _check_advice(section, event)
    elif event.starts is Starts.AT_ONCE:
        _refuse(section, "the event starts at once", *_OF_NOTICE, "cancelled_at")
    else:
        _check_rescheduled(section, event)
        _check_cancelled(section, event)
    return event


def _check_advice(section: Section, event: PlannedEvent) -> None:
    """Refuse advice that has keys of a scheduled event, or no end."""
    _refuse(section, "advice schedules nothing", *_OF_NOTICE, "starts", "started_for", "duration")
    if event.cancelled_at is None or event.cancelled_at <= event.announced_at:
        raise section.error(
            "advice needs cancelled_at, after announced_at: when it leaves the document", "type"
        )


def _check_rescheduled(section: Section, event: PlannedEvent) -> None:
    """Refuse half a reschedule, and one before the announcement or after NotBefore."""
    if "rescheduled_at" in section and "new_notice" not in section:
        raise section.error(
            "needs new_notice too, the time from then to NotBefore", "rescheduled_at"
        )
    if "new_notice" in section and "rescheduled_at" not in section:
        raise section.error(
            "needs rescheduled_at too, the moment at which NotBefore changes", "new_notice"
        )
    if event.rescheduled_at is None:
        return
    first_not_before = event.announced_at + event.notice
    if not event.announced_at < event.rescheduled_at < first_not_before:
        raise section.error("must lie after announced_at and before NotBefore", "rescheduled_at")


def _check_cancelled(section: Section, event: PlannedEvent) -> None:
    """Refuse an event that is cancelled too early or too late, or that would never end."""
    if event.cancelled_at is None:
        if event.starts is Starts.NEVER:
            raise section.error(
                "an event that never starts needs cancelled_at, or it would stay for good",
                "starts",
            )
        return
    earliest = event.announced_at
    if event.rescheduled_at is not None:
        earliest = event.rescheduled_at  # which is after the announcement
    if event.cancelled_at <= earliest:
        raise section.error("must come after announced_at and rescheduled_at", "cancelled_at")
    if event.starts is Starts.NOT_BEFORE and event.cancelled_at >= event.not_before:
        raise section.error(
            "comes after the start: make it earlier, or write 'starts: never'", "cancelled_at"
        )


def _refuse(section: Section, reason: str, *keys: str) -> None:
    """Raise UsageError if the section has one of ``keys``."""
    for key in keys:
        if key in section:
            raise section.error(f"cannot be, since {reason}", key)


def _duration(section: Section) -> int:
    """Return DurationInSeconds, which is -1 if it is unknown."""
    if section.text("duration", "unknown") == "unknown":
        return -1
    return round(_seconds(section, "duration"))


def _optional_seconds(section: Section, key: str) -> float | None:
    """Return the seconds at ``key``, a moment or a duration; None if the key is not there."""
    if key not in section:
        section.accept(key)  # so that finish() lists it among the known keys
        return None
    return _seconds(section, key)


def _seconds(section: Section, key: str, default: float | None = None) -> float:
    """Return the duration at ``key``, at most :data:`LONGEST`.

    Without a ``default``, the key must be there.
    """
    seconds = section.duration(key, default)
    if seconds > LONGEST:
        raise section.error("must be at most 1y", key)
    return seconds


def _fault(section: Section) -> FaultPlan:
    """Return a fault; it lasts until it is healed if ``for`` is missing."""
    fault = Fault(section.choice("fault", tuple(Fault)))
    at = _seconds(section, "at", 0)
    seconds = _optional_seconds(section, "for")
    if seconds is None:
        seconds = math.inf
    section.finish()
    return FaultPlan(fault, at, seconds)
