"""Builds the single file: an archive that Python runs.

Python reads an archive from its end, so the file can begin with a line that names the interpreter.
"""

import time
import zipfile
from pathlib import Path

_LAUNCHER = Path(__file__).with_name("launcher.py")
_UNIX = 3  # the system that an entry of an archive was created on
_REGULAR_FILE = 0o100000


def build(site: Path, target: Path, moment: int) -> None:
    """Write the packages in ``site`` and the launcher into ``target``.

    Args:
        site: The folder of Python packages.
        target: The file to write.
        moment: The time of every file in the archive, in seconds since 1970.
    """
    date = time.gmtime(moment)[:6]  # year to second
    with target.open("wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w") as archive:
            _add(archive, _LAUNCHER, "__main__.py", date)
            for path in sorted(site.rglob("*")):
                if path.is_file():
                    name = path.relative_to(site).as_posix()
                    _add(archive, path, f"lib/python3/site-packages/{name}", date)
    target.chmod(0o755)


def _add(archive: zipfile.ZipFile, path: Path, name: str, date: tuple[int, ...]) -> None:
    """Add the file at ``path`` to the archive, as ``name``."""
    entry = zipfile.ZipInfo(name, date)  # type: ignore[arg-type]  # six numbers
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = _UNIX  # wherever the archive is built
    mode = 0o644
    if path.stat().st_mode & 0o100:
        mode = 0o755
    entry.external_attr = (_REGULAR_FILE | mode) << 16  # the mode of Unix is in the upper half
    archive.writestr(entry, path.read_bytes(), compresslevel=9)
