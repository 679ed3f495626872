"""What a rule is. Knows no metric and no file format."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

PREFIX = "AzureScheduledEvent"
"""Every alert's name begins with it."""


VMS = "@VMS@"
"""In a description: the VMs of the event, and their scale set."""
FIRST_VM = "@FIRST_VM@"
"""In the address of a dashboard: the first VM of the event."""
TIME = "@TIME@"
"""In a description: a sentence with the start time of the event."""
AWAY = "@AWAY@"
"""In a description: which VMs do not answer, as a part of a sentence that ends with "has" or "have"."""
IMPACT = "@IMPACT@"
"""In a description: a sentence if Azure announces that the event interrupts nothing."""


class Dashboard(StrEnum):
    """The uids of the shipped dashboards."""

    FLEET = "azure-scheduled-events-fleet"
    VM = "azure-scheduled-events-vm"
    EXPORTER = "azure-scheduled-events-exporter"


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording rule; ``why`` is the purpose of its series, and ``labels`` are added to each of them."""

    record: str
    expression: str
    why: str
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Away:
    """Queries for the VMs of an event that are away, with ``vm_name``; ``%[1]s`` is the event's id.

    Attributes:
        any_vm: the VMs that can be away, with the ``instance`` of their exporters.
        of_several: those of several that are; ``%[2]f`` is the alert's value, ``%[3]s`` a regular expression for all
            these instances.
    """

    any_vm: str
    of_several: str


@dataclass(frozen=True, slots=True)
class Alert:
    """An alerting rule.

    Attributes:
        name: CamelCase with the prefix, up to 40 characters; also the name of its runbook.
        expression: PromQL; every series of its result is one alert.
        severity: critical pages, warning makes a ticket, info only shows.
        summary: a plain sentence, without a template.
        description: a template with VM, time, and what is lost; :data:`VMS`, :data:`AWAY`, :data:`TIME` and
            :data:`IMPACT` are replaced by data that is not in the alert's labels.
        holds: how long the expression must hold before it fires, as Prometheus writes durations; "" at once.
        dashboard: where to look.
        labels: more labels, such as ``event_status``.
        spot_severity: the severity for VMs whose priority is Spot or Low; "" for the same as for others.
        away: the VMs that the alert is about; None for all VMs of its event.
    """

    name: str
    expression: str
    severity: str
    summary: str
    description: str
    dashboard: Dashboard
    holds: str = ""
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    spot_severity: str = ""
    away: Away | None = None

    def all_labels(self) -> dict[str, str]:
        """Return the labels that the rule sets; the severity is a template where it depends on the priority."""
        severity = self.severity
        if self.spot_severity:
            is_spot = '{{ if match "^(Spot|Low)$" $labels.priority }}'
            severity = f"{is_spot}{self.spot_severity}{{{{ else }}}}{severity}{{{{ end }}}}"
        return {"severity": severity, **self.labels}


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


def expression(text: str) -> str:
    """Return PromQL without the indentation that it has in a source file."""
    lines = text.strip("\n").split("\n")
    indent = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    return "\n".join(line[indent:].rstrip() for line in lines).strip()
