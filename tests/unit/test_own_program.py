"""Starting this program again as another process."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from azure_scheduled_events_exporter.own_program import own_command
from deploy.packages.single_file import build
from support.paths import ROOT
from support.programs import environment

# A command line, or a list of arguments, that runs the package with -m. The option before it keeps
# modules of the current folder out.
_STARTED = re.compile(r"""(?P<safe>-[PI]["', ]+)?-m["', ]+azure_scheduled_events_exporter""")
# Its docstring names the command line that it serves.
_MAIN = ROOT / "exporter" / "azure_scheduled_events_exporter" / "__main__.py"
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


# A package in place of ours, which prints the options of Python that it was started with, and a
# library of the same name twice: bundled with the package, and on a PYTHONPATH.
_FILES = {
    "theirs/bundled.py": "raise SystemExit('theirs')",
    "ours/bundled.py": "",
    "ours/azure_scheduled_events_exporter/__init__.py": "",
    "ours/azure_scheduled_events_exporter/__main__.py": (
        "import bundled, sys; print(*sys.orig_argv[1:3])"
    ),
}


def test_the_single_file_takes_nothing_from_the_environment(tmp_path: Path) -> None:
    """Libraries on a PYTHONPATH that is meant for other programs do not replace the bundled ones.

    The single file runs Python with ``-I``, which ignores the environment. A program that runs so
    starts itself again with ``-I``, too.
    """
    for name, text in _FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    archive = tmp_path / "archive.pyz"
    build(tmp_path / "ours", archive, 1_700_000_000)
    done = subprocess.run(
        [sys.executable, str(archive)],
        env=environment(PYTHONPATH=str(tmp_path / "theirs"), XDG_CACHE_HOME=str(tmp_path)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "-I -m\n", done.stderr
    # The first argument after the interpreter, in the command that starts this program again.
    code = f"from {own_command.__module__} import own_command; print(own_command()[1])"
    isolated = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False
    )
    assert isolated.stdout == "-I\n", isolated.stderr


def shipped_files() -> Iterator[Path]:
    """Yield the texts that users get and in which a command line may be."""
    for place in _SHIPPED:
        path = ROOT / place
        for file in path.rglob("*") if path.is_dir() else [path]:
            is_text = file.suffix in {"", ".py", ".sh", ".service", ".yaml", ".yml"}
            if file.is_file() and is_text and file != _MAIN:
                yield file


def test_nothing_shipped_starts_it_in_another_way() -> None:
    """Every command line with ``-m`` that starts this program has ``-P`` or ``-I`` before it."""
    found = [
        (path.relative_to(ROOT), match["safe"])
        for path in shipped_files()
        for match in _STARTED.finditer(path.read_text(encoding="utf-8", errors="replace"))
    ]
    assert len(found) > 2, "the expression still finds the command lines that there are"
    assert [path for path, safe in found if safe is None] == []
