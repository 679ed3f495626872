"""What a rule is: its PromQL, and what people are told about it.

Knows no metric, no setting and no file format.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from textwrap import dedent

from azure_scheduled_events_exporter.core.lifecycle import Kind

PREFIX = "AzureScheduledEvent"
"""Every alert's name begins with it."""
TIME = "a time in seconds since 1970"
"""What the value of most recordings is: see ``Recording.value``."""


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
    """Which events an alert is about, and for how long it is held.

    Attributes:
        kind: their kind.
        hold: for how many seconds the alert lasts after its event was last seen.
        types: their types; all if it is empty.
        excluded: a type that is left out although ``types`` is empty; None for none.
    """

    kind: Kind
    hold: int
    types: tuple[str, ...] = ()
    excluded: str | None = None

    def has(self, kind: Kind, event_type: str) -> bool:
        """Return whether an event of this kind and type is one of them."""
        if kind != self.kind or event_type == self.excluded:
            return False
        return not self.types or event_type in self.types


@dataclass(frozen=True, slots=True)
class Alert:
    """An alerting rule.

    The texts ``summary``, ``description`` and ``advice_placeholder`` may have placeholders, which
    ``formats.texts`` explains. All other texts have none.

    Attributes:
        name: CamelCase with the prefix, up to 40 characters; also the name of its runbook.
        expression: PromQL; every series of its result is one alert.
        severity: critical pages, warning makes a ticket, info only shows. Settings may replace it
            by a word of a company.
        summary: one sentence: what happens to which VM.
        description: what follows from it.
        advice: what to do now, for the runbook and, unless there is an ``advice_placeholder``, for
            the notification.
        dashboard: which dashboard tells more than the text. ``event``: that of the event's VM, or
            that of the fleet if the event has several VMs. Any other: the dashboard's name, with
            its variables and the labels that fill them, such as ``vm?vm=vm_name``.
        meaning: when it fires, for the reference and the head of its runbook.
        ends: when it ends, for the runbook; the notification has the first sentence of this.
        pending_for: how long the expression must have a result before the alert fires, which rules
            call ``for``, as Prometheus writes durations; ``""`` if the alert fires at once.
        labels: more labels of every alert.
        events: which events raise the alert, if exporters push it too; None if they do not.
        advice_placeholder: the advice of the notification if labels of the alert decide which one
            fits, such as ``{ahead}``; ``""`` for ``advice``.
    """

    name: str
    expression: str
    severity: str
    summary: str
    description: str
    advice: str
    dashboard: str
    meaning: str
    ends: str
    pending_for: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    events: Events | None = None
    advice_placeholder: str = ""

    @property
    def text(self) -> str:
        """The notification below its summary: what follows, what to do now, and when it ends.

        It may have placeholders.
        """
        advice = self.advice_placeholder or self.advice
        first, _, _ = self.ends.partition(". ")
        return f"{self.description} {advice} {first.removesuffix('.')}."


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated one after another: each sees what the ones before it recorded.

    ``interval`` is the time between two evaluations, as Prometheus writes durations.
    """

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
