"""Unpacks the single-file archive once into this user's cache, and runs the exporter there.

Python starts this file first, as the archive's ``__main__.py``. Unpacking is needed because
compiled libraries cannot be loaded from an archive. The folder is named by a digest of the archive
and of the path of its Python, so another version or another Python has another folder. This file
must not use anything besides the standard library, which is all that there is before unpacking.
"""

import hashlib
import os
import shutil
import stat
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NoReturn

_NAME = "azure-scheduled-events-exporter"


def _fail(text: str) -> NoReturn:
    """End the program with status 1 and a message."""
    sys.exit(f"{_NAME}: {text}")


def _only_ours(folder: Path) -> None:
    """End the program if a user besides root and us could replace what is in ``folder``."""
    found = folder.lstat()
    is_folder = stat.S_ISDIR(found.st_mode)
    is_owned = found.st_uid in {0, os.geteuid()}
    is_writable = bool(found.st_mode & 0o022)  # by the group or by everybody
    if not is_folder or not is_owned or is_writable:
        _fail(
            f"{folder} can be changed by another user: set XDG_CACHE_HOME to a folder that only you"
            " can write"
        )


def _unpack(archive: Path, folder: Path, version: str) -> None:
    """Unpack ``archive`` as the virtual environment ``folder`` of this Python.

    ``version`` is the name of the folder of libraries that this Python looks for. Two programs may
    unpack at once: the folder gets its name only when it is complete.
    """
    scratch = Path(tempfile.mkdtemp(prefix="unpacking-", dir=folder.parent))
    try:
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(scratch)
            for entry in packed.infolist():
                mode = entry.external_attr >> 16  # where archives have the mode of Unix
                (scratch / entry.filename).chmod(mode & 0o755)
        # The archive has the libraries in lib/python3, whatever the version of Python.
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
    digest = hashlib.sha256(archive.read_bytes())
    digest.update(sys.executable.encode())
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        ours = cache.resolve() / _NAME
        ours.mkdir(mode=0o700, exist_ok=True)
        for each in (ours.parent, ours):
            _only_ours(each)
        folder = ours / f"{digest.hexdigest()[:16]}-{version}"
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
