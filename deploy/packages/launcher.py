"""Unpacks the single-file archive once into this user's cache, and runs the exporter there.

Compiled libraries cannot be loaded from an archive. The folder is named by a digest of the archive
and of the path of its Python, so another version or another Python has another folder. It must not
use anything besides the standard library.
"""

import hashlib
import os
import shutil
import stat
import sys
import tempfile
import zipfile
from pathlib import Path

_NAME = "azure-scheduled-events-exporter"


def _fail(text: str) -> None:
    sys.exit(f"{_NAME}: {text}")


def _only_ours(folder: Path) -> None:
    """End the program if another user could replace what is in ``folder``."""
    found = folder.lstat()
    if (
        not stat.S_ISDIR(found.st_mode)
        or found.st_uid not in {0, os.geteuid()}
        or found.st_mode & 0o022
    ):
        _fail(
            f"{folder} can be changed by another user: set XDG_CACHE_HOME to a folder that only you"
            " can write"
        )


def _unpack(archive: Path, folder: Path, version: str) -> None:
    """Unpack ``archive`` as an environment of this Python; two programs may do so at once."""
    scratch = Path(tempfile.mkdtemp(prefix="unpacking-", dir=folder.parent))
    try:
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(scratch)
            for entry in packed.infolist():
                (scratch / entry.filename).chmod(entry.external_attr >> 16 & 0o755)
        (scratch / "lib" / version).symlink_to("python3")
        (scratch / "bin").mkdir()
        python = Path(sys.executable).resolve()
        (scratch / "bin" / "python3").symlink_to(python)
        (scratch / "pyvenv.cfg").write_text(f"home = {python.parent}\n", encoding="utf-8")
        scratch.rename(folder)
    except OSError:
        if not folder.is_dir():  # the other program may have been quicker
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def main() -> None:
    """Replace this process by the exporter's."""
    if sys.version_info < (3, 11):  # noqa: UP036 - other versions of Python start this file too
        _fail(f"needs Python 3.11 or newer, and this is {sys.version.split()[0]}")
    archive = Path(sys.argv[0]).resolve()
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256(archive.read_bytes() + sys.executable.encode()).hexdigest()[:16]
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        ours = cache.resolve() / _NAME
        ours.mkdir(mode=0o700, exist_ok=True)
        for each in (ours.parent, ours):
            _only_ours(each)
        folder = ours / f"{digest}-{version}"
        if not folder.is_dir():
            _unpack(archive, folder, version)
    except (OSError, RuntimeError) as error:
        _fail(
            f"cannot unpack into the cache: {error}: set XDG_CACHE_HOME to a folder that you can"
            " write"
        )
    python = str(folder / "bin" / "python3")
    # -I: neither the current folder nor PYTHONPATH, which is meant for others, has modules for us.
    command = [python, "-I", "-m", "azure_scheduled_events_exporter", *sys.argv[1:]]
    os.execv(python, command)  # noqa: S606 - no shell


main()
