"""Builds the .deb: a virtual environment of the system's Python, whichever version that is."""

import gzip
import math
import os
import re
import shutil
import subprocess
import tempfile
from email.utils import formatdate
from pathlib import Path

from deploy.packages.architecture import Architecture

NAME = "azure-scheduled-events-exporter"
PYTHONS = ("3.11", "3.12", "3.13", "3.14", "3.15")
"""The versions that can run the package.

Each looks for libraries in a folder with its version in the name; all these names are links to one
folder.
"""

_DEPLOY = Path(__file__).parents[1]
_SCRIPTS = ("postinst", "prerm", "postrm")
_MAINTAINER = f"{NAME} <noreply@users.noreply.github.com>"
_CONTROL = """\
Package: {name}
Version: {version}
Architecture: {architecture}
Maintainer: {maintainer}
Installed-Size: {size}
Depends: python3 (>= 3.11), libc6 (>= 2.28), libgcc-s1
Section: net
Priority: optional
Homepage: https://github.com/{name}/{name}
Description: Azure Scheduled Events as Prometheus metrics
 Reads Azure's Scheduled Events from the instance metadata service of a VM, and
 exports maintenance, Spot evictions and host failures as Prometheus metrics,
 alerts and OpenTelemetry traces. Brings its Python libraries along.
"""
_CHANGELOG = """\
{name} ({version}) unstable; urgency=medium

  * See CHANGELOG.md of the repository.

 -- {maintainer}  {date}
"""
# -I: Python uses neither PYTHONPATH nor the current folder, which are not the package's.
_COMMAND = f"""\
#!/bin/sh
exec /usr/lib/{NAME}/bin/python3 -I -m azure_scheduled_events_exporter "$@"
"""


def debian_version(version: str) -> str:
    """Return a version of Python's as Debian writes it: ``1.0rc1`` becomes ``1.0~rc1``.

    Debian sorts that before ``1.0``.
    """
    return re.sub(r"(a|b|rc)(\d+)$", r"~\1\2", version)


def file_name(version: str, architecture: Architecture) -> str:
    """Return the name of the file.

    It has no ``~``, which GitHub replaces in the names of a release's files.
    """
    return f"{NAME}_{version}_{architecture.debian}.deb"


def build(site: Path, target: Path, version: str, architecture: Architecture, moment: int) -> None:
    """Write the package with the Python packages in ``site`` to ``target``.

    Args:
        site: The folder of Python packages.
        target: The file to write.
        version: The version as Python writes it.
        architecture: Whose compiled libraries ``site`` has.
        moment: The time of every file in it, in seconds since 1970.

    Raises:
        subprocess.CalledProcessError: dpkg-deb has failed, and has said why.
    """
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "root"
        root.mkdir()
        _put_environment(root, site)
        _put_service(root)
        _put_documents(root, version, moment)
        _put_control(root, version, architecture)
        _set_modes_and_times(root, moment)
        environment = dict(os.environ)
        environment["SOURCE_DATE_EPOCH"] = str(moment)
        # More threads would cut the data into other blocks: as many bytes, but not the same.
        environment["DPKG_DEB_THREADS_MAX"] = "1"
        command = ["dpkg-deb", "--root-owner-group", "-Zxz", "-z3"]
        command += ["--build", str(root), str(target)]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)


def _put_environment(root: Path, site: Path) -> None:
    """Put the virtual environment there, and the command that runs the exporter in it."""
    home = root / "usr" / "lib" / NAME
    shutil.copytree(site, home / "lib" / "python3" / "site-packages")
    for version in PYTHONS:
        (home / "lib" / f"python{version}").symlink_to("python3")
    (home / "pyvenv.cfg").write_text("home = /usr/bin\n")
    program = home / "bin" / NAME
    program.parent.mkdir()
    program.write_text(_COMMAND)
    (home / "bin" / "python3").symlink_to("../../../bin/python3")
    command = root / "usr" / "bin" / NAME
    command.parent.mkdir()
    command.symlink_to(f"../lib/{NAME}/bin/{NAME}")


def _put_service(root: Path) -> None:
    """Put the units of systemd there, and the file with the settings of the service."""
    units = root / "usr" / "lib" / "systemd" / "system"
    units.mkdir(parents=True)
    for unit in (_DEPLOY / "systemd").glob("*.service"):
        shutil.copyfile(unit, units / unit.name)
    settings = root / "etc" / NAME / "environment"
    settings.parent.mkdir(parents=True)
    shutil.copyfile(_DEPLOY / "systemd" / "environment", settings)
    # All units of the package: also those in the wheel, which "assets export" writes.
    for unit in root.rglob("*.service"):
        text = unit.read_text().replace(f"/opt/{NAME}/bin/", "/usr/bin/")
        unit.write_text(text)


def _put_documents(root: Path, version: str, moment: int) -> None:
    """Put the files there that Debian's policy demands of every package."""
    sources = _DEPLOY / "packages" / "debian"
    documents = root / "usr" / "share" / "doc" / NAME
    documents.mkdir(parents=True)
    shutil.copyfile(sources / "copyright", documents / "copyright")
    changelog = _CHANGELOG.format(
        name=NAME,
        version=debian_version(version),
        maintainer=_MAINTAINER,
        date=formatdate(moment),
    )
    # Not gzip.compress, which writes the operating system's name in some versions of Python only.
    with (
        (documents / "changelog.gz").open("wb") as file,
        gzip.GzipFile("", "wb", 9, file, mtime=0) as packed,
    ):
        packed.write(changelog.encode())
    overrides = root / "usr" / "share" / "lintian" / "overrides" / NAME
    overrides.parent.mkdir(parents=True)
    shutil.copyfile(sources / "lintian-overrides", overrides)


def _put_control(root: Path, version: str, architecture: Architecture) -> None:
    """Put the description of the package there, with its size, and its scripts."""
    control = root / "DEBIAN"
    control.mkdir()
    for name in _SCRIPTS:
        shutil.copyfile(_DEPLOY / "packages" / "debian" / name, control / name)
    (control / "conffiles").write_text(f"/etc/{NAME}/environment\n")
    size = 0
    for path in root.rglob("*"):
        if path.is_file():
            size += path.lstat().st_size
    text = _CONTROL.format(
        name=NAME,
        version=debian_version(version),
        architecture=architecture.debian,
        maintainer=_MAINTAINER,
        size=math.ceil(size / 1024),  # in KiB, as Debian's policy says
    )
    (control / "control").write_text(text)


def _set_modes_and_times(root: Path, moment: int) -> None:
    """Give every file its mode and time, whatever umask and clock the build has."""
    programs = {root / "DEBIAN" / name for name in _SCRIPTS}
    programs.add(root / "usr" / "lib" / NAME / "bin" / NAME)
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            # An example that people run, such as a hook, is a program in the wheel already.
            is_example = "assets" in path.parts and path.stat().st_mode & 0o100
            mode = 0o644
            if path.is_dir() or path in programs or is_example:
                mode = 0o755
            path.chmod(mode)
        os.utime(path, (moment, moment), follow_symlinks=False)
