"""Builds the .deb: an environment of the system's Python, whichever version that is."""

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
"""Versions whose folder of packages this is: each of them finds it by its own name."""

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
_COMMAND = f"""\
#!/bin/sh
exec /usr/lib/{NAME}/bin/python3 -I -m azure_scheduled_events_exporter "$@"
"""


def debian_version(version: str) -> str:
    """Return the version as Debian sorts it: a candidate is older than its release."""
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
        _settle(root, moment)
        # More threads would cut the data into other blocks: as many bytes, but not the same.
        one_thread = os.environ | {"DPKG_DEB_THREADS_MAX": "1", "SOURCE_DATE_EPOCH": str(moment)}
        command = [
            "dpkg-deb",
            "--root-owner-group",
            "-Zxz",
            "-z3",
            "--build",
            str(root),
            str(target),
        ]
        subprocess.run(command, env=one_thread, check=True, stdout=subprocess.DEVNULL)


def _put_environment(root: Path, site: Path) -> None:
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
    units = root / "usr" / "lib" / "systemd" / "system"
    units.mkdir(parents=True)
    for unit in (_DEPLOY / "systemd").glob("*.service"):
        shutil.copyfile(unit, units / unit.name)
    settings = root / "etc" / NAME / "environment"
    settings.parent.mkdir(parents=True)
    shutil.copyfile(_DEPLOY / "systemd" / "environment", settings)
    # Its own units name its program, and so do those that "assets export" writes.
    for unit in root.rglob("*.service"):
        text = unit.read_text().replace(f"/opt/{NAME}/bin/", "/usr/bin/")
        unit.write_text(text)


def _put_documents(root: Path, version: str, moment: int) -> None:
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
    # gzip.compress names the operating system in one version of Python, and not in another.
    with (
        (documents / "changelog.gz").open("wb") as file,
        gzip.GzipFile("", "wb", 9, file, mtime=0) as packed,
    ):
        packed.write(changelog.encode())
    overrides = root / "usr" / "share" / "lintian" / "overrides" / NAME
    overrides.parent.mkdir(parents=True)
    shutil.copyfile(sources / "lintian-overrides", overrides)


def _put_control(root: Path, version: str, architecture: Architecture) -> None:
    control = root / "DEBIAN"
    control.mkdir()
    for name in _SCRIPTS:
        shutil.copyfile(_DEPLOY / "packages" / "debian" / name, control / name)
    (control / "conffiles").write_text(f"/etc/{NAME}/environment\n")
    sizes = (path.lstat().st_size for path in root.rglob("*") if path.is_file())
    text = _CONTROL.format(
        name=NAME,
        version=debian_version(version),
        architecture=architecture.debian,
        maintainer=_MAINTAINER,
        size=math.ceil(sum(sizes) / 1024),  # in KiB, as Debian's policy says
    )
    (control / "control").write_text(text)


def _settle(root: Path, moment: int) -> None:
    """Give every file its mode and time, whatever umask the build has."""
    programs = {root / "DEBIAN" / name for name in _SCRIPTS}
    programs.add(root / "usr" / "lib" / NAME / "bin" / NAME)
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            is_example = "assets" in path.parts and path.stat().st_mode & 0o100
            is_open = path.is_dir() or path in programs or is_example
            path.chmod(0o755 if is_open else 0o644)
        os.utime(path, (moment, moment), follow_symlinks=False)
