"""The container image: built for real by scripts/image, and run as a careful platform runs it.

There is no container engine: namespaces, a read-only bind mount and chroot make what one makes. The
process has the image's user, environment and command, no capabilities, its own /proc in which it is
process 1, and one folder to write in.
"""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psutil
import pytest

from azure_scheduled_events_exporter import assets
from azure_scheduled_events_exporter.simulator import (
    PlannedEvent,
    Scenario,
    Simulator,
    VirtualMachine,
)
from deploy.stack.free_port import free_port
from support.paths import ROOT
from support.programs import COMMAND, PATIENCE, PREFIX, Scrape, environment, eventually, fetch

NAME = "localhost/azure-scheduled-events-exporter"
HOME = "opt/azure-scheduled-events-exporter"
STATE = "/var/lib/azure-scheduled-events-exporter"
USER = 65532
SOON = 5.0  # seconds; two are promised, the rest is for a busy machine
QUIET = Scenario("quiet", "Nothing happens.", (VirtualMachine("vmss_0"),), ())
FREEZE = PlannedEvent("Freeze", ("vmss_0",), announced_at=0, notice=10)
MIGRATION = Scenario(
    "migration", "A live migration that does not end by itself.", QUIET.vms, (FREEZE,)
)
# $1 root, $2 volume, $3 its place in the image, $4 user:group; then the command. It all ends with
# its process 1.
ENTER = """
root=$1; mount --bind "$root" "$root"
mount --bind "$2" "$root$3"
mount -t tmpfs -o mode=0755,nosuid,noexec tmpfs "$root/dev"
for device in null zero urandom; do
  : >"$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
mount -t proc proc "$root/proc"
mount -o remount,bind,ro "$root/dev"; mount -o remount,bind,ro "$root"
user=$4; shift 4
exec setpriv --no-new-privs --inh-caps=-all --bounding-set=-all,+sys_chroot,+setuid,+setgid \
  chroot --userspec="$user" --groups= "$root" "$@"
"""
Run = Callable[..., "Container"]


@dataclass(frozen=True)
class Image:
    """The image as it was built: its files, its configuration, and what buildah says about it."""

    root: Path
    config: Mapping[str, Any]
    inspected: str

    @property
    def environment(self) -> dict[str, str]:
        """The variables that the image sets."""
        return dict(line.split("=", 1) for line in self.config["Env"])


