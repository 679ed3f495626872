"""What a rule is. Knows no metric, no setting and no file format."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

PREFIX = "AzureScheduledEvent"
"""Every alert's name begins with it."""


class Dashboard(StrEnum):
    """The uids of the shipped dashboards."""

    FLEET = "azure-scheduled-events-fleet"
    VM = "azure-scheduled-events-vm"
    EXPORTER = "azure-scheduled-events-exporter"


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording rule; ``meaning`` explains its series in the reference."""

    record: str
    expression: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Alert:
    """An alerting rule.

    Attributes:
        name: CamelCase with the prefix, up to 40 characters; also the name of its runbook.
        expression: PromQL; every series of its result is one alert.
        severity: critical pages, warning makes a ticket, info only shows; a team may use words of its own.
        summary: one sentence; description: what follows from it and what to do. Both are templates.
        dashboard: where to look, if a dashboard tells more than the text.
        holds: how long the expression must hold before it fires, as Prometheus writes durations; "" at once.
        labels: more labels of every alert.
        meaning: when it fires and ends, for the reference and the head of its runbook, without templates.
    """

    name: str
    expression: str
    severity: str
    summary: str
    description: str
    dashboard: Dashboard | None
    meaning: str
    holds: str = ""
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated one after another, so that each sees what the ones before it recorded."""

    name: str
    interval: str
    rules: tuple[Recording | Alert, ...]

    def alerts(self) -> Iterator[Alert]:
        """Yield the alerting rules."""
        return (rule for rule in self.rules if isinstance(rule, Alert))

    def recordings(self) -> Iterator[Recording]:
        """Yield the recording rules."""
        return (rule for rule in self.rules if isinstance(rule, Recording))


def promql(text: str) -> str:
    """Return PromQL without the indentation that it has in a source file."""
    lines = text.strip("\n").split("\n")
    indent = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    return "\n".join(line[indent:].rstrip() for line in lines).strip()
