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
    """What a request under ``/metadata`` gets instead of IMDS' answer."""

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
    # The Guest Proxy Agent in front of IMDS: it passes requests on, or refuses them.
    AGENT_AUDIT = "agent-audit"
    AGENT_FORBIDDEN = "agent-403"
    AGENT_MISDIRECTED = "agent-421"
    AGENT_BAD_GATEWAY = "agent-502"
    # The refusal of IMDS to what bypasses the agent.
    AGENT_UNSIGNED = "agent-401"


REFUSED_BY_AGENT = frozenset(
    {Fault.AGENT_FORBIDDEN, Fault.AGENT_MISDIRECTED, Fault.AGENT_BAD_GATEWAY}
)
"""Refusals of the agent itself: IMDS does not see the request."""

REDIRECTED = REFUSED_BY_AGENT | {Fault.AGENT_AUDIT}
"""Faults during which the agent is on.

It is put in the way of a connection when that is made: one from before still reaches IMDS.
"""


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """A fault that begins ``at`` so many seconds of the scenario; once placed, Unix seconds."""

    fault: Fault
    at: float = 0.0
    seconds: float = math.inf  # until healed

    @property
    def ends(self) -> float:
        """The first moment after it."""
        return self.at + self.seconds

    def placed(self, began: float, speed: float) -> "FaultPlan":
        """Return it in Unix seconds, for a scenario that ``began`` then and runs at ``speed``."""
        return FaultPlan(self.fault, began + self.at / speed, self.seconds / speed)


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
        return FaultPlan(fault, parse_duration(start), parse_duration(length) if plus else math.inf)
    except ValueError as error:
        raise UsageError(f"fault '{text}': {error}; the form is NAME[@START[+DURATION]]") from None


def active(plans: Iterable[FaultPlan], now: float, connected_at: float = math.inf) -> Fault | None:
    """Return the fault that is active at ``now``; of several, the last one given.

    ``connected_at`` is when the connection of the request was made. Faults of the Guest Proxy Agent
    hold on it only if it was made after the earliest of them that are active now: the agent
    redirects new connections.
    """
    holding = [each for each in plans if each.at <= now < each.ends]
    agent_on_since = min((each.at for each in holding if each.fault in REDIRECTED), default=now)
    if connected_at < agent_on_since:
        holding = [each for each in holding if each.fault not in REDIRECTED]
    return holding[-1].fault if holding else None
