"""Root given up: the users, groups and capabilities that the kernel shows for the process."""

import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.metadata import distribution
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from azure_scheduled_events_exporter.simulator import Simulator
from support.commands import assert_one_line
from support.hosts.failing_disks import hanging_disk
from support.paths import GUARD, ROOT
from support.programs import Exporter, environment, eventually

Start = Callable[..., Exporter]

NOBODY = 65534
"""The uid and gid of the account ``nobody``."""

# Bits of the capability sets in /proc/PID/status, as <linux/capability.h> numbers them.
CAP_DAC_OVERRIDE = 1 << 1
CAP_DAC_READ_SEARCH = 1 << 2
CAP_SETGID = 1 << 6
CAP_SETUID = 1 << 7
CAP_NET_BIND_SERVICE = 1 << 10

# The libraries that the program imports if it sends no traces, as here.
LIBRARIES = (
    "bcrypt",
    "certifi",
    "h11",
    "idna",
    "prometheus-client",
    "PyYAML",
    "requests",
    "urllib3",
)


@pytest.fixture(autouse=True)
def _as_root() -> None:
    if os.geteuid() != 0:
        pytest.fail("root gives up nothing where it is not had: run the tests as root, as CI does")


@pytest.fixture
def imds() -> Iterator[Simulator]:
    """A metadata service with an event to come."""
    with Simulator("live-migration", speed=10) as simulator:
        yield simulator


def open_folder(stack: ExitStack) -> Path:
    """Return a new folder that everybody may look into, as /opt and /var/lib are, and pytest's are
    not.
    """
    folder = Path(stack.enter_context(TemporaryDirectory()))
    folder.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def site() -> Iterator[Path]:
    """The program and its libraries where every user can read them, which a checkout in root's home
    is not.
    """
    with ExitStack() as stack:
        folder = open_folder(stack)
        for library in LIBRARIES:
            for file in distribution(library).files or ():
                # The programs that a library installs lie in another folder, as ../../../bin/NAME.
                if ".." not in file.parts:
                    (folder / file).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(str(file.locate()), folder / file)
        name = "azure_scheduled_events_exporter"
        shutil.copytree(
            ROOT / "exporter" / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
        )
        shutil.copy(GUARD / "sitecustomize.py", folder)
        yield folder


def everybody_can_reach(path: Path) -> bool:
    """Return whether every user can enter each folder above the file."""
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in path.resolve().parents)


def python() -> str:
    """Return an interpreter that every user can run: that of the tests, or else Debian's."""
    # A virtual environment has only a link to its interpreter; the standard library is what the
    # other user has to read.
    standard_library = Path(os.__file__)
    if everybody_can_reach(standard_library):
        return sys.executable
    of_debian = Path("/usr/bin/python3")
    if everybody_can_reach(of_debian):
        return str(of_debian)
    pytest.fail("every Python here is in somebody's home: install Debian's python3")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody may look into."""
    with ExitStack() as stack:
        yield open_folder(stack)


@pytest.fixture
def start(site: Path, imds: Simulator, folder: Path) -> Iterator[Start]:
    """Starts an exporter as root, with flags; a name in ``log`` for a second one."""
    command = [python(), "-m", "azure_scheduled_events_exporter"]
    with ExitStack() as stack:

        def begin(*flags: str, log: str = "log", **env: str) -> Exporter:
            env["PYTHONPATH"] = str(site)
            return stack.enter_context(
                Exporter(imds.url, folder / log, *flags, command=command, **env)
            )

        yield begin


def wait_for_event(exporter: Exporter) -> None:
    """Wait until the exporter has detected the event."""
    exporter.shows("the event", lambda now: now.total("transitions_total", transition="detected"))


def status(exporter: Exporter) -> dict[str, str]:
    """Return the users, groups and capabilities of the process, from the kernel."""
    text = Path(f"/proc/{exporter.process.pid}/status").read_text()
    return {name: value.strip() for name, value in re.findall(r"^(\w+):(.*)$", text, re.MULTILINE)}


def test_root_without_a_user_has_few_powers(start: Start, folder: Path) -> None:
    """Started as root without further flags, the exporter keeps only the power to access all files,
    and cannot regain another.
    """
    exporter = start("--journal.path", str(folder / "state"))
    exporter.wait_for_line('msg=listening .*root="stays uid 0 with few capabilities')
    wait_for_event(exporter)
    found = status(exporter)
    assert exporter.scrape().value("journal_up") == 1
    assert int(found["CapEff"], 16) == CAP_DAC_OVERRIDE
    assert int(found["CapPrm"], 16) == CAP_DAC_OVERRIDE
    assert found["NoNewPrivs"] == "1"


def test_root_writes_the_journal_of_another_user_as_that_user(start: Start, folder: Path) -> None:
    """In the folder of another user, the journal works at once, and its files are that user's, so
    that commands of root, which open it as that user, can write it too.
    """
    state = folder / "state"
    state.mkdir()
    os.chown(state, NOBODY, NOBODY)
    exporter = start("--journal.path", str(state))
    wait_for_event(exporter)
    assert exporter.scrape().value("journal_up") == 1
    assert "journal cannot be written" not in exporter.log
    assert {each.stat().st_uid for each in state.iterdir()} == {NOBODY}
    become_the_owner = CAP_SETGID | CAP_SETUID
    file_access = CAP_DAC_OVERRIDE | CAP_DAC_READ_SEARCH
    assert int(status(exporter)["CapEff"], 16) == file_access | become_the_owner


def test_root_becomes_the_user_that_is_named(start: Start, folder: Path) -> None:
    """With a user named, process and journal are that user's, and nothing of root is left."""
    state = folder / "state"
    flags = ("--journal.path", str(state), "--process.user", "nobody")
    exporter = start(*flags)
    exporter.wait_for_line('msg=listening .*root="given up for nobody"')
    wait_for_event(exporter)
    found = status(exporter)
    assert exporter.scrape().value("journal_up") == 1
    assert exporter.scrape().series("process_open_fds"), "it can still read /proc/self"
    # The real, effective, saved and file system's id.
    assert found["Uid"].split() == found["Gid"].split() == [str(NOBODY)] * 4
    assert found["Groups"] == ""
    assert int(found["CapEff"], 16) == 0
    assert int(found["CapPrm"], 16) == 0
    assert {each.stat().st_uid for each in (state, *state.iterdir())} == {NOBODY}


