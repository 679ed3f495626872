"""What events are and how long things take, in plain words for the person on the VM.

Pure. The script of the page says times with the same words (``status.js``).
"""

from collections.abc import Mapping
from types import MappingProxyType

from azure_scheduled_events_exporter.core.document import EventSource, Scope
from azure_scheduled_events_exporter.core.event_types import EVENT_FACTS
from azure_scheduled_events_exporter.core.lifecycle import Approver, Lifecycle, State, Transition
from azure_scheduled_events_exporter.core.statistics import PAUSE_BOUNDS
from azure_scheduled_events_exporter.core.timestamp import iso_time

from .html import Markup, tag

LONGEST_TEXT = 500
"""Characters of a text from IMDS that are shown; all of it stands in ``/api/v1/events``."""

_MINUTE = 60.0
_NOISE = PAUSE_BOUNDS[0]
_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))

SOURCES: Mapping[str, str] = MappingProxyType(
    {
        EventSource.PLATFORM: "Platform: Azure decided it",
        EventSource.USER: "User: somebody with access to the VM asked for it",
        "": "not told by this api-version",
    }
)

OUTCOMES: Mapping[Transition, tuple[str, str]] = MappingProxyType(
    {
        Transition.COMPLETED: ("completed", "It began, and is over."),
        Transition.CANCELLED: ("cancelled", "It left before NotBefore, so Azure called it off."),
        Transition.LOST: ("lost", "It left unseen: nobody can know whether it happened."),
    }
)

APPROVERS: Mapping[Approver, str] = MappingProxyType(
    {
        Approver.EXPORTER: "approved by this exporter's policy",
        Approver.OPERATOR: "approved by an operator on this VM",
        Approver.EXTERNAL: "approved elsewhere: it started before NotBefore",
        Approver.DEADLINE: "approved by nobody: NotBefore came",
    }
)


def meaning(life: Lifecycle) -> str:
    """Return what the event does to the VMs that it hits."""
    known = EVENT_FACTS.get(life.event.event_type)
    if known is None:
        what = "Azure documents no such type" if life.event.event_type else "Azure sent no type"
        return f"{what}, so what it does is not known. Expect the worst, and read the description."
    return known.meaning.format("this VM" if life.scope is Scope.SELF else "each VM that it hits")


def kind(life: Lifecycle) -> str:
    """Return the type as a title."""
    return clipped(life.event.event_type) or "Event without a type"


def standing(life: Lifecycle) -> str:
    """Return the status, as Azure spells it."""
    if life.state is State.OTHER:
        return clipped(life.event.status) or "no status"
    return str(life.state)


def impact(seconds: float | None) -> str:
    """Return the announced length of the impact."""
    if seconds is None:
        return "not known"
    return length(seconds) if seconds else "none: no interruption"


def length(seconds: float) -> str:
    """Return ``seconds`` in words of up to three units: ``2d 3h 14m``, ``14m 32s``; parts of a second are cut off."""
    rest = int(seconds)
    parts = []
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:3]) or "0s"


def paused(seconds: float) -> str:
    """Return how long this VM stood still: tenths of a second matter while it is short, and less is noise."""
    if seconds < _NOISE:
        return f"less than {_NOISE:g}s"
    return f"{seconds:.1f}s" if seconds < _MINUTE else length(seconds)


def left(seconds: float) -> str:
    """Return the time until NotBefore."""
    if abs(seconds) < 1:
        return "due now"
    return f"in {length(seconds)}" if seconds > 0 else f"overdue by {length(-seconds)}"


def ago(seconds: float) -> str:
    """Return how long something is past; a clock that was set back does not make it negative."""
    return f"{length(max(0.0, seconds))} ago"


def clipped(text: str) -> str:
    """Return the beginning of a text from IMDS."""
    return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "…"


def foreign(text: str) -> Markup:
    """Return a text from IMDS, which cannot reach beyond its own place by turning the direction of writing."""
    return tag("bdi", clipped(text))


def moment(seconds: float) -> Markup:
    """Return a point of time (seconds since the epoch) for people and programs."""
    written = iso_time(seconds)
    return tag("time", written.replace("T", " ").replace("Z", " UTC"), datetime=written)


def since(seconds: float, now: float) -> Markup:
    """Return how long ago that was; the page's script keeps it up to date."""
    return tag("time", ago(now - seconds), datetime=iso_time(seconds), data_since=seconds)
