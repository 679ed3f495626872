"""A release is the same bytes, whichever supported Python of this machine builds it."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from support.deployment.checkout import Checkout
from support.paths import ROOT

VERSION = "7.8.9"
KINDS = 6  # wheel, sdist, single file, .deb, chart, assets


def _pythons() -> dict[str, str]:
    """Return the path of each supported Python that is here, by its version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = {}
    for version in re.findall(r":: (3\.\d+)", "\n".join(project["classifiers"])):
        done = subprocess.run(
            [ROOT / "scripts" / "find-python", f"python{version}"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            found[version] = done.stdout.strip()
    return found


def test_every_python_builds_the_same_bytes(tmp_path: Path) -> None:
    """Wheel, sdist, single files, .deb files, chart and assets have the same checksums."""
    pythons = _pythons()
    if len(pythons) < 2:
        pytest.skip("needs two supported versions of Python")
    checkout = Checkout(tmp_path / "checkout")
    checkout.set_version(VERSION)
    checkout.run("scripts/chart")
    checkout.commit("ready")
    sums = {}
    for version, python in pythons.items():
        checkout.use(python)
        done = checkout.release(VERSION)
        assert done.returncode == 0, done.stderr
        sums[version] = (checkout.folder / "build" / "release" / "SHA256SUMS").read_text()
    first = next(iter(sums.values()))
    assert len(first.splitlines()) >= KINDS, "each kind of file has a checksum"
    assert sums == dict.fromkeys(pythons, first)
