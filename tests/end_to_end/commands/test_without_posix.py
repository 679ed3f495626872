"""The program on what Windows offers: its code runs with everything else taken away
(``without_posix.py``).
"""

import itertools
import json
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.simulator import Simulator, find
from support.paths import TESTS
from support.programs import PATIENCE, Program, Scrape, environment, eventually, fetch

WINDOWS = [sys.executable, str(TESTS / "support" / "hosts" / "without_posix.py")]
CTRL_BREAK = signal.SIGUSR1  # ``without_posix.py`` takes it for Windows' Ctrl-Break
VM = "vmss_0"
(SHIPPED,) = find("live-migration")
QUIET = replace(SHIPPED, name="quiet", events=())
# Announced at once, and Started 10 s later. It stays Started for minutes, in which the exporter has
# started again on the busiest machine.
MIGRATION = replace(SHIPPED, events=(replace(SHIPPED.events[0], announced_at=0.0, notice=10.0),))
NAME = "azure-scheduled-events-exporter"
Run = Callable[..., Program]


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """A simulator in which nothing happens by itself."""
    with Simulator(QUIET) as running:
        yield running


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Start the program, ``run("simulate", …)``; it ends with the test."""
    with ExitStack() as stack:
        numbers = itertools.count()

        def start(*arguments: str) -> Program:
            output = tmp_path / f"{next(numbers)}.log"
            return stack.enter_context(
                Program([*WINDOWS, *arguments], output, PROGRAMDATA=str(tmp_path))
            )

        yield start


def done(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [*WINDOWS, *arguments],
        env=environment(PROGRAMDATA=str(folder)),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def address(exporter: Program) -> str:
    """Return where it listens."""
    port = exporter.wait_for_line(r"msg=listening.* port=(\d+)")[1]
    return f"http://127.0.0.1:{port}"


def ended(program: Program) -> int:
    """Press Ctrl-Break and return the exit status."""
    program.process.send_signal(CTRL_BREAK)
    return program.process.wait(PATIENCE)


def test_live_migration(simulator: Simulator, run: Run, tmp_path: Path) -> None:
    """A live migration is polled, served, journalled and remembered over a restart."""
    flags = [
        "--imds.endpoint",
        simulator.url,
        "--web.listen-address",
        "127.0.0.1:0",
        "--poll.interval",
        "0.2s",
    ]
    exporter = run("run", *flags)
    url = address(exporter)

    def scrape() -> Scrape:
        return Scrape(fetch(f"{url}/metrics").body.decode())

    eventually(lambda: scrape().value("up") == 1, "a poll")
    simulator.play(MIGRATION)
    eventually(
        lambda: scrape().value("pending", event_type="Freeze", scope="self") == 1,
        "the announcement",
    )
    assert "Live Migration" in fetch(f"{url}/").body.decode()
    assert json.loads(fetch(f"{url}/api/v1/events").body)["vm_name"] == VM
    assert ended(exporter) == 0, exporter.log

    exporter = run("run", *flags)
    url = address(exporter)
    eventually(
        lambda: scrape().value("started", event_type="Freeze", scope="self") == 1, "the start"
    )
    simulator.set_document([])
    eventually(
        lambda: scrape().transitions(scope="self").items() >= {"completed": 1}.items(), "its end"
    )
    now = scrape()
    # The counters continue over the restart.
    expected = {
        "detected": 1,
        "approved": 0,
        "started": 1,
        "completed": 1,
        "lost": 0,
        "cancelled": 0,
    }
    for name, count in expected.items():
        assert now.total("transitions_total", scope="self", transition=name) == count, name
    assert now.value("up") == 1
    assert now.value("journal_up") == 1
    [(labels, _)] = now.series("instance_info")
    assert labels["vm_name"] == VM
    assert ended(exporter) == 0, exporter.log
    assert "Traceback" not in exporter.log

    history = done(tmp_path, "history", "--json")
    assert history.returncode == 0, history.stderr
    assert [(life["event_type"], life["outcome"]) for life in json.loads(history.stdout)] == [
        ("Freeze", "completed")
    ]
    with closing(sqlite3.connect(tmp_path / NAME / "journal.sqlite")) as journal:
        boots = set(re.findall(r"booted-\d+", "\n".join(journal.iterdump())))
    # The journal names a boot by its time, rounded to half minutes: both starts have the same name,
    # unless the boot was on the border of two half minutes.
    assert 1 <= len(boots) <= 2


def test_commands(simulator: Simulator, tmp_path: Path) -> None:
    """``check-config``, ``events`` and ``assets export`` work, and ``run`` names an address in
    use.
    """
    checked = done(tmp_path, "check-config", "--poll.interval", "5s")
    assert checked.returncode == 0, checked.stderr
    assert "poll.interval: 5s   [--poll.interval]" in checked.stdout
    events = done(tmp_path, "events", "--imds.endpoint", simulator.url, "--json")
    assert events.returncode == 0, events.stderr
    assert json.loads(events.stdout)["up"]
    exported = done(tmp_path, "assets", "export", str(tmp_path / "assets"))
    assert exported.returncode == 0, exported.stderr
    assert (tmp_path / "assets" / "alerts" / "values.yaml").is_file()
    refused = done(tmp_path, "run", "--web.listen-address", simulator.url.removeprefix("http://"))
    assert refused.returncode == 1
    assert "Address already in use" in refused.stderr
