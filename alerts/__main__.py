"""``python -m alerts`` writes what is generated from the table of alerts.

That is the folder ``alerts/generated``, and the heads of the runbooks. ``--check`` only reports
whether a file differs.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from azure_scheduled_events_exporter.alerts.formats.reference import runbooks
from azure_scheduled_events_exporter.alerts.generate import chart_files, render
from azure_scheduled_events_exporter.alerts.settings import Settings

_FOLDER = Path(__file__).parent / "generated"
_RUNBOOKS = Path(__file__).parent.parent / "docs" / "runbooks"


def main() -> int:
    """Return the exit status: 1 when ``--check`` finds a difference."""
    parser = argparse.ArgumentParser(prog="python -m alerts", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail when a file differs"
    )
    parser.add_argument(
        "--output", type=Path, default=_FOLDER, metavar="FOLDER", help="where to write"
    )
    parser.add_argument(
        "--chart", action="store_true", help="write the files of the Helm chart instead"
    )
    arguments = parser.parse_args()
    rendered = render(Settings())
    if arguments.chart:
        rendered = chart_files(Settings())
    files = {arguments.output / name: text for name, text in rendered.items()}
    if arguments.output == _FOLDER:  # runbooks are no part of what is written elsewhere
        files |= dict(runbooks(_RUNBOOKS))
    if arguments.check:
        return _check(arguments.output, files)
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


def _check(folder: Path, files: Mapping[Path, str]) -> int:
    """Report each of ``files`` that differs, and each file in ``folder`` that is not among them.

    Return the exit status: 1 if there is one.
    """
    wrong = []
    for path, text in files.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            wrong.append(f"{path} differs from its source: run python -m alerts")
    there = sorted(path for path in folder.rglob("*") if path.is_file())
    wrong.extend(f"{path} has no source: remove it" for path in there if path not in files)
    for each in wrong:
        print(f"alerts: {each}", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
