"""Debian's systemd in namespaces of its own, with this tree's unit, for tests that ask what the
sandbox allows.

What runs in it has a loopback interface and nothing else, so no packet leaves it.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil

from support.paths import ROOT, TESTS
from support.programs import PATIENCE, eventually

UNIT = ROOT / "deploy" / "systemd" / "azure-scheduled-events-exporter.service"
NAME = UNIT.name
SYSTEMD = Path("/lib/systemd/systemd")
PROGRAM = "/opt/azure-scheduled-events-exporter/bin/azure-scheduled-events-exporter"
STATE = "lib/private/azure-scheduled-events-exporter"
TARGETS = ("sysinit", "basic", "shutdown", "network", "multi-user")
# of an interpreter that is not the system's, if there are any
_LIBRARIES = "LD_LIBRARY_PATH=/opt/python/lib"
_NAMESPACES = ("--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup")
_LAUNCHER = """\
#!{python}
import sys
sys.path[:0] = ["/opt/source", "/opt/site"]
from azure_scheduled_events_exporter.commands.cli import main
sys.exit(main())
"""
# What a network interface is given by, without any program: SIOCSIFADDR, SIOCSIFFLAGS.
_INTERFACES = """\
import fcntl, socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", 1))
    for number, address in enumerate(sys.argv[1:]):
        name = b"lo:%d" % number
        packed = socket.inet_aton(address)
        request = struct.pack("16sHH4s8x", name, socket.AF_INET, 0, packed)
        fcntl.ioctl(s, 0x8916, request)
"""


def is_possible() -> bool:
    """Return whether this machine lets a process have all these namespaces, and a cgroup."""
    if not SYSTEMD.exists() or os.geteuid() != 0:
        return False
    look = (
        "mount --make-rprivate / && mount -t cgroup2 cgroup2 /mnt && mkdir /mnt/$0 && rmdir /mnt/$0"
    )
    return (
        subprocess.run(
            ["unshare", *_NAMESPACES, "--fork", "sh", "-c", look, f"box-{os.getpid()}"],
            check=False,
            capture_output=True,
        ).returncode
        == 0
    )


class Box:
    """A running systemd with only the unit, changed by ``drop_in``; a context manager."""

    def __init__(self, folder: Path, drop_in: str, environment: str) -> None:
        self.folder = folder
        for name in (
            "cgroup",
            "etc/systemd/system",
            f"etc/systemd/system/{NAME}.d",
            "opt",
            "run",
            "lib",
            "units",
        ):
            (folder / name).mkdir(parents=True)
        for name in ("passwd", "group", "nsswitch.conf", "hosts", "ld.so.cache", "ld.so.conf"):
            if Path("/etc", name).exists():
                shutil.copy(Path("/etc", name), folder / "etc")
        (folder / "etc" / "machine-id").write_text("0" * 31 + "1\n")
        for name in TARGETS:
            (folder / "units" / f"{name}.target").write_text("[Unit]\nDefaultDependencies=no\n")
        shutil.copy(UNIT, folder / "etc/systemd/system")
        (folder / f"etc/systemd/system/{NAME}.d/test.conf").write_text(
            f"{drop_in}Environment={_LIBRARIES}\n"
        )
        (folder / "etc/azure-scheduled-events-exporter").mkdir()
        (folder / "etc/azure-scheduled-events-exporter/environment").write_text(environment)
        self._python = self._install()
        self._process: subprocess.Popen[bytes] | None = None
        self._systemd: psutil.Process | None = None
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        with (self.folder / "boot.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    "unshare",
                    "--mount",
                    "sh",
                    str(TESTS / "support" / "hosts" / "systemd_box.sh"),
                    str(self.folder),
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        try:
            eventually(self._is_up, "systemd in its box")
            self.run(self._python, "-c", _INTERFACES, "10.1.2.3", "203.0.113.1")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        systemd = self._systemd or self._find()
        if systemd is not None:
            systemd.kill()  # and with it everything in its namespace
        for process in (*self._started, self._process):
            if process is not None:
                process.wait(PATIENCE)

    def run(self, *command: str, check: bool = True) -> str:
        """Run a command in the box and return what it prints."""
        done = subprocess.run(
            [*self._enter(), *command],
            check=False,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}{self.log}"
        return done.stdout + done.stderr

    def start(self, *command: str) -> None:
        """Start a command in the box; it ends with it."""
        silent = subprocess.DEVNULL
        self._started.append(
            subprocess.Popen([*self._enter(), *command], stdin=silent, stdout=silent, stderr=silent)
        )

    def shown(self, name: str) -> str:
        """Return the state of the service in systemd."""
        return self.run("systemctl", "show", "--value", f"--property={name}", NAME).strip()

    def status(self, url: str) -> str:
        """Return the status of an answer to a request from within the box, or why there is none."""
        look = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=2).status)"
        return self.run(self._python, "-c", look, url, check=False).splitlines()[-1]

    @property
    def log(self) -> str:
        """What systemd and the exporter have written."""
        files = [self.folder / "boot.log", self.folder / "run" / "exporter.log"]
        return "".join(file.read_text() for file in files if file.exists())

    def _install(self) -> str:
        """Lay out /opt: this tree, and the interpreter unless it is the system's."""
        sources = {"source": str(ROOT / "exporter"), "site": sysconfig.get_path("purelib")}
        python = f"/usr/bin/python3.{sys.version_info.minor}"
        if sys.base_prefix != "/usr":
            sources["python"] = sys.base_prefix
            python = f"/opt/python/bin/python3.{sys.version_info.minor}"
        for name, source in sources.items():
            (self.folder / "opt" / name).mkdir()
            (self.folder / "opt" / name / "from").symlink_to(source)
        program = self.folder / PROGRAM.lstrip("/")
        program.parent.mkdir(parents=True)
        program.write_text(_LAUNCHER.format(python=python))
        program.chmod(0o755)
        return python

    def _find(self) -> psutil.Process | None:
        """The first process of the box, once it is systemd; it stays the same."""
        assert self._process is not None
        with suppress(psutil.Error):  # a process that has ended meanwhile
            children = psutil.Process(self._process.pid).children(recursive=True)
            self._systemd = next((child for child in children if child.name() == "systemd"), None)
        return self._systemd

    def _enter(self) -> list[str]:
        assert self._systemd is not None, self.log
        return ["nsenter", "--target", str(self._systemd.pid), *_NAMESPACES, "env", _LIBRARIES]

    def _is_up(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log
        if self._systemd is None and self._find() is None:
            return False
        return (
            self.run("systemctl", "is-active", "multi-user.target", check=False).strip() == "active"
        )
