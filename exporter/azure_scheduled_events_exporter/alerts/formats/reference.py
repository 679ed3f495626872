"""Generates what people read: the reference page, files of settings, and the heads of runbooks."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from azure_scheduled_events_exporter import DOCUMENTATION
from azure_scheduled_events_exporter.alerts.groups import alerts, groups
from azure_scheduled_events_exporter.alerts.settings import Settings
from azure_scheduled_events_exporter.alerts.settings_table import (
    ALERT_SETTINGS,
    PLACEHOLDERS,
    AlertSetting,
)
from azure_scheduled_events_exporter.errors import ExporterError

_RECEIVERS = ("pager.", "chat.", "tickets.")
_FIRST_BY_HAND = "## Impact\n"
"""The heading of a runbook from which on its text is written by hand."""
_LAST = "## How it ends\n"
"""The heading of a runbook's last section, which is generated, as its head is."""
_SEVERITIES = {
    "critical": "critical (pages)",
    "warning": "warning (makes a ticket)",
    "info": "info (notifies nobody)",
}
"""What a severity means as shipped; the page that the runbooks share says more."""
_POINTER = re.compile(r" \(the runbook [^)]+\)")
"""What a notification says of its runbook, and a runbook does not say of itself."""
_HEAD = f"""\
# Alerts, recorded series and settings

This page is generated. `azure-scheduled-events-exporter assets export DIR --values FILE`
writes it, and the files beside it, with settings of your own.
[Alerts]({DOCUMENTATION}alerts.md) describes how to use them.
The runbook behind each name says when the alert resolves.
"""


def reference(settings: Settings) -> str:
    """Return the page, in Markdown."""
    runbooks = settings.text("runbooks.url")
    rules = [
        (
            f"[{each.name}]({runbooks}/{each.name}.md)",
            each.severity,
            each.pending_for or "at once",
            each.meaning,
        )
        for each in alerts(settings)
    ]
    recordings = [
        (f"`{each.record}`", each.meaning)
        for group in groups(settings)
        for each in group.recordings
    ]
    rows = [
        (f"`{each.name}`", _default(each), each.range, each.help)
        for each in ALERT_SETTINGS.values()
    ]
    return "\n".join(
        (
            _HEAD,
            _table("Alerts", ("alert", "severity", "for", "when"), rules),
            _table("Recorded series", ("series", "meaning"), recordings),
            _table("Settings", ("setting", "default", "range", "meaning"), rows),
        )
    )


def runbooks(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield each runbook in ``folder`` with the text that it should have.

    Its head and how it ends come from the table; what is between them is written by hand.

    Raises:
        ExporterError: a runbook is missing, or has no section that follows the head.
    """
    for alert in alerts(Settings()):
        path = folder / f"{alert.name}.md"
        text = ""
        if path.exists():
            text = path.read_text(encoding="utf-8")
        if _FIRST_BY_HAND not in text:
            raise ExporterError(f"{path}: write this runbook, with a section Impact")
        _, heading, below = text.partition(_FIRST_BY_HAND)
        by_hand, _, _ = below.partition(_LAST)
        parts = (
            f"# {alert.name}",
            f"**What happened:** {alert.meaning}",
            f"**What to do:** {_POINTER.sub('', alert.advice)}",
            f"**Severity:** {_SEVERITIES[alert.severity]}.",
            f"{heading}{by_hand.rstrip()}",
            f"{_LAST}\n{alert.ends}",
        )
        yield path, "\n\n".join(parts) + "\n"


def values_file(settings: Settings) -> str:
    """Return a values file with the value of every setting, for people to copy and change."""
    return _values(settings, "azure-scheduled-events-exporter assets export DIR --values THIS-FILE")


def exporter_values_file(settings: Settings) -> str:
    """Return a values file for ``--alerts.values``.

    It is without receivers, whose keys no exporter and no VM needs.
    """
    return _values(
        settings, "azure-scheduled-events-exporter run --alerts.values THIS-FILE", _RECEIVERS
    )


def _values(settings: Settings, command: str, without: tuple[str, ...] = ()) -> str:
    """Return a values file that ``command`` reads.

    Settings whose names begin with one of ``without`` are left out.
    """
    lines = [f"# Settings of the alerts: {command}"]
    for name, each in ALERT_SETTINGS.items():
        if not name.startswith(without):
            lines += [f"# {each.help} ({each.range})", f"{name}: {_value(each, settings)}"]
    return "\n".join(lines) + "\n"


def _value(setting: AlertSetting, settings: Settings) -> str:
    """Return the value of a setting as YAML on one line."""
    value: str | list[str] | dict[str, str] = settings.text(setting.name)
    if setting.form == "list":
        value = list(settings.items(setting.name))
    if setting.form == "map":
        value = settings.pairs(setting.name)
    text = yaml.safe_dump(value, default_style="'", default_flow_style=True, width=10_000)
    return text.strip()


def _default(setting: AlertSetting) -> str:
    """Return the default of a setting as the page shows it."""
    if any(sign in setting.default for sign in PLACEHOLDERS):
        return "to be filled in"
    return ", ".join(f"`{line}`" for line in setting.default.splitlines()) or "empty"


def _table(title: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a section with a table."""
    below_head = ("---",) * len(head)
    lines = [f"| {' | '.join(row)} |" for row in (head, below_head, *rows)]
    return "\n".join((f"## {title}\n", *lines, ""))
