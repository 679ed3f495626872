"""The heads of the runbooks: what each alert means, from the table. The rest of a runbook is written by hand."""

from collections.abc import Iterator
from pathlib import Path

from azure_scheduled_events_exporter.errors import ExporterError

from .groups import alerts
from .rule import Alert
from .settings import Settings

_BODY = "## Impact\n"


def runbooks(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield each runbook in ``folder`` with the text that it should have.

    Raises:
        ExporterError: a runbook is missing, or has no section that follows the head.
    """
    for alert in alerts(Settings()):
        path = folder / f"{alert.name}.md"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if _BODY not in text:
            raise ExporterError(f"{path}: write this runbook, with a section Impact")
        yield path, _head(alert) + text[text.index(_BODY) :]


def _head(alert: Alert) -> str:
    waits = f", after {alert.holds}" if alert.holds else ""
    return f"# {alert.name}\n\n## Meaning\n\n{alert.meaning}\n\nSeverity: {alert.severity}{waits}.\n\n"
