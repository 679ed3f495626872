"""``python -m dashboards`` writes the JSON of the dashboards.

``--check`` writes nothing, and fails if a file differs from the code.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from .exporter import exporter
from .fleet import fleet
from .style import Json
from .vm import vm

FOLDER = Path(__file__).parent / "json"


def dashboards() -> list[Json]:
    """Return all dashboards."""
    return [fleet(), vm(), exporter()]


def generated() -> dict[Path, str]:
    """Return the files that :data:`FOLDER` has to contain, with their text."""
    files = {}
    for dashboard in dashboards():
        text = json.dumps(dashboard, indent=2, ensure_ascii=False)
        files[FOLDER / f"{dashboard['uid']}.json"] = f"{text}\n"
    return files


def differing(files: Mapping[Path, str]) -> list[Path]:
    """Return the files of :data:`FOLDER` that are missing, have another text, or are too many."""
    found = []
    for path, text in files.items():
        if not path.exists() or path.read_text("utf-8") != text:
            found.append(path)
    found += set(FOLDER.glob("*.json")) - set(files)
    return found


def main() -> int:
    """Write the dashboards, or with --check compare them with the files; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m dashboards", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a file differs from the code"
    )
    files = generated()
    if parser.parse_args().check:
        wrong = differing(files)
        for path in wrong:
            sys.stderr.write(
                f"{path.name} differs from the generated file: run python -m dashboards\n"
            )
        return int(bool(wrong))
    FOLDER.mkdir(exist_ok=True)
    for path, text in files.items():
        path.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
