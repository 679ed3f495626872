"""The command ``assets``: lists and exports the files that are shipped with the program."""

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from azure_scheduled_events_exporter import assets
from azure_scheduled_events_exporter.alerts.formats.receivers import notifies_nobody
from azure_scheduled_events_exporter.alerts.generate import chart_files, render
from azure_scheduled_events_exporter.alerts.groups import unrouted
from azure_scheduled_events_exporter.alerts.settings import Settings, load, resolve
from azure_scheduled_events_exporter.alerts.severities import paging
from azure_scheduled_events_exporter.config.flags import parse_assignments
from azure_scheduled_events_exporter.errors import UsageError

_VALUES = "alerts/values.yaml"
_CHART = "helm/azure-scheduled-events-exporter/files"
_ALERTMANAGER = ("alertmanager.yml", "fragment.yml", "kube-prometheus-stack-values.yaml")
_WITH_KEYS = frozenset({_VALUES, *(f"alerts/alertmanager/{name}" for name in _ALERTMANAGER)})
"""The rendered files that have keys of receivers, or addresses that work as one."""
_PREFIXES_FOR = {
    "azure-monitor": (
        _VALUES,
        "alerts/README.md",
        "alerts/azure-monitor/",
        "dashboards/",
        "runbooks/",
    )
}
"""The files that each monitoring system needs, by the prefixes of their paths."""

_EVERYTHING = ("",)
"""The prefix of every path."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of ``assets`` to ``parser``."""
    actions = parser.add_subparsers(
        title="actions", dest="action", metavar="ACTION", required=True, prog=parser.prog
    )
    actions.add_parser("list", help="List all files.", description="List all files.")
    text = "Copy all files into a folder."
    add = actions.add_parser("export", help=text, description=text).add_argument
    add("target", metavar="DIR", help="The folder. It is created if it does not exist.")
    add(
        "--for",
        choices=sorted(_PREFIXES_FOR),
        dest="system",
        help="Copy only what this monitoring system needs.",
    )
    text = "Change a setting of the alerts. Their values.yaml lists all names. May be repeated."
    add("--set", metavar="NAME=VALUE", action="append", default=[], dest="assignments", help=text)
    add(
        "--values", metavar="FILE", help="Change settings of the alerts by a file like values.yaml."
    )
    text = "Let every user read also the files that have the keys of receivers."
    add("--world-readable", action="store_true", help=text)


def run(parsed: argparse.Namespace) -> int:
    """List the assets, or export them; return the exit status.

    Raises:
        UsageError: a setting is unknown or out of range, or settings of an earlier export would be
            lost.
        ExporterError: a file cannot be written.
    """
    if parsed.action == "list":
        _list()
    elif parsed.target:
        _export(Path(parsed.target), parsed)
    else:
        raise UsageError("assets export: DIR has no value: name a folder")
    return 0


def _list() -> None:
    """Print every kind of assets, with its files."""
    for kind, about in assets.KINDS.items():
        print(f"{kind}: {about.description}")
        for its_kind, name, _path in assets.files():
            if its_kind == kind:
                print(f"  {name.as_posix()}")


def _export(target: Path, parsed: argparse.Namespace) -> None:
    """Write assets into ``target``: all, or those for one system.

    With changed settings, only this user may read the files with the receivers' keys, unless
    ``--world-readable``.
    """
    chosen = parse_assignments("--set", parsed.assignments)
    values = Path(parsed.values) if parsed.values else None
    settings = load(values, chosen) if values else resolve(chosen)
    rendered: dict[str, str] = {}
    if chosen or values:  # otherwise the files are exported as they are shipped
        rendered = _rendered(settings)
    if values is None and (lost := _lost(target, chosen)):
        raise UsageError(
            f"{target} was exported with settings that this export would reset: {', '.join(lost)}. "
            f"Keep them with --values {target / _VALUES}, or export to another folder. To reset"
            " them, remove that file"
        )
    private = _WITH_KEYS if rendered and not parsed.world_readable else frozenset()
    wanted = _PREFIXES_FOR[parsed.system] if parsed.system else _EVERYTHING
    written = assets.export(target, rendered, private, wanted)
    kinds = dict.fromkeys(path.relative_to(target).parts[0] for path in written)
    print(f"Wrote {len(written)} files to {target}: {', '.join(kinds)}", file=sys.stderr)
    for warning in _warnings(settings):
        print(f"Warning: {warning}", file=sys.stderr)


def _warnings(settings: Settings) -> Iterator[str]:
    """Yield in which ways the exported files notify nobody, or make tickets instead of pages."""
    words = ",".join(paging(settings))
    for word in unrouted(settings):
        yield (
            f"no route names the severity {word}, so its alerts make tickets. If it should page,"
            f" add it: severities.paging={words},{word}"
        )
    for name in notifies_nobody(settings):
        yield (
            f"the receiver {name} notifies nobody, because the settings of all its addresses and"
            " keys are empty"
        )


def _lost(target: Path, chosen: dict[str, str]) -> list[str]:
    """Return the settings of an earlier export into ``target`` that this one would reset.

    A setting that ``chosen`` names is changed on purpose. A setting that had its default has
    nothing to lose.
    """
    there = target / _VALUES
    # Path.is_file would raise for a folder that this user cannot read.
    if not os.path.isfile(there):  # noqa: PTH113
        return []
    now = resolve(chosen)
    defaults = resolve({})
    lost = []
    for name, earlier in load(there).values.items():
        # `now` may differ from the defaults: ``severities.X`` in `chosen` changes ``severities``.
        is_same = earlier == now.text(name)
        was_default = earlier == defaults.text(name)
        if name not in chosen and not is_same and not was_default:
            lost.append(name)
    return lost


def _rendered(settings: Settings) -> dict[str, str]:
    """Return the alerts by their path below the exported folder, and the chart's copies."""
    files = {f"alerts/{name}": text for name, text in render(settings).items()}
    return files | {f"{_CHART}/{name}": text for name, text in chart_files(settings).items()}
