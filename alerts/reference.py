"""Generates the reference page: alerts, recorded series and settings."""

from collections.abc import Iterable

from azure_scheduled_events_exporter import DOCUMENTATION

from .groups import alerts, groups
from .setting import Form, Setting
from .settings import PLACEHOLDERS, SETTINGS, Settings

_RECEIVERS = ("pager.", "chat.", "tickets.")
_HEAD = f"""\
# Alerts, recorded series and settings

This page is generated. To generate the files beside it with settings of your own:
`azure-scheduled-events-exporter assets export DIR --values FILE`.
How to use them: [docs/alerts.md]({DOCUMENTATION}alerts.md).
"""


def reference(settings: Settings) -> str:
    """Return the page, in Markdown."""
    parts = [_HEAD, "## Alerts\n", _table(("alert", "severity", "for", "when"), _alert_rows(settings))]
    parts += ["## Recorded series\n", _table(("series", "meaning"), _recording_rows(settings))]
    parts += ["## Settings\n", _table(("setting", "default", "range", "meaning"), _setting_rows())]
    return "\n".join(parts)


def values_file(settings: Settings) -> str:
    """Return a values file with every setting and its default, for people to copy and change."""
    return _values("azure-scheduled-events-exporter assets export DIR --values THIS-FILE", SETTINGS.values(), settings)


def exporter_values_file(settings: Settings) -> str:
    """Return a values file for ``--alerts.values``: without receivers, whose keys no exporter and no VM needs."""
    needed = [each for each in SETTINGS.values() if not each.name.startswith(_RECEIVERS)]
    return _values("azure-scheduled-events-exporter run --alerts.values THIS-FILE", needed, settings)


def _values(command: str, chosen: Iterable[Setting], settings: Settings) -> str:
    lines = [f"# Settings of the alerts: {command}"]
    for each in chosen:
        lines += [f"# {each.help} ({each.range})", f"{each.name}: {_value(each, settings)}"]
    return "\n".join(lines) + "\n"


def _value(setting: Setting, settings: Settings) -> str:
    if setting.form is Form.LIST:
        return f"[{', '.join(_quoted(item) for item in settings.items(setting.name))}]"
    if setting.form is Form.MAP:
        pairs = settings.pairs(setting.name).items()
        return f"{{{', '.join(f'{name}: {_quoted(value)}' for name, value in pairs)}}}"
    return _quoted(settings.text(setting.name))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _alert_rows(settings: Settings) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for each in alerts(settings):
        page = f"[{each.name}]({settings.text('runbooks.url')}/{each.name}.md)"
        rows.append((page, each.severity, each.holds or "at once", each.meaning))
    return rows


def _recording_rows(settings: Settings) -> list[tuple[str, ...]]:
    return [(f"`{each.record}`", each.meaning) for group in groups(settings) for each in group.recordings()]


def _setting_rows() -> list[tuple[str, ...]]:
    return [(f"`{each.name}`", _default(each), each.range, each.help) for each in SETTINGS.values()]


def _default(setting: Setting) -> str:
    if any(sign in setting.default for sign in PLACEHOLDERS):
        return "to be filled in"
    return ", ".join(f"`{line}`" for line in setting.default.splitlines()) or "empty"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in (head, tuple("---" for _ in head), *rows)]
    return "\n".join(lines) + "\n"
