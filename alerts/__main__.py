"""``python -m alerts`` writes every generated file; ``--check`` only reports whether one differs."""

import argparse
import sys
from pathlib import Path

from azure_scheduled_events_exporter.config import parse_assignments
from azure_scheduled_events_exporter.errors import ExporterError

from .generate import chart_files, render
from .runbooks import runbooks
from .settings import Settings, load, resolve

_FOLDER = Path(__file__).parent / "generated"
_RUNBOOKS = Path(__file__).parent.parent / "docs" / "runbooks"


def main() -> int:
    """Return the exit status: 1 when ``--check`` finds a difference, 2 for usage."""
    parser = argparse.ArgumentParser(prog="python -m alerts", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file differs")
    parser.add_argument("--values", type=Path, metavar="FILE", help="settings (YAML) instead of the defaults")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="one setting; may be repeated")
    parser.add_argument("--output", type=Path, default=_FOLDER, metavar="FOLDER", help="where to write")
    parser.add_argument("--chart", action="store_true", help="write the files of the Helm chart instead")
    arguments = parser.parse_args()
    try:
        rendered = (chart_files if arguments.chart else render)(_settings(arguments.values, arguments.set))
    except ExporterError as error:
        print(f"alerts: {error}", file=sys.stderr)
        return error.exit_status
    shipped = arguments.output == _FOLDER
    heads = dict(runbooks(_RUNBOOKS)) if shipped else {}
    if arguments.check:
        return _check(arguments.output, rendered) or _check_heads(heads)
    for name, text in rendered.items():
        path = arguments.output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for path, text in heads.items():
        path.write_text(text, encoding="utf-8")
    return 0


def _settings(values: Path | None, assignments: list[str]) -> Settings:
    chosen = parse_assignments("--set", assignments)
    return load(values, chosen) if values else resolve(chosen)


def _check(folder: Path, rendered: dict[str, str]) -> int:
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    differing = [
        name
        for name, text in rendered.items()
        if name not in there or (folder / name).read_text(encoding="utf-8") != text
    ]
    stray = sorted(there - rendered.keys())
    for name in differing:
        print(f"alerts: {folder / name} differs from its source: run python -m alerts", file=sys.stderr)
    for name in stray:
        print(f"alerts: {folder / name} has no source: remove it", file=sys.stderr)
    return 1 if differing or stray else 0


def _check_heads(heads: dict[Path, str]) -> int:
    differing = [path for path, text in heads.items() if path.read_text(encoding="utf-8") != text]
    for path in differing:
        print(f"alerts: the head of {path} differs from its source: run python -m alerts", file=sys.stderr)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
