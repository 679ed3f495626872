"""Starting this program again as another process."""

import re
import subprocess
from pathlib import Path

from azure_scheduled_events_exporter.own_program import own_command
from support.paths import ROOT
from support.programs import environment

_STARTED = re.compile(r"""(-P["', ]+)?-m["', ]+azure_scheduled_events_exporter""")
_SHIPPED = ("exporter", "deploy", "scripts", "Dockerfile")


def test_runs_no_module_of_the_current_folder(tmp_path: Path) -> None:
    """A module that somebody has put into the current folder is not run."""
    (tmp_path / "argparse.py").write_text("raise SystemExit('planted')\n")
    done = subprocess.run(
        own_command("--version"),
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("azure-scheduled-events-exporter "), done.stderr


def test_nothing_shipped_starts_it_in_another_way() -> None:
    """Every command line with ``-m`` that starts this program has ``-P`` before it."""
    files = [
        path
        for place in _SHIPPED
        for path in ((ROOT / place).rglob("*") if (ROOT / place).is_dir() else [ROOT / place])
        if path.is_file() and path.suffix in {"", ".py", ".sh", ".service", ".yaml", ".yml"}
    ]
    found = {
        (path.relative_to(ROOT), match[1])
        for path in files
        for match in _STARTED.finditer(path.read_text(encoding="utf-8", errors="replace"))
        if path.name != "__main__.py" or "packages" in path.parts
    }
    assert len(found) > 2
    assert [path for path, safe in found if safe is None] == []
