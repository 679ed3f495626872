"""The folder of Python packages that the single file and the .deb hold: pip downloads them."""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from deploy.packages.architecture import Architecture

OLDEST_PYTHON = "3.11"
"""Wheels are chosen for this Python, whichever one builds, so that the bytes are the same."""

# The second numbers of versions of glibc: wheels that need a glibc of 2.17 to 2.28 are used.
OLDEST_GLIBC = 17
NEWEST_GLIBC = 28
"""RHEL 8 and Debian 10 have 2.28, so the packages run there and on anything newer."""

_OF_ONE_PYTHON = ".cpython-"
"""In the name of a compiled module that only one version of Python can load.

Such modules are left out: PyYAML and charset-normalizer have the same code in Python. Any other
compiled module is for every version of Python (abi3), and stays.
"""

_OF_AN_INSTALLER = ("RECORD", "direct_url.json", "REQUESTED", "INSTALLER")
"""What an installer writes beside a package, and what would be wrong here."""


class CannotDownloadError(Exception):
    """pip cannot get a pinned wheel. The message is what it said last."""


def downloaded(architecture: Architecture, requirements: Path, cache: Path) -> Path:
    """Return a folder below ``cache`` with the wheels of the pinned requirements.

    They are downloaded once for each content of ``requirements``, and compared with its hashes.

    Raises:
        CannotDownloadError: pip cannot get one of them.
    """
    digest = hashlib.sha256(requirements.read_bytes())
    folder = cache / f"{architecture.machine}-{digest.hexdigest()[:16]}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        wheels = Path(scratch) / "wheels"
        _download(architecture, requirements, wheels)
        try:
            wheels.rename(folder)
        except OSError:
            if not folder.is_dir():  # another build may have been quicker
                raise
    return folder


def _download(architecture: Architecture, requirements: Path, folder: Path) -> None:
    """Let pip download the wheels into ``folder``; of several that fit, the newest platform's."""
    newest_first = range(NEWEST_GLIBC, OLDEST_GLIBC - 1, -1)
    platforms = [f"manylinux_2_{minor}_{architecture.machine}" for minor in newest_first]
    platforms.append(f"manylinux2014_{architecture.machine}")
    command = [sys.executable, "-m", "pip", "download", "-qq", "--disable-pip-version-check"]
    command += ["--no-deps", "--require-hashes", "--only-binary", ":all:"]
    command += ["--python-version", OLDEST_PYTHON]
    for each in platforms:
        command += ["--platform", each]
    command += ["--requirement", str(requirements)]
    command += ["--dest", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = done.stderr.strip() or "pip failed without a word"
        *_, last = said.splitlines()
        raise CannotDownloadError(last)


def unpack(wheels: Iterable[Path], site: Path) -> None:
    """Unpack ``wheels`` into ``site``, without what only one version of Python can load."""
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for entry in archive.infolist():
                if not entry.is_dir() and _is_wanted(entry.filename):
                    _write(site, entry, archive.read(entry))


def _is_wanted(name: str) -> bool:
    """Return whether the packages need the file of a wheel that has this path in it."""
    folder, _, file = name.rpartition("/")
    if folder.endswith(".dist-info") and file in _OF_AN_INSTALLER:
        return False
    if ".data/" in name:  # scripts; the package has its own command
        return False
    return _OF_ONE_PYTHON not in file


def _write(site: Path, entry: zipfile.ZipInfo, content: bytes) -> None:
    """Write a file of a wheel into ``site``; only an example that people run is a program."""
    target = site / entry.filename
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    unix_mode = entry.external_attr >> 16  # where archives have it
    is_example = "/assets/" in entry.filename
    mode = 0o644
    if is_example and unix_mode & 0o100:
        mode = 0o755
    target.chmod(mode)
