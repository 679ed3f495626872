"""Names the faults of IMDS, and when they are active. Uses no network: ``wire`` performs them."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.times import parse_duration


class Fault(StrEnum):
    """What happens to a request under ``/metadata`` instead of an answer."""

    THROTTLE = "throttle"
    TIMEOUT = "timeout"
    SLOW_DRIP = "slow-drip"
    BAD_REQUEST = "400"
    NOT_FOUND = "404"
    METHOD_NOT_ALLOWED = "405"
    GONE = "410"
    SERVER_ERROR = "500"
    UNAVAILABLE = "503"
    RESET = "reset"
    HALF_BODY = "half-body"
    NOT_JSON = "not-json"
    HUGE_BODY = "huge-body"
    EMPTY_BODY = "empty-body"
    PARTIAL_INSTANCE = "partial-instance"
    VERSION_404 = "version-404"


FAULTS: Final[Mapping[Fault, str]] = MappingProxyType(
    {
        Fault.THROTTLE: "429 with the plain text of a throttled VM",
        Fault.TIMEOUT: "the connection is accepted and never answered",
        Fault.SLOW_DRIP: "the answer comes one byte every 0.2 s, the status line included",
        Fault.BAD_REQUEST: "400 with a JSON error",
        Fault.NOT_FOUND: "404 with an XML body, as from another server",
        Fault.METHOD_NOT_ALLOWED: "405 with a JSON error",
        Fault.GONE: "410 without a body",
        Fault.SERVER_ERROR: "500 with a JSON error",
        Fault.UNAVAILABLE: "503 with plain text",
        Fault.RESET: "the connection is reset (RST) without an answer",
        Fault.HALF_BODY: "200 with half of the body that Content-Length promises, then the end of the connection",
        Fault.NOT_JSON: "200 with an HTML page",
        Fault.HUGE_BODY: "200 with 8 MiB: the document, blown up with blanks",
        Fault.EMPTY_BODY: "200 with an empty body, events or not",
        Fault.PARTIAL_INSTANCE: "`/metadata/instance` has only the VM's name, as while a data provider of IMDS fails",
        Fault.VERSION_404: "404 instead of 400 to an api-version newer than `--newest-api-version`",
    }
)


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """A fault that begins ``at`` seconds of scenario time and lasts ``seconds``; None means until healed."""

    fault: Fault
    at: float = 0.0
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """A fault between two times of the simulator's clock, in seconds; the end is excluded."""

    fault: Fault
    begins: float
    ends: float = math.inf


def fault_named(name: str) -> Fault:
    """Return the fault called ``name``; UsageError lists all names."""
    try:
        return Fault(name)
    except ValueError:
        raise UsageError(f"'{name}' is no fault: choose from {', '.join(Fault)}") from None


def parse_plan(text: str) -> FaultPlan:
    """Read ``NAME[@START[+DURATION]]``, such as ``throttle@2m+30s``; UsageError describes an error."""
    name, _, when = text.partition("@")
    fault = fault_named(name)
    if not when:
        return FaultPlan(fault)
    start, plus, length = when.partition("+")
    try:
        return FaultPlan(fault, parse_duration(start), parse_duration(length) if plus else None)
    except ValueError as error:
        raise UsageError(f"fault '{text}': {error}; the form is NAME[@START[+DURATION]]") from None


def window(plan: FaultPlan, began: float, speed: float) -> Window:
    """Return when ``plan`` is active in a scenario that ``began`` at that time and runs at ``speed``."""
    begins = began + plan.at / speed
    return Window(plan.fault, begins, math.inf if plan.seconds is None else begins + plan.seconds / speed)


def active(windows: Iterable[Window], now: float) -> Fault | None:
    """Return the fault that is active at ``now``; of several, the last one given."""
    holding = [each.fault for each in windows if each.begins <= now < each.ends]
    return holding[-1] if holding else None
