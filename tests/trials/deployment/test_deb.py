"""The .deb in roots of Debian 12 and 13: installed, upgraded, removed and purged.

Services are not started there.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.paths import ROOT
from support.programs import environment

NAME = "azure-scheduled-events-exporter"


def _built(folder: Path, version: str, architecture: str = "amd64") -> Path:
    """Build the packages of this tree for all architectures into ``folder``, as ``version``; return
    that for ``architecture``.
    """
    folder.mkdir()
    env = environment(SOURCE_DATE_EPOCH="1700000000")
    wheel = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(wheel, cwd=ROOT, env=env, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    subprocess.run([ROOT / "scripts" / "package", version, built, folder], env=env, check=True)
    return folder / f"{NAME}_{version}_{architecture}.deb"


def _mirror() -> str:
    """Return the address of the mirror that apt uses here."""
    sites = subprocess.check_output(
        ["apt-get", "indextargets", "--format", "$(SITE)", "Identifier: Packages"], text=True
    )
    return sites.split()[0]


@pytest.fixture(params=["bookworm", "trixie"])
def debian(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A root of Debian 12 or 13, from the mirror that apt uses here."""
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        pytest.skip("needs root and debootstrap")
    root = tmp_path / "root"
    made = subprocess.run(
        [
            "debootstrap",
            "--variant=minbase",
            "--include=python3",
            request.param,
            root,
            _mirror(),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout[-2000:]
    return root


def _run_in(root: Path, *command: str) -> str:
    """Run a command in a root of Debian; return what it prints."""
    done = subprocess.run(
        ["chroot", root, *command],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_installed_upgraded_purged(debian: Path, tmp_path: Path) -> None:
    """The program runs, changed settings survive an upgrade, removal keeps them, and purge leaves
    nothing behind.
    """

    def run(*command: str) -> str:
        return _run_in(debian, *command)

    def install(version: str) -> None:
        shutil.copy(_built(tmp_path / version, version), debian / "package.deb")
        run("dpkg", "--install", "/package.deb")

    before = set(debian.rglob(f"*{NAME}*"))
    enabled = debian / "etc/systemd/system/multi-user.target.wants" / f"{NAME}.service"
    settings = debian / "etc" / NAME / "environment"

    install("0.1.0rc1")
    assert run(NAME, "--version").startswith(NAME)
    assert enabled.is_symlink()
    settings.write_text("AZURE_SCHEDULED_EVENTS_IMDS_ENDPOINT=http://127.0.0.1:9\n")
    assert "imds.endpoint: http://127.0.0.1:9 " in run(NAME, "check-config")
    history = debian / "var/lib/private" / NAME
    history.mkdir(parents=True)

    install("0.1.0")
    assert run("dpkg-query", "--show", "--showformat=${Version}", NAME) == "0.1.0", (
        "a candidate is older than its release"
    )
    assert "imds.endpoint: http://127.0.0.1:9 " in run(NAME, "check-config")
    assert enabled.is_symlink()

    run("dpkg", "--remove", NAME)
    assert settings.exists()
    assert history.exists()
    assert not (debian / "usr/lib" / NAME).exists(), "compiled modules are removed too"
    run("dpkg", "--purge", NAME)
    assert set(debian.rglob(f"*{NAME}*")) - before == set()


QEMU = ROOT / ".tools" / "usr" / "bin" / "qemu-aarch64-static"


@pytest.fixture
def debian_on_arm64(tmp_path: Path) -> Path:
    """The files of a Debian 12 for arm64 with its Python, and qemu to run its programs."""
    if os.geteuid() != 0 or not shutil.which("debootstrap") or not QEMU.exists():
        pytest.skip("needs root, debootstrap and qemu")
    root = tmp_path / "arm64"
    options = ("--arch=arm64", "--foreign", "--variant=minbase", "--include=python3")
    made = subprocess.run(
        ["debootstrap", *options, "bookworm", root, _mirror()],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout[-2000:]
    # The second stage would need arm64 programs that start others.
    for package in (root / "var" / "cache" / "apt" / "archives").glob("*.deb"):
        subprocess.run(["dpkg", "--extract", package, root], check=True)
    shutil.copy(QEMU, root)
    return root


def test_runs_on_arm64(debian_on_arm64: Path, tmp_path: Path) -> None:
    """The program and its compiled libraries run on arm64, as qemu plays it."""
    package = _built(tmp_path / "built", "0.1.0", "arm64")
    subprocess.run(["dpkg", "--extract", package, debian_on_arm64], check=True)

    def python(*arguments: str) -> str:
        command = [f"/{QEMU.name}", f"/usr/lib/{NAME}/bin/python3", "-P", *arguments]
        return subprocess.check_output(["chroot", debian_on_arm64, *command], text=True)

    said = python("-m", "azure_scheduled_events_exporter", "--version")
    assert said.startswith(NAME)
    code = "import bcrypt, google._upb._message, platform; print(platform.machine())"
    assert python("-c", code) == "aarch64\n"


@pytest.mark.skipif(shutil.which("lintian") is None, reason="needs lintian")
def test_lintian(tmp_path: Path) -> None:
    """Lintian has no error and no warning for both architectures, besides the tags that
    deploy/packages/debian/lintian-overrides names.
    """
    amd64 = _built(tmp_path / "built", "0.1.0")
    arm64 = amd64.with_name(amd64.name.replace("amd64", "arm64"))
    assert arm64.exists()
    lintian = ["lintian", "--allow-root", "--fail-on=error,warning", str(amd64), str(arm64)]
    done = subprocess.run(lintian, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
