"""The command ``assets``: lists and exports the files that are shipped with the program."""

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from azure_scheduled_events_exporter import assets
from azure_scheduled_events_exporter.config import parse_assignments
from azure_scheduled_events_exporter.errors import ExporterError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of ``assets`` to ``parser``."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    actions.add_parser("list", help="List all files.", description="List all files.").set_defaults(target=None)
    export_parser = actions.add_parser(
        "export", help="Copy all files into a folder.", description="Copy all files into a folder."
    )
    export_parser.add_argument("target", metavar="DIR", help="The folder. It is created if it does not exist.")
    export_parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        dest="assignments",
        help="Change a setting of the alerts. Their values.yaml lists all names. May be repeated.",
    )
    export_parser.add_argument(
        "--values", metavar="FILE", help="Change settings of the alerts by a file like values.yaml."
    )


def run(parsed: argparse.Namespace) -> int:
    """Run the action; return the exit status. Raises as :func:`export` does."""
    if parsed.target is None:
        return show()
    return export(Path(parsed.target), parsed.assignments, Path(parsed.values) if parsed.values else None)


def show() -> int:
    """Print every asset; return the exit status."""
    for kind, (_, text) in assets.KINDS.items():
        print(f"{kind}: {text}")
        for its_kind, name, _path in assets.files():
            if its_kind == kind:
                print(f"  {name.as_posix()}")
    return 0


def export(target: Path, assignments: Sequence[str], values: Path | None) -> int:
    """Copy every asset into ``target``, the alerts with changed settings if given; return the exit status.

    Raises:
        UsageError: a setting is unknown or out of range.
        ExporterError: a file cannot be written.
    """
    chosen = parse_assignments("--set", assignments)
    rendered = _alerts(chosen, values) if chosen or values else {}
    written = assets.export(target)
    for name, text in rendered.items():
        try:
            (target / "alerts" / name).write_text(text, encoding="utf-8")
        except OSError as error:
            raise ExporterError(f"{target / 'alerts' / name}: cannot be written: {error.strerror or error}") from None
    print(f"Wrote {len(written)} files to {target}: {', '.join(assets.KINDS)}", file=sys.stderr)
    return 0


def _alerts(chosen: dict[str, str], values: Path | None) -> dict[str, str]:
    settings: Any = _generator("settings")
    settings_now = settings.load(values, chosen) if values else settings.resolve(chosen)
    can_make_grafana = importlib.util.find_spec("grafanalib") is not None
    if not can_make_grafana:
        print("alerts/grafana keeps its default settings; to change them too: pip install grafanalib", file=sys.stderr)
    rendered: dict[str, str] = _generator("generate").render(settings_now, grafana=can_make_grafana)
    return rendered


def _generator(module: str) -> Any:  # noqa: ANN401 - a module
    """A module that generates the alerts: inside the package in a wheel, beside it in a source tree."""
    inside = "azure_scheduled_events_exporter.alerts"
    package = inside if importlib.util.find_spec(inside) else "alerts"
    try:
        return importlib.import_module(f"{package}.{module}")
    except ModuleNotFoundError:
        raise ExporterError("this installation cannot change settings of the alerts: install the wheel") from None
