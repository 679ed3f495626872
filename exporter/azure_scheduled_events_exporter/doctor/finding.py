"""The result of one check, and which page of the documentation is about it.

Must not know how a check works or how a finding is printed.
"""

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


EXPORTER_PAGE = "doctor.md#an-exporter-with-tls-or-users"
"""The page about what doctor needs for an exporter that does not let everyone read."""

_CHECKS_BY_PAGE: Mapping[str, tuple[str, ...]] = {
    "systemd.md#settings": ("settings", "variables"),
    "discovery.md": ("imds-endpoint",),
    "runbooks/AzureScheduledEventImdsUnreachable.md": (
        "imds-reachable",
        "scheduled-events",
        "exporter-polls",
        "exporter-vm-name",
    ),
    "metadata-security-protocol.md": ("guest-proxy-agent",),
    "runbooks/AzureScheduledEventClockOff.md": ("clock",),
    "README.md#when-it-does-not-work": ("vm-name", "journal-content", "otlp"),
    "runbooks/AzureScheduledEventJournalNotOnDisk.md": ("journal-disk", "exporter-journal"),
    "runbooks/AzureScheduledEventExporterDown.md": ("served", "target"),
    "web-config.md": ("certificate",),
    EXPORTER_PAGE: ("exporter",),
    "doctor.md#credentials": (
        "prometheus-reachable",
        "alertmanager-reachable",
        "grafana-reachable",
    ),
    "systemd.md#upgrade": ("exporter-version",),
    "runbooks/AzureScheduledEventAlertsNotPushed.md": ("exporter-deliveries",),
    "how-the-rules-work.md": ("target-labels",),
    "alerts.md#set-it-up": (
        "scrape-interval",
        "rules-loaded",
        "rules-version",
        "rules-health",
        "alerting",
        "receivers",
        "severities",
        "silences",
    ),
    "existing-alertmanager.md#your-own-inhibition-rules": ("inhibitions",),
    "push-alerts.md#settings": ("alert-labels",),
    "dashboards.md": ("dashboards", "data-source"),
}
PAGES = {check: page for page, checks in _CHECKS_BY_PAGE.items() for check in checks}
"""The page that says more about each check, as a path below ``docs/``.

docs/doctor.md lists the checks.
"""
AGENT_PAGE = "metadata-security-protocol.md#if-the-exporter-is-refused"
"""The page about the Guest Proxy Agent, whichever check it makes fail."""
THROTTLED_PAGE = "runbooks/AzureScheduledEventThrottled.md"
"""The page about too many requests to IMDS, whichever check they make fail."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    Attributes:
        mark: how the check ended.
        check: its name, one of :data:`PAGES`.
        sentence: the result, for people.
        hint: what to do about it; ``""`` if there is nothing to do.
        page: the page about its cause, as a path below ``docs/``; ``""`` for that of the check.
    """

    mark: Mark
    check: str
    sentence: str
    hint: str = ""
    page: str = ""

    @property
    def link(self) -> str:
        """The address of the page about the cause; ``""`` unless something is to be done."""
        if self.mark not in {Mark.WARNING, Mark.WRONG}:
            return ""
        return f"{DOCUMENTATION}{self.page or PAGES[self.check]}"


def counted(number: int, noun: str) -> str:
    """Return ``number`` and ``noun``, which gets an ``s`` unless the number is 1."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}s"


Findings = Iterator[Finding]

# Each makes a finding with one mark: ok(check, sentence, hint, page).
ok = partial(Finding, Mark.OK)
note = partial(Finding, Mark.NOTE)
skipped = partial(Finding, Mark.SKIPPED)
warning = partial(Finding, Mark.WARNING)
wrong = partial(Finding, Mark.WRONG)
