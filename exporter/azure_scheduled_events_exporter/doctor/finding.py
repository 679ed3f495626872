"""The result of one check, and the page about it. Must not know how a check works or how a finding is printed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from azure_scheduled_events_exporter import DOCUMENTATION


class Mark(StrEnum):
    """How a check ended. Only ``WRONG`` makes the command fail."""

    OK = "ok"
    NOTE = "note"  # neither right nor wrong, such as a feature that is not used
    SKIPPED = "skipped"
    WARNING = "warning"
    WRONG = "wrong"


PAGES: Mapping[str, str] = {
    "settings": "systemd.md#settings",
    "variables": "systemd.md#settings",
    "imds-endpoint": "discovery.md",
    "imds-reachable": "runbooks/AzureScheduledEventImdsUnreachable.md",
    "clock": "runbooks/AzureScheduledEventClockOff.md",
    "vm-name": "README.md#when-it-does-not-work",
    "scheduled-events": "runbooks/AzureScheduledEventImdsUnreachable.md",
    "journal-content": "README.md#when-it-does-not-work",
    "journal-disk": "runbooks/AzureScheduledEventJournalNotOnDisk.md",
    "served": "runbooks/AzureScheduledEventExporterDown.md",
    "certificate": "web-config.md",
    "exporter": "doctor.md#credentials",
    "exporter-version": "systemd.md#upgrade",
    "exporter-polls": "runbooks/AzureScheduledEventImdsUnreachable.md",
    "exporter-journal": "runbooks/AzureScheduledEventJournalNotOnDisk.md",
    "exporter-deliveries": "runbooks/AzureScheduledEventAlertsNotPushed.md",
    "otlp": "README.md#when-it-does-not-work",
    "prometheus-reachable": "doctor.md#credentials",
    "target": "runbooks/AzureScheduledEventExporterDown.md",
    "target-labels": "how-the-rules-work.md",
    "scrape-interval": "alerts.md#set-it-up",
    "rules-loaded": "alerts.md#set-it-up",
    "rules-version": "alerts.md#set-it-up",
    "rules-health": "alerts.md#set-it-up",
    "alerting": "alerts.md#set-it-up",
    "alert-labels": "push-alerts.md#settings",
    "alertmanager-reachable": "doctor.md#credentials",
    "receivers": "alerts.md#set-it-up",
    "inhibitions": "alerts.md#set-it-up",
    "silences": "alerts.md#set-it-up",
    "grafana-reachable": "doctor.md#credentials",
    "dashboards": "dashboards.md",
    "data-source": "dashboards.md",
}
"""Every check with the page that says more, as a path below ``docs/``. docs/doctor.md lists the checks."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    Attributes:
        mark: how the check ended.
        check: its name, one of :data:`PAGES`.
        sentence: the result, for people.
        hint: what to do about it; ``""`` if there is nothing to do.
    """

    mark: Mark
    check: str
    sentence: str
    hint: str = ""

    @property
    def link(self) -> str:
        """The address of the page about it; ``""`` if there is nothing to do."""
        return f"{DOCUMENTATION}{PAGES[self.check]}" if self.mark in {Mark.WARNING, Mark.WRONG} else ""


Findings = Iterator[Finding]

ok, note, skipped, warning, wrong = (partial(Finding, mark) for mark in Mark)
