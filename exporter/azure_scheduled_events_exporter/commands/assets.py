"""The command ``assets``: lists and exports the files that are shipped with the program."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from azure_scheduled_events_exporter import assets
from azure_scheduled_events_exporter.config import parse_assignments
from azure_scheduled_events_exporter.errors import ExporterError, UsageError

_VALUES = "alerts/values.yaml"
_CHART = "helm/azure-scheduled-events-exporter/files"
_ALERTMANAGER = ("alertmanager.yml", "fragment.yml", "kube-prometheus-stack-values.yaml")
_WITH_KEYS = frozenset({_VALUES, *(f"alerts/alertmanager/{name}" for name in _ALERTMANAGER)})
"""The rendered files that have keys of receivers, or addresses that work as one."""
_FOR = {"azure-monitor": (_VALUES, "alerts/README.md", "alerts/azure-monitor/", "dashboards/", "runbooks/")}
"""What each monitoring system needs; its paths begin with these."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of ``assets`` to ``parser``."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True, prog=parser.prog)
    actions.add_parser("list", help="List all files.", description="List all files.").set_defaults(target=None)
    export_parser = actions.add_parser(
        "export", help="Copy all files into a folder.", description="Copy all files into a folder."
    )
    export_parser.add_argument("target", metavar="DIR", help="The folder. It is created if it does not exist.")
    export_parser.add_argument(
        "--for",
        choices=sorted(_FOR),
        dest="system",
        help="Copy only what this monitoring system needs.",
    )
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
    export_parser.add_argument(
        "--world-readable",
        action="store_true",
        help="Let every user read also the files that have the keys of receivers.",
    )


def run(parsed: argparse.Namespace) -> int:
    """Run the action; return the exit status. Raises as :func:`export` does."""
    if parsed.target is None:
        return show()
    if not parsed.target:
        raise UsageError("assets export: DIR has no value: name a folder")
    values = Path(parsed.values) if parsed.values else None
    return export(
        Path(parsed.target), parsed.assignments, values, world_readable=parsed.world_readable, system=parsed.system
    )


def show() -> int:
    """Print every asset; return the exit status."""
    for kind, (_, text) in assets.KINDS.items():
        print(f"{kind}: {text}")
        for its_kind, name, _path in assets.files():
            if its_kind == kind:
                print(f"  {name.as_posix()}")
    return 0


def export(
    target: Path,
    assignments: Sequence[str],
    values: Path | None,
    *,
    world_readable: bool = False,
    system: str | None = None,
) -> int:
    """Write assets into ``target``: all, or those for ``system``; return the exit status.

    With changed settings, only this user may read the files with the receivers' keys, unless ``world_readable``.

    Raises:
        UsageError: a setting is unknown or out of range, or settings of an earlier export would be lost.
        ExporterError: a file cannot be written.
    """
    chosen = parse_assignments("--set", assignments)
    settings: Any = _settings(chosen, values)
    if values is None and settings is not None and (lost := _lost(target, settings)):
        raise UsageError(
            f"{target} was exported with settings that this export would reset: {', '.join(lost)}. "
            f"Keep them with --values {target / _VALUES}, or remove that file to reset them"
        )
    rendered = _rendered(settings) if chosen or values else {}
    private = _WITH_KEYS if rendered and not world_readable else frozenset()
    written = assets.export(target, rendered, private, _FOR[system] if system else ("",))
    kinds = dict.fromkeys(path.relative_to(target).parts[0] for path in written)
    print(f"Wrote {len(written)} files to {target}: {', '.join(kinds)}", file=sys.stderr)
    return 0


def _settings(chosen: dict[str, str], values: Path | None) -> Any:  # noqa: ANN401 - of a module found at run time
    """Return the settings of the alerts; None if nothing is to change and this installation cannot read them."""
    try:
        settings: Any = assets.generator("settings")
    except ExporterError:
        if chosen or values:
            raise
        return None
    return settings.load(values, chosen) if values else settings.resolve(chosen)


def _lost(target: Path, settings: Any) -> list[str]:  # noqa: ANN401 - as above
    """Return the settings of an earlier export into ``target`` that are neither defaults nor in ``settings``."""
    there = target / _VALUES
    if not os.path.isfile(there):  # noqa: PTH113 - Path.is_file raises for a folder that this user cannot read
        return []
    before, defaults = assets.generator("settings").load(there), assets.generator("settings").resolve({})
    return [name for name, text in before if text not in {settings.text(name), defaults.text(name)}]


def _rendered(settings: Any) -> dict[str, str]:  # noqa: ANN401 - as above
    """Return the alerts by their path below the exported folder, and the chart's copies of rules and settings."""
    rendered: dict[str, str] = assets.generator("generate").render(settings)
    files = {f"alerts/{name}": text for name, text in rendered.items()}
    chart: dict[str, str] = assets.generator("generate").chart_files(settings)
    return {**files, **{f"{_CHART}/{name}": text for name, text in chart.items()}}
