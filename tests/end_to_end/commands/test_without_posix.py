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
Start = Callable[..., Program]


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """A simulator in which nothing happens by itself."""
    with Simulator(QUIET) as running:
        yield running


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts a command, ``start("run", …)``; the program ends with the
    test.
    """
    with ExitStack() as stack:
        numbers = itertools.count()

        def begin(*arguments: str) -> Program:
            output = tmp_path / f"{next(numbers)}.log"
            return stack.enter_context(
                Program([*WINDOWS, *arguments], output, PROGRAMDATA=str(tmp_path))
            )

        yield begin


def run_to_the_end(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with its files in ``folder``."""
    return subprocess.run(
        [*WINDOWS, *arguments],
        env=environment(PROGRAMDATA=str(folder)),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def url(exporter: Program) -> str:
    """Return the address at which the exporter listens."""
    port = exporter.wait_for_line(r"msg=listening.* port=(\d+)")[1]
    return f"http://127.0.0.1:{port}"


def scrape(exporter: Program) -> Scrape:
    """Return the metrics of the exporter now."""
    return Scrape(fetch(f"{url(exporter)}/metrics").body.decode())


def press_ctrl_break(program: Program) -> int:
    """Press Ctrl-Break and return the exit status."""
    program.process.send_signal(CTRL_BREAK)
    return program.process.wait(PATIENCE)


def boots(folder: Path) -> set[str]:
    """Return the names of boots in the journal below ``folder``."""
    with closing(sqlite3.connect(folder / NAME / "journal.sqlite")) as journal:
        return set(re.findall(r"booted-\d+", "\n".join(journal.iterdump())))


def test_live_migration(simulator: Simulator, start: Start, tmp_path: Path) -> None:
    """A live migration is polled, served, journalled and remembered over a restart."""
    address = ("--web.listen-address", "127.0.0.1:0")
    flags = ("--imds.endpoint", simulator.url, *address, "--poll.interval", "0.2s")
    first = start("run", *flags)
    eventually(lambda: scrape(first).value("up") == 1, "a poll")
    simulator.play(MIGRATION)
    freeze = {"event_type": "Freeze", "scope": "self"}
    eventually(lambda: scrape(first).value("pending", **freeze) == 1, "the announcement")
    assert "Live Migration" in fetch(f"{url(first)}/").body.decode()
    assert json.loads(fetch(f"{url(first)}/api/v1/events").body)["vm_name"] == VM
    assert press_ctrl_break(first) == 0, first.log

    second = start("run", *flags)
    eventually(lambda: scrape(second).value("started", **freeze) == 1, "the start")
    simulator.set_document([])
    eventually(lambda: scrape(second).transitions(scope="self").get("completed"), "its end")
    now = scrape(second)
    # The counters continue over the restart.
    assert now.transitions(scope="self") == {"detected": 1, "started": 1, "completed": 1}
    assert now.value("up") == 1
    assert now.value("journal_up") == 1
    [(labels, _)] = now.series("instance_info")
    assert labels["vm_name"] == VM
    assert press_ctrl_break(second) == 0, second.log
    assert "Traceback" not in second.log

    history = run_to_the_end(tmp_path, "history", "--json")
    assert history.returncode == 0, history.stderr
    [life] = json.loads(history.stdout)
    assert life["event_type"] == "Freeze"
    assert life["outcome"] == "completed"
    # The journal names a boot by its time, rounded to half minutes: both starts have the same name,
    # unless the boot was on the border of two half minutes.
    assert 1 <= len(boots(tmp_path)) <= 2


def test_commands(simulator: Simulator, tmp_path: Path) -> None:
    """``check-config``, ``events`` and ``assets export`` work, and ``run`` names an address in
    use.
    """
    checked = run_to_the_end(tmp_path, "check-config", "--poll.interval", "5s")
    assert checked.returncode == 0, checked.stderr
    assert "poll.interval: 5s   [--poll.interval]" in checked.stdout
    events = run_to_the_end(tmp_path, "events", "--imds.endpoint", simulator.url, "--json")
    assert events.returncode == 0, events.stderr
    assert json.loads(events.stdout)["up"]
    exported = run_to_the_end(tmp_path, "assets", "export", str(tmp_path / "assets"))
    assert exported.returncode == 0, exported.stderr
    assert (tmp_path / "assets" / "alerts" / "values.yaml").is_file()
    refused = run_to_the_end(
        tmp_path, "run", "--web.listen-address", simulator.url.removeprefix("http://")
    )
    assert refused.returncode == 1
    assert "Address already in use" in refused.stderr
