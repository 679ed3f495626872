"""The command ``assets``: lists and exports what is shipped besides the program."""

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from azure_scheduled_events_exporter import assets
from azure_scheduled_events_exporter.errors import ExporterError, UsageError


def show() -> int:
    """Print every asset; return the exit status."""
    for kind, (_, text) in assets.KINDS.items():
        print(f"{kind}: {text}")
        for its_kind, name, _path in assets.files():
            if its_kind == kind:
                print(f"  {name.as_posix()}")
    return 0


def export(target: Path, assignments: Sequence[str], values: Path | None) -> int:
    """Copy every asset below ``target``, the alerts with other thresholds if asked; return the exit status.

    Raises:
        UsageError: a threshold is unknown or out of its range.
        ExporterError: something cannot be written.
    """
    chosen: dict[str, str] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise UsageError(f"--set: '{assignment}' is no setting: write NAME=VALUE")
        chosen[name] = value
    rendered = _alerts(chosen, values) if chosen or values else {}
    written = assets.export(target)
    for name, text in rendered.items():
        try:
            (target / "alerts" / name).write_text(text, encoding="utf-8")
        except OSError as error:
            raise ExporterError(f"{target / 'alerts' / name}: cannot be written: {error.strerror or error}") from None
    print(f"{len(written)} files written below {target}: {', '.join(assets.KINDS)}", file=sys.stderr)
    return 0


def _alerts(chosen: dict[str, str], values: Path | None) -> dict[str, str]:
    settings: Any = _generator("settings")
    settings_now = settings.load(values, chosen) if values else settings.resolve(chosen)
    can_make_grafana = importlib.util.find_spec("grafanalib") is not None
    if not can_make_grafana:
        print("alerts/grafana keeps its thresholds: to change them too, pip install grafanalib", file=sys.stderr)
    rendered: dict[str, str] = _generator("generate").render(settings_now, grafana=can_make_grafana)
    return rendered


def _generator(module: str) -> Any:  # noqa: ANN401 - a module
    """A module of what generates the alerts: in the wheel below this package, in a source tree beside it."""
    inside = f"{__package__}.alerts"
    package = inside if importlib.util.find_spec(inside) else "alerts"
    try:
        return importlib.import_module(f"{package}.{module}")
    except ModuleNotFoundError:
        raise ExporterError("this installation cannot change thresholds: install the wheel") from None
