"""Runs of the tests do not disturb each other."""

import os
import shutil
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


PRINTS_THE_FOLDER = """
import os
from support import apart
apart.temporary_folder()
print(os.environ["PYTEST_DEBUG_TEMPROOT"])
"""


def folder_of_a_checkout(checkout: Path, system_folder: Path) -> str:
    """Return the folder in which pytest makes temporary folders for tests of a checkout.

    It lies in ``system_folder``, which stands for /tmp.
    """
    env = environment(PYTHONPATH=str(checkout / "tests"), TMPDIR=str(system_folder))
    del env["PYTEST_DEBUG_TEMPROOT"]  # that of this run
    return subprocess.check_output([sys.executable, "-c", PRINTS_THE_FOLDER], env=env, text=True)


def test_each_checkout_has_temporary_folders_of_its_own(tmp_path: Path) -> None:
    """Two checkouts have their temporary folders in different places. pytest deletes old ones: the
    tests of a checkout must not find, and delete, those that are in use in another.
    """
    another = tmp_path / "another-checkout"
    support = another / "tests" / "support"
    support.mkdir(parents=True)
    for module in ("apart.py", "paths.py"):
        shutil.copy(ROOT / "tests" / "support" / module, support)
    assert folder_of_a_checkout(ROOT, tmp_path) != folder_of_a_checkout(another, tmp_path)
    assert "PYTEST_DEBUG_TEMPROOT" in os.environ, "this run has such a folder, too"
