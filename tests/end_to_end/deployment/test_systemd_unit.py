"""The systemd unit: how good its sandbox is, and what works in it, under a real systemd where there
may be one.
"""

import re
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.config.settings import SETTINGS
from azure_scheduled_events_exporter.environment_file import load
from support.hosts.systemd_box import PROGRAM, STATE, UNIT, Box, is_possible
from support.paths import ROOT
from support.programs import COMMAND, eventually

EXAMPLE = UNIT.with_name("environment")
DROP_INS_OF_THE_PAGE = re.findall(
    r"^```ini\n(.*?)^```$", (ROOT / "docs/systemd.md").read_text(), re.DOTALL | re.MULTILINE
)
MOST_EXPOSURE = 12  # tenths, as systemd-analyze counts them; less is safer


def test_sandbox_as_good_as_promised() -> None:
    """By systemd's own rating the unit's exposure is at most 1.2."""
    done = subprocess.run(
        [
            "systemd-analyze",
            "security",
            "--offline=true",
            f"--threshold={MOST_EXPOSURE}",
            "--no-pager",
            str(UNIT),
        ],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_user_namespace() -> None:
    """The unit needs no user namespace: security baselines forbid them, and systemd then ends a
    unit with status 217/USER at each start. The page explains that status.
    """
    assert not re.search("(?m)^PrivateUsers=", UNIT.read_text())
    assert "217/USER" in (ROOT / "docs/systemd.md").read_text()


@pytest.mark.parametrize(
    "drop_in", ["", *DROP_INS_OF_THE_PAGE], ids=range(1 + len(DROP_INS_OF_THE_PAGE))
)
def test_unit_has_no_mistake(drop_in: str, tmp_path: Path) -> None:
    """The unit and the drop-ins of the page are accepted by systemd without a warning."""
    text = UNIT.read_text()
    assert f"ExecStart={PROGRAM} run\n" in text
    unit = tmp_path / UNIT.name
    # systemd warns of a program that is not there: the unit names the one of this checkout instead.
    installed = re.sub(
        r"(?m)^ExecStart=(/opt/\S+/)?azure\S+", f"ExecStart={COMMAND}", f"{text}\n{drop_in}"
    )
    unit.write_text(installed)
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_example_of_the_environment() -> None:
    """Every variable in the example is one that the exporter knows."""
    known = {setting.environment for setting in SETTINGS} | {"AZURE_SCHEDULED_EVENTS_CONFIG_FILE"}
    named = re.findall(r"^#?([A-Z_]+)=\S+$", EXAMPLE.read_text(), re.MULTILINE)
    settings = re.findall(r"^[^=\n]+=", EXAMPLE.read_text(), re.MULTILINE)
    assert len(named) == len(settings), "each line with a setting is one that was recognized"
    assert set(named) <= known


DROP_IN_OF_THE_BOX = """\
[Service]
SystemCallErrorNumber=kill
WatchdogSec=4s
RestartSec=100ms
StandardOutput=append:/run/exporter.log
StandardError=append:/run/exporter.log
"""
"""What differs from the shipped unit: a forbidden system call kills, and a hang ends soon."""
ENDPOINT = "127.0.0.1:9169"
"""Where the simulator listens in the box."""
# Each way to write a value that systemd.exec(5) has for EnvironmentFile=.
ODD_VARIABLES = r"""
; a comment
  ODD_SPACE =  one  two \t
ODD_QUOTES='three'"four" fi"ve" # six
ODD_LINES='a
# b
'
ODD_DOUBLE="\"\$\`\\\c\
d"
ODD_CONTINUED=e \
  f
ODD_ESCAPED=\"g\ \ h
ODD_EMPTY=
ODD_TWICE=first
ODD_TWICE=second\\
"""


@pytest.fixture(scope="module", params=["namespaces"] if is_possible() else [])
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    """A real systemd that has started the unit, on a simulator with an event; a forbidden system
    call kills.

    On a machine that refuses a process its own namespaces it has no parameter, so pytest skips each
    test that uses it.
    """
    settings = f"AZURE_SCHEDULED_EVENTS_IMDS_ENDPOINT=http://{ENDPOINT}\n{ODD_VARIABLES}"
    with Box(tmp_path_factory.mktemp("box"), DROP_IN_OF_THE_BOX, settings) as running:
        story = ["--scenario", "live-migration", "--speed", "10", "--web.listen-address", ENDPOINT]
        running.start(PROGRAM, "simulate", *story)
        running.run("systemctl", "start", UNIT.name)
        yield running


def test_in_the_sandbox(box: Box) -> None:
    """In its sandbox the exporter polls, journals as its own user, and knows the boot id."""
    eventually(lambda: "1 event: Freeze of this VM" in box.shown("StatusText"), "the event")
    folder = box.folder / STATE
    journal = folder / "journal.sqlite"
    root = 0
    assert journal.stat().st_uid == folder.stat().st_uid
    assert journal.stat().st_uid != root
    assert (folder.stat().st_mode & 0o777, journal.stat().st_mode & 0o777) == (0o700, 0o600)
    with closing(sqlite3.connect(f"{journal.as_uri()}?mode=ro", uri=True)) as connection:
        dump = "\n".join(connection.iterdump())
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert boot_id in dump, "the moments in the journal have it"
    assert box.shown("NRestarts") == "0", box.log


def test_environment_file_is_read_alike(box: Box) -> None:
    """A shell command reads every variable of the environment file as systemd does, however it is
    written.
    """
    file = box.folder / "etc/azure-scheduled-events-exporter/environment"
    listed = box.run("cat", f"/proc/{box.shown('MainPID')}/environ").split("\0")
    by_systemd = {name: value for name, _, value in (each.partition("=") for each in listed)}
    read = {name: value for name, (value, _line) in load(file).items()}
    odd = set(re.findall("ODD_[A-Z]+", ODD_VARIABLES))
    assert read.keys() == {*odd, "AZURE_SCHEDULED_EVENTS_IMDS_ENDPOINT"}
    assert read == {name: by_systemd[name] for name in read}


def test_addresses_that_are_let_in(box: Box) -> None:
    """A scraper with an address of a private network is answered, one with a public address is not.

    The box has both addresses, so that a request to one of them also comes from it.
    """
    answers = {
        address: box.status(f"http://{address}:10169/metrics")
        for address in ("10.1.2.3", "203.0.113.1")
    }
    assert answers["10.1.2.3"] == "200"
    assert "timed out" in answers["203.0.113.1"]


def test_restart_of_what_hangs(box: Box) -> None:
    """An exporter that hangs is restarted, and no known event is lost."""
    first = box.shown("MainPID")
    box.run("kill", "-STOP", first)
    eventually(lambda: box.shown("MainPID") not in {first, "0"}, "another process")
    eventually(lambda: "1 event: Freeze of this VM" in box.shown("StatusText"), "the event again")
    assert box.log.count("event detected") == 1


def test_mistake_in_the_settings(box: Box) -> None:
    """A setting that cannot be is named in the log at each start, and the service starts once it is
    corrected.
    """
    file = box.folder / "etc" / "azure-scheduled-events-exporter" / "environment"
    before = file.read_text()
    file.write_text("AZURE_SCHEDULED_EVENTS_POLL_INTERVAL=never\n")
    box.run("systemctl", "restart", UNIT.name, check=False)
    waits_after_status_2 = ("activating", "2")
    eventually(
        lambda: (box.shown("ActiveState"), box.shown("ExecMainStatus")) == waits_after_status_2,
        "the wait for the next start",
    )
    mistake = "AZURE_SCHEDULED_EVENTS_POLL_INTERVAL: 'never' is no duration"
    eventually(lambda: box.log.count(mistake) > 1, "a second start")
    file.write_text(before)
    eventually(lambda: box.shown("ActiveState") == "active", "the service, started again")
