"""What a rule is. Knows no metric, no setting and no file format."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from textwrap import dedent

from azure_scheduled_events_exporter.core.kinds import Kind

PREFIX = "AzureScheduledEvent"
"""Every alert's name begins with it."""
TIME = "a time in seconds since 1970"
"""The value of most recordings."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording rule.

    Attributes:
        record: the name of its series.
        expression: PromQL.
        meaning: what the series says, for the reference and the rule file.
        rows: what each series of it stands for, such as "VM and event".
        value: what its value is, with the unit.
        note: how the expression works, for those who read it.
    """

    record: str
    expression: str
    meaning: str
    rows: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Events:
    """The events of an alert: of one kind and some types.

    Attributes:
        kind: their kind.
        types: their types; all if it is empty.
        hold: for how many seconds the alert lasts after its event was last seen.
        but: a type that is left out.
    """

    kind: Kind
    types: tuple[str, ...]
    hold: int
    but: str = ""

    def has(self, kind: Kind, event_type: str) -> bool:
        """Return whether an event of this kind and type is one of them."""
        is_of_type = event_type in self.types if self.types else event_type != self.but
        return kind == self.kind and is_of_type


@dataclass(frozen=True, slots=True)
class Alert:
    """An alerting rule.

    Attributes:
        name: CamelCase with the prefix, up to 40 characters; also the name of its runbook.
        expression: PromQL; every series of its result is one alert.
        severity: critical pages, warning makes a ticket, info only shows; settings give them the
            words of a company.
        summary: one sentence; description: what follows from it; advice: what to do now. With the
            placeholders of ``texts``, but for the advice, which its runbook has too.
        told: the advice in a notification, if labels of the alert decide it; "" for ``advice``.
        dashboard: which dashboard tells more than the text: ``event`` for that of the VM of an
            event (of the fleet for several), or one with its variables and the labels that fill
            them, such as ``vm?vm=vm_name``.
        meaning: when it fires, for the reference and the head of its runbook, without placeholders.
        ends: when it ends, for its runbook; people get the first sentence in the text, too.
        holds: how long the expression must hold before it fires, as Prometheus writes durations; ""
            at once.
        labels: more labels of every alert.
        events: of an alert that exporters push too, what it is about.
    """

    name: str
    expression: str
    severity: str
    summary: str
    description: str
    advice: str
    dashboard: str
    meaning: str
    ends: str = ""
    holds: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    events: Events | None = None
    told: str = ""

    @property
    def text(self) -> str:
        """What follows from it, what to do now, and how it ends, with placeholders."""
        first, _, _ = self.ends.partition(". ")
        return f"{self.description} {self.told or self.advice} {first.removesuffix('.')}."


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated one after another: each sees what the ones before it recorded."""

    name: str
    interval: str
    recordings: tuple[Recording, ...]
    alerts: tuple[Alert, ...]

    @property
    def rules(self) -> tuple[Recording | Alert, ...]:
        """All rules in their order."""
        return (*self.recordings, *self.alerts)


def promql(text: str) -> str:
    """Return PromQL without the indentation that it has in a source file."""
    return dedent(text).strip()
