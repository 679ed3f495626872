"""The alerts that exporters push: the same names, labels and texts as the rules have."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote_plus

from .formats.texts import filled
from .formats.wording import ahead_of, loss_of, type_in_title
from .groups import alerts
from .rule import Alert, Events
from .settings import Settings


@dataclass(frozen=True, slots=True)
class Facts:
    """What the texts of an event's alert say of it.

    Attributes:
        event_id: its EventId.
        event_type: its EventType, as Azure sent it.
        vms: its VMs in words, with their resource group.
        when: when its impact begins or began, such as ``at 2026-01-01 00:01:30 UTC``.
        names: the names of its VMs, at most ``RESOURCES_SHOWN``.
        resource_group: that of its VMs; ``""`` if it is unknown.
    """

    event_id: str
    event_type: str
    vms: str
    when: str
    names: tuple[str, ...]
    resource_group: str


@dataclass(frozen=True, slots=True)
class PushedAlert:
    """One alert that exporters push, as the settings make it.

    Attributes:
        alert: its row in the table of alerts.
        events: the events that raise it; those of ``alert``, but never None.
        dashboards: how the address of each dashboard begins; a name such as ``fleet`` follows.
        runbook_url: the address of its runbook.
    """

    alert: Alert
    events: Events
    dashboards: str
    runbook_url: str

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels that the rule sets."""
        return {"severity": self.alert.severity, **self.alert.labels}

    def annotations(self, facts: Facts) -> dict[str, str]:
        """Return the annotations that the rule has of the same event."""
        words = {
            "event_id": facts.event_id,
            "event_type": type_in_title(facts.event_type),
            "ahead": ahead_of(facts.event_type),
            "loss": loss_of(facts.event_type),
            "vms": facts.vms,
            "when": facts.when,
        }
        return {
            "summary": filled(self.alert.summary, words),
            "description": filled(self.alert.text, words),
            "runbook_url": self.runbook_url,
            "dashboard_url": f"{self.dashboards}{_board(facts)}",
        }


def pushed_alerts(settings: Settings) -> tuple[PushedAlert, ...]:
    """Return the alerts that exporters push. An event has one of them at most."""
    return tuple(
        PushedAlert(
            alert=each,
            events=each.events,
            dashboards=f"{settings.text('dashboards.url')}/azure-scheduled-events-",
            runbook_url=f"{settings.text('runbooks.url')}/{each.name}.md",
        )
        for each in alerts(settings)
        if each.events
    )


def _board(facts: Facts) -> str:
    """Return the end of the dashboard's address, as ``BOARD_OF_EVENT`` makes it for rules."""
    if len(facts.names) == 1:
        return f"vm?var-vm={quote_plus(facts.names[0])}"
    if facts.resource_group:
        return f"fleet?var-resource_group={quote_plus(facts.resource_group)}"
    return "fleet"
