"""Runs of the tests do not disturb each other."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.paths import ROOT
from support.programs import environment

MOUNTS_AND_ABORTS = """
import os, subprocess, sys
from support import apart
apart.mounts()
done = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", sys.argv[1]])
print("mounted" if done.returncode == 0 else "refused", flush=True)
os.abort()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_an_aborted_run_leaves_no_mount(tmp_path: Path) -> None:
    """What a run of the tests has mounted is gone when it has ended, also if it was killed."""
    done = subprocess.run(
        [sys.executable, "-c", MOUNTS_AND_ABORTS, tmp_path],
        env=environment(PYTHONPATH=str(ROOT / "tests")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    if done.stdout == "refused\n":
        pytest.skip("nothing can be mounted here")
    assert done.stdout == "mounted\n", done.stderr
    assert f" {tmp_path} " not in Path("/proc/mounts").read_text()


def test_temporary_folders_are_those_of_a_checkout(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Temporary folders lie below a folder that only this checkout uses. pytest deletes old ones:
    tests in another checkout must not find, and delete, those that are in use here.
    """
    of_this_checkout = os.environ["PYTEST_DEBUG_TEMPROOT"]
    assert tmp_path_factory.getbasetemp().is_relative_to(of_this_checkout)
