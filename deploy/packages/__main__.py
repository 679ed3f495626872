"""``python -m deploy.packages VERSION WHEEL FOLDER``: build the packages of a version.

The wheel is that of the exporter itself. Without dpkg-deb, no .deb is built.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from deploy.packages import debian_package, libraries, single_file
from deploy.packages.architecture import ARCHITECTURES, Architecture

_ROOT = Path(__file__).parents[2]
_REQUIREMENTS = _ROOT / "requirements" / "run.txt"
_DOWNLOADS = _ROOT / ".tools" / "packages"


def main() -> None:
    """Build the packages that the command line asks for."""
    parser = argparse.ArgumentParser(prog="package", description=__doc__)
    parser.add_argument("version")
    parser.add_argument("wheel", type=Path)
    parser.add_argument("folder", type=Path)
    wanted = parser.parse_args()
    moment = os.environ.get("SOURCE_DATE_EPOCH")
    if moment is None:
        sys.exit("package: set SOURCE_DATE_EPOCH to the time of the commit: every file gets it")
    has_dpkg = shutil.which("dpkg-deb") is not None
    if not has_dpkg:
        print("package: no dpkg-deb here, so no .deb", file=sys.stderr)
    try:
        for architecture in ARCHITECTURES:
            build(wanted, architecture, int(moment), debian=has_dpkg)
    except libraries.CannotDownloadError as error:
        sys.exit(f"package: a library cannot be downloaded: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"package: {error.cmd[0]} failed; it has said why above")


def build(
    wanted: argparse.Namespace, architecture: Architecture, moment: int, *, debian: bool
) -> None:
    """Build the packages of one architecture.

    ``moment`` is the time of every file in them, in seconds since 1970.
    """
    downloads = libraries.downloaded(architecture, _REQUIREMENTS, _DOWNLOADS)
    wheels = [*downloads.glob("*.whl"), wanted.wheel]
    version = wanted.version
    with tempfile.TemporaryDirectory() as scratch:
        site = Path(scratch) / "site-packages"
        libraries.unpack(wheels, site)
        name = f"{debian_package.NAME}-{version}-{architecture.machine}.pyz"
        single_file.build(site, wanted.folder / name, moment)
        if debian:
            target = wanted.folder / debian_package.file_name(version, architecture)
            debian_package.build(site, target, version, architecture, moment)


if __name__ == "__main__":
    main()
