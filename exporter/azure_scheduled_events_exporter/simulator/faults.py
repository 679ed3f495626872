"""Names the faults of IMDS, and says when they are active.

Uses no network: ``service`` and ``wire`` perform them.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.times import parse_duration


class Fault(StrEnum):
    """What is wrong with the answers to requests under ``/metadata``, while it is active."""

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
    # The Guest Proxy Agent is in front of IMDS. In audit mode it passes every request on.
    AGENT_AUDIT = "agent-audit"
    # The agent refuses every request.
    AGENT_FORBIDDEN = "agent-403"
    AGENT_MISDIRECTED = "agent-421"
    AGENT_BAD_GATEWAY = "agent-502"
    # IMDS refuses a request that did not come through the agent.
    AGENT_UNSIGNED = "agent-401"


REFUSED_BY_AGENT = frozenset(
    {Fault.AGENT_FORBIDDEN, Fault.AGENT_MISDIRECTED, Fault.AGENT_BAD_GATEWAY}
)
"""Refusals of the agent itself: IMDS does not see the request."""

REDIRECTED = REFUSED_BY_AGENT | {Fault.AGENT_AUDIT}
"""Faults during which the agent is on: it redirects every new connection to itself.

A connection that was made before still reaches IMDS.
"""


@dataclass(frozen=True, slots=True)
class FaultWindow:
    """When a fault is active: from ``begins`` to just before ``ends``.

    Both are in seconds of the simulator's clock.
    """

    fault: Fault
    begins: float
    ends: float = math.inf


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """A fault in scenario time: it begins at the second ``at``, and lasts for ``seconds``.

    By default, it begins with the scenario and lasts until it is healed.
    """

    fault: Fault
    at: float = 0.0
    seconds: float = math.inf

    @property
    def ends(self) -> float:
        """The second of the scenario from which the fault is over."""
        return self.at + self.seconds

    def window(self, began: float, speed: float) -> FaultWindow:
        """Return when the fault is active in a scenario that ``began`` then and runs at ``speed``.

        ``began`` is a moment of the simulator's clock.
        """
        return FaultWindow(self.fault, began + self.at / speed, began + self.ends / speed)


def fault_named(name: str) -> Fault:
    """Return the fault called ``name``; UsageError lists all names."""
    try:
        return Fault(name)
    except ValueError:
        raise UsageError(f"'{name}' is no fault: choose from {', '.join(Fault)}") from None


def parse_plan(text: str) -> FaultPlan:
    """Read ``NAME[@START[+DURATION]]``, such as ``throttle@2m+30s``. Raises UsageError."""
    name, _, when = text.partition("@")
    fault = fault_named(name)
    if not when:
        return FaultPlan(fault)
    start, plus, length = when.partition("+")
    try:
        at = parse_duration(start)
        if not plus:
            return FaultPlan(fault, at)
        return FaultPlan(fault, at, parse_duration(length))
    except ValueError as error:
        raise UsageError(f"fault '{text}': {error}; the form is NAME[@START[+DURATION]]") from None


def active(
    windows: Iterable[FaultWindow], now: float, connected_at: float = math.inf
) -> Fault | None:
    """Return the fault that a request at ``now`` meets; of several, the last one of ``windows``.

    ``connected_at`` is when the connection of the request was made. If the Guest Proxy Agent was
    not on then, the request meets no fault of the agent: see :data:`REDIRECTED`.
    """
    holding = [window for window in windows if window.begins <= now < window.ends]
    agent_on_since = min(
        (window.begins for window in holding if window.fault in REDIRECTED), default=math.inf
    )
    faults = [window.fault for window in holding]
    if connected_at < agent_on_since:
        faults = [fault for fault in faults if fault not in REDIRECTED]
    if not faults:
        return None
    return faults[-1]