class Container:
    """The image's own command, running with nothing but what it needs."""

    def __init__(self, image: Image, volume: Path, output: Path, **variables: str) -> None:
        self.port = free_port()
        self.output = output
        self._env = {
            **image.environment,
            f"{PREFIX}web_listen_address".upper(): f"127.0.0.1:{self.port}",
            f"{PREFIX}poll_interval".upper(): "250ms",
            **variables,
        }
        enter = [
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "sh",
            "-euc",
            ENTER,
            "enter",
        ]
        command = [*image.config["Entrypoint"], *image.config["Cmd"]]
        with output.open("wb") as file:
            self.process = subprocess.Popen(
                [*enter, str(image.root), str(volume), STATE, image.config["User"], *command],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=self._env,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            for inside in psutil.Process(
                self.process.pid
            ).children():  # a new user frees it from dying with its parent
                inside.kill()
            self.process.kill()
        self.process.wait(PATIENCE)

    @property
    def process_1(self) -> psutil.Process:
        """The container's process 1, as this machine sees it."""
        outside = psutil.Process(self.process.pid)
        (process,) = eventually(outside.children, "the process in the container")
        return process

    def scrape(self) -> Scrape:
        """Return its metrics now; none while it does not serve."""
        try:
            answer = fetch(f"http://127.0.0.1:{self.port}/metrics")
        except OSError:
            assert self.process.poll() is None, self.output.read_text()
            return Scrape("")
        assert answer.status == 200, answer
        return Scrape(answer.body.decode())

    def shows(self, what: str, look: Callable[[Scrape], bool]) -> None:
        """Wait until its metrics are so."""
        eventually(lambda: look(self.scrape()), what)

    def execute(self, *command: str, user: int = USER) -> subprocess.CompletedProcess[str]:
        """Run another command in it, as container engines do for health checks."""
        target = str(self.process_1.pid)
        enter = ["nsenter", "--target", target, "--mount", "--pid", "--root", "--wd"]
        return subprocess.run(
            [*enter, "--setuid", str(user), "--setgid", str(user), "--", *command],
            check=False,
            capture_output=True,
            text=True,
            env=self._env,
            timeout=2 * PATIENCE,
        )

    def is_healthy(self, image: Image) -> bool:
        """Return what the image's HEALTHCHECK finds."""
        kind, *command = image.config["Healthcheck"]["Test"]
        assert kind == "CMD", "a shell would be needed"
        return self.execute(*command).returncode == 0


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """Build the image, or fail with what the build says."""
    done = subprocess.run([ROOT / "scripts/image"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    inspected = buildah("inspect", "--type", "image", NAME)
    container = buildah("from", "--pull-never", NAME).strip()
    try:
        root = Path(buildah("mount", container).strip())
        yield Image(root, json.loads(inspected)["Docker"]["config"], inspected)
    finally:
        buildah("rm", container)


def buildah(*arguments: str) -> str:
    """Return the output of buildah on the project's own store."""
    done = subprocess.run(
        [ROOT / "scripts/buildah", *arguments], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def volume(image: Image, tmp_path: Path) -> Path:
    """A new volume: as engines do, with owner and mode of the folder that it covers."""
    folder = tmp_path / "volume"
    folder.mkdir()
    covered = (image.root / STATE[1:]).stat()
    os.chown(folder, covered.st_uid, covered.st_gid)
    folder.chmod(covered.st_mode & 0o7777)
    return folder


@pytest.fixture
def run(image: Image, volume: Path, tmp_path: Path) -> Iterator[Run]:
    """Run containers, ``run(simulator.url)``, that end with the test."""
    with ExitStack() as stack:

        def start(endpoint: str, **variables: str) -> Container:
            endpoints = {f"{PREFIX}imds_endpoint".upper(): endpoint}
            return stack.enter_context(
                Container(image, volume, tmp_path / "log", **endpoints, **variables)
            )

        yield start


def test_a_live_migration_is_seen_and_remembered(run: Run, volume: Path) -> None:
    """On a read-only root, the container's metrics are right, and a new container on the same
    volume continues with its journal.
    """
    with Simulator(QUIET) as simulator:
        container = run(simulator.url)
        container.shows("a poll", lambda now: now.value("up") == 1)
        simulator.play(MIGRATION)
        container.shows(
            "the announcement",
            lambda now: now.value("pending", event_type="Freeze", scope="self") == 1,
        )
        container.shows(
            "the start", lambda now: now.value("started", event_type="Freeze", scope="self") == 1
        )
        simulator.set_document([])
        container.shows(
            "the end",
            lambda now: now.transitions() == {"detected": 1, "started": 1, "completed": 1},
        )
        assert container.scrape().value("journal_up") == 1
        assert stop(container) == 0
        again = run(simulator.url)
        again.shows(
            "the journal",
            lambda now: now.transitions() == {"detected": 1, "started": 1, "completed": 1},
        )
        assert stop(again) == 0
    files = {path.name: path.stat().st_uid for path in volume.iterdir()}
    assert files["journal.sqlite"] == USER
    assert set(files.values()) == {USER}


def stop(container: Container) -> int:
    """Send SIGTERM to process 1, which ends only if it handles that; return its exit status."""
    began = time.monotonic()
    container.process_1.send_signal(signal.SIGTERM)
    status = container.process.wait(PATIENCE)
    assert time.monotonic() - began < SOON
    return status


def test_it_has_no_powers(run: Run) -> None:
    """The container's process runs as the numeric user, without groups or capabilities, and not
    even root can write to its root file system.
    """
    with Simulator(QUIET) as simulator:
        container = run(simulator.url)
        container.shows("a poll", lambda now: now.value("up") == 1)
        seen = dict(re.findall(r"(\w+):\t(.*)", container.execute("cat", "/proc/1/status").stdout))
        assert seen["Uid"].split() == seen["Gid"].split() == [str(USER)] * 4
        assert seen["Groups"].strip() in {"", str(USER)}, "none but the group of the user"
        assert int(seen["CapEff"], 16) == int(seen["CapPrm"], 16) == 0
        assert seen["NoNewPrivs"] == "1"
        program = "import sys; open(sys.argv[1], 'w')"
        for folder in ("", "/tmp", f"/{HOME}", "/etc"):  # noqa: S108 - nothing is written there
            for user in (0, USER):
                done = container.execute("python", "-c", program, f"{folder}/file", user=user)
                assert "Read-only file system" in done.stderr, folder


def test_health(run: Run, image: Image) -> None:
    """HEALTHCHECK distinguishes a serving exporter from one that hangs."""
    with Simulator(QUIET) as simulator:
        container = run(simulator.url)
        eventually(lambda: container.is_healthy(image), "health")
        container.process_1.suspend()
        assert not container.is_healthy(image)
        container.process_1.resume()
        assert container.is_healthy(image)


def test_what_is_in_it(image: Image) -> None:
    """The image holds the program, its pinned libraries, all compiled, and the shipped files;
    nothing else, and no caches.
    """
    share = image.root / "usr/share/azure-scheduled-events-exporter"
    exported = {path.relative_to(share) for path in share.rglob("*") if path.is_file()}
    assert exported == {Path(kind) / name for kind, name, _ in assets.files()}
    packages = next((image.root / HOME).glob("lib/python3.*/site-packages"))
    installed = {
        path.name.split("-")[0].lower().replace("_", "-") for path in packages.glob("*.dist-info")
    }
    pinned = re.findall(
        "^([a-z0-9-]+)==", (ROOT / "requirements/run.txt").read_text().lower(), re.MULTILINE
    )
    assert installed == {*pinned, "azure-scheduled-events-exporter"}
    folders_of_the_build = {"source", "build", "dist", "assets", "wheels"}
    assert not folders_of_the_build & {path.name for path in image.root.iterdir()}
    # While the image is built, these files are those of this machine: the image has them empty.
    for name in ("hosts", "hostname", "resolv.conf"):
        assert (image.root / "etc" / name).read_text() == "", name
    leftovers = [
        *(image.root / "tmp").iterdir(),
        *(image.root / "mnt").iterdir(),  # where the build has the wheels
        *image.root.glob("root/.cache"),
    ]
    assert leftovers == []
    ours = [path for path in (image.root / HOME).rglob("*") if not path.is_symlink()]
    assert not {".git", ".env", "journal.sqlite"} & {path.name for path in ours}
    assert not [path for path in ours if path.stat().st_uid or path.stat().st_mode & 0o022], (
        "the user could change it"
    )
    for source in packages.rglob("*.py"):
        (bytecode,) = (source.parent / "__pycache__").glob(f"{source.stem}.cpython-*.pyc")
        # The flags of PEP 552: bytecode with a hash, which is not compared with its source.
        flags = bytecode.read_bytes()[4:8]
        assert flags == b"\x01\0\0\0", f"{bytecode} would be checked against its source"


def test_configuration(image: Image) -> None:
    """The image's labels, port, volume and command are as documented, and the image has nothing of
    the machine that built it.
    """
    version = subprocess.run(
        [COMMAND, "--version"], capture_output=True, text=True, env=environment(), check=True
    )
    labels = {
        name.removeprefix("org.opencontainers.image."): text
        for name, text in image.config["Labels"].items()
    }
    assert labels["title"] == "azure-scheduled-events-exporter"
    assert labels["version"] == version.stdout.split()[1]
    assert labels["licenses"] == "Apache-2.0"
    assert labels["source"] == labels["url"]
    assert {"description", "documentation", "revision"} <= labels.keys()
    assert image.config["User"] == f"{USER}:{USER}"
    assert image.config["Entrypoint"] == ["azure-scheduled-events-exporter"]
    assert image.config["Cmd"] == ["run"]
    assert list(image.config["ExposedPorts"]) == ["10169/tcp"]
    assert list(image.config["Volumes"]) == [STATE]
    # Such as the package index of that machine, its folder of wheels, or any address but ours.
    of_the_machine = "index|wheels|://(?!github.com/azure-scheduled-events-exporter/)"
    assert not re.search(of_the_machine, image.inspected)
