"""A disk that hangs, for one program."""

import subprocess
from pathlib import Path

import pytest

from support.paths import ROOT


def hanging_disk(library: Path, hanging: Path) -> dict[str, str]:
    """Return the environment of a program for which the files at ``hanging`` answer nothing.

    Builds ``library`` for it.
    """
    source = ROOT / "tests" / "support" / "slow_disk.c"
    build = ["cc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
    if subprocess.run(build, check=False, capture_output=True).returncode != 0:
        pytest.skip("needs a C compiler")
    return {"LD_PRELOAD": str(library), "HANGING_DISK": str(hanging)}