def test_a_journal_of_root_is_handed_over(start: Start, folder: Path) -> None:
    """A journal that was begun as root continues under the user that is named. Its folder is handed
    over too if it has the default name, which packages and units give it.
    """
    state = folder / "azure-scheduled-events-exporter"
    exporter = start("--journal.path", str(state), log="first")
    wait_for_event(exporter)
    assert exporter.terminate() == 0
    exporter = start("--journal.path", str(state), "--process.user", str(NOBODY))
    eventually(lambda: exporter.scrape().value("up"), "IMDS is asked")
    assert exporter.scrape().value("journal_up") == 1
    assert exporter.scrape().total("transitions_total", transition="detected") == 1
    assert state.stat().st_uid == NOBODY


def test_a_disk_that_hangs_holds_up_no_change_of_the_user(start: Start, folder: Path) -> None:
    """The exporter polls as the user, while the journal's folder does not answer, and SIGTERM ends
    it.
    """
    state = folder / "state"
    hanging = hanging_disk(folder / "slow_disk.so", state)
    flags = ("--journal.path", str(state), "--process.user", "nobody")
    exporter = start(*flags, **hanging)
    exporter.wait_for_line('msg=listening .*root="given up for nobody"')
    eventually(lambda: exporter.scrape().value("up"), "IMDS is asked")
    assert exporter.terminate() == 0


def test_files_of_others_stay_theirs(start: Start, folder: Path) -> None:
    """Of a journal ``events.db``, only its own files change their owner: no other file in the
    folder, and no target of a symbolic or hard link that is named as one of its files.
    """
    state = folder / "state"
    state.mkdir()
    for name in ("events.db", "events.db-wal", "journal-of-another.txt", "linked"):
        (state / name).touch()
    # Two names as the journal's files have them, and behind both the file of root "linked".
    (state / "events.db-link").symlink_to(state / "linked")
    os.link(state / "linked", state / "events.db-hard")
    exporter = start("--journal.path", str(state / "events.db"), "--process.user", str(NOBODY))
    exporter.wait_for_line("msg=listening")
    owners = {each.name: each.stat().st_uid for each in state.iterdir()}
    assert owners["events.db"] == owners["events.db-wal"] == NOBODY
    assert {owners[name] for name in ("journal-of-another.txt", "linked", "events.db-hard")} == {0}


def test_a_low_port_is_the_one_power_that_is_kept(start: Start) -> None:
    """As the user that is named, the exporter listens on a port below 1024, and keeps only the
    capability for that.
    """
    flags = (
        "--web.listen-address",
        "127.0.0.9:619",
        "--process.user",
        "nobody",
        "--journal.path",
        "memory",
    )
    exporter = start(*flags)
    exporter.wait_for_line("msg=listening")
    assert int(status(exporter)["CapEff"], 16) == CAP_NET_BIND_SERVICE


def run_as(site: Path, user: str, become: str = "") -> subprocess.CompletedProcess[str]:
    """Run ``run --process.user USER`` to its end, which comes at once, because it is refused.

    ``become`` is a statement of Python that makes the process another user before.
    """
    imports = (
        "import os, sys",
        "from azure_scheduled_events_exporter.commands import cli",
        # Imported as root: after ``become``, the process may not be able to read the program.
        "from azure_scheduled_events_exporter.service import daemon",
    )
    parts = (*imports, become, "sys.exit(cli.main())")
    program = "; ".join(part for part in parts if part)
    flags = (
        "--imds.endpoint",
        "http://127.0.0.1:1",
        "--journal.path",
        "memory",
        "--process.user",
        user,
    )
    return subprocess.run(
        [python(), "-c", program, "run", *flags],
        env=environment(PYTHONPATH=str(site)),
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_unknown_user_is_refused(site: Path) -> None:
    """A user that does not exist is reported in one line."""
    assert_one_line(
        run_as(site, "nosuchuser"),
        2,
        "process.user: there is no user 'nosuchuser': name an account, or leave it out",
    )


def test_only_root_becomes_somebody_else(site: Path) -> None:
    """Without root, ``--process.user`` is an error; the exporter does not run as another user than
    requested.
    """
    done = run_as(site, "daemon", f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})")
    assert_one_line(
        done, 2, "process.user: only root can become 'daemon': start it as root, or as that user"
    )
