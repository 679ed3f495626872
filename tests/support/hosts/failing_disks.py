"""File systems that fail, for one program: one that hangs, and one without locks."""

import subprocess
from pathlib import Path

import pytest

from support.paths import ROOT


def hanging_disk(library: Path, hanging: Path) -> dict[str, str]:
    """Return the environment of a program for which the files at ``hanging`` answer nothing.

    Builds ``library`` for it.
    """
    _build(library, ROOT / "tests" / "support" / "hosts" / "slow_disk.c")
    return {"LD_PRELOAD": str(library), "HANGING_DISK": str(hanging)}


def without_locks(library: Path) -> dict[str, str]:
    """Return the environment of a program for which no file can be locked, as on some shares.

    Builds ``library`` for it.
    """
    _build(library, ROOT / "tests" / "data" / "cases" / "smb-locks.c")
    return {"LD_PRELOAD": str(library)}


def _build(library: Path, source: Path) -> None:
    build = ["cc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
    if subprocess.run(build, check=False, capture_output=True).returncode != 0:
        pytest.skip("needs a C compiler")
