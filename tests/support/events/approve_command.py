"""The command ``approve`` with and without a terminal, events that it can approve, and its requests
in the journal.
"""

import os
import pty
import select
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil

from azure_scheduled_events_exporter.journal.access import read_only
from azure_scheduled_events_exporter.journal.disk.location import file_path
from azure_scheduled_events_exporter.simulator import (
    PlannedEvent,
    Scenario,
    Simulator,
    VirtualMachine,
    What,
)
from support.programs import COMMAND, PATIENCE, Exporter, environment, eventually

VMS = tuple(VirtualMachine(f"vmss_{number}", scale_set="vmss") for number in range(3))
# What the command says before the events that it would approve, by what they do.
BEGINS_NOW_FOR = "Approving lets this begin now, for every VM in Resources: "
DELETES_NOW = "Approving deletes or evicts now, and this cannot be undone: "
PROGRAM = "azure-scheduled-events-exporter"


def warning_of_no_exporter(state: Path) -> str:
    """Return the line by which the command says that no exporter sends its request."""
    return (
        f"approve: no exporter uses the journal in {state}, so this command sends the request"
        " itself, and writes it to that journal. If an exporter runs here with another journal,"
        " name it: --journal.path\n"
    )


def group(approval_delay: float = 3600.0) -> Scenario:
    """Return a scenario with a Freeze of the first two VMs, a Reboot of the first and a Redeploy of
    the third.
    """
    events = [
        PlannedEvent(
            "Freeze", ("vmss_0", "vmss_1"), announced_at=0.0, approval_delay=approval_delay
        ),
        PlannedEvent("Reboot", ("vmss_0",), announced_at=0.0, approval_delay=approval_delay),
        PlannedEvent("Redeploy", ("vmss_2",), announced_at=0.0, approval_delay=approval_delay),
    ]
    return Scenario("group", "Three events.", VMS, tuple(events))


def event_ids(simulator: Simulator) -> dict[str, str]:
    """Return the EventIds by type."""
    happened = eventually(
        lambda: [step for step in simulator.record if step.what is What.ANNOUNCED],
        "the announcements",
    )
    return {happening.event_type: happening.event_id for happening in happened}


def approved(simulator: Simulator) -> list[tuple[str, str]]:
    """Return the type of each event that was approved, and the VM that did it."""
    return [(step.event_type, step.vm) for step in simulator.record if step.what is What.APPROVED]


def command_line(url: str, state: Path, *arguments: str) -> list[str]:
    """Return the command with the address of IMDS and the folder of the journal."""
    return [COMMAND, "approve", "--imds.endpoint", url, "--journal.path", str(state), *arguments]


def begin(url: str, state: Path, *event_ids: str) -> subprocess.Popen[str]:
    """Start the command, and do not wait for its end."""
    return subprocess.Popen(
        command_line(url, state, *event_ids, "--yes"),
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )


def approve(url: str, state: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command without a terminal, as the user ada with sudo."""
    return subprocess.run(
        command_line(url, state, *arguments),
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=environment(LOGNAME="root", SUDO_USER="ada"),
        timeout=2 * PATIENCE,
    )


def wait_a_second(simulator: Simulator) -> None:
    """Wait for a second, after which IMDS no longer counts the requests so far: it would throttle
    two commands together.
    """
    asked = simulator.now()
    eventually(lambda: simulator.now() > asked + 1, "a second later")


def start(start_exporter: Callable[..., Exporter], url: str, state: Path, *flags: str) -> Exporter:
    """Return an exporter that has seen the three events of ``group``."""
    exporter = start_exporter(url, "--poll.interval", "250ms", "--journal.path", str(state), *flags)
    exporter.shows("the events", lambda scrape: scrape.total("event_info") == 3)
    return exporter


def on_terminal(url: str, state: Path, answer: bytes) -> tuple[int, bytes]:
    """Run ``approve --all-mine`` on a terminal, type ``answer``; return its status and output."""
    master, terminal = pty.openpty()
    process = subprocess.Popen(
        command_line(url, state, "--all-mine"),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=environment(TERM="dumb"),
    )
    os.close(terminal)
    said = b""
    try:
        while b"[y/N] " not in said:
            assert select.select([master], [], [], PATIENCE)[0], said
            said += os.read(master, 4096)
        os.write(master, answer)
        return process.wait(PATIENCE), said + _rest(master)
    finally:
        process.kill()
        process.wait(PATIENCE)
        os.close(master)


def _rest(master: int) -> bytes:
    """What a terminal still holds once its program has ended."""
    try:
        return os.read(master, 65536)
    except OSError:
        return b""


def queued(state: Path) -> list[str]:
    """Return the EventIds of the approval requests that have no result."""
    with closing(read_only(state)) as store:
        return [request.life.event_id for request in store.requests.open()]


@contextmanager
def stopped(exporter: Exporter, state: Path) -> Iterator[None]:
    """Stop the exporter's process during the block, while it is not writing to its journal.

    A poll may have begun: it goes on with a document from before the block. For new documents there
    is ``HeldPolls``.
    """
    eventually(lambda: _stops_between_writes(exporter, state), "an exporter that is not writing")
    try:
        yield
    finally:
        exporter.process.send_signal(signal.SIGCONT)


def _stops_between_writes(exporter: Exporter, state: Path) -> bool:
    """Stop the exporter after a poll; return whether it stands still outside a write.

    If not, it goes on.
    """
    polls = exporter.scrape().value("polls_total", outcome="ok") or 0
    exporter.shows(
        "the end of a poll", lambda scrape: (scrape.value("polls_total", outcome="ok") or 0) > polls
    )
    exporter.process.send_signal(signal.SIGSTOP)
    stopping = psutil.Process(exporter.process.pid)
    eventually(lambda: stopping.status() == psutil.STATUS_STOPPED, "the exporter has stopped")
    try:
        with closing(sqlite3.connect(file_path(state), timeout=0)) as journal:
            journal.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        exporter.process.send_signal(signal.SIGCONT)
        return False
    return True


def assert_nothing_is_sent(simulator: Simulator, exporter: Exporter) -> None:
    """Let the exporter poll a while, and see that no approval came to IMDS."""
    polls = exporter.scrape().total("polls_total", outcome="ok")
    exporter.shows("polls", lambda now: now.total("polls_total", outcome="ok") > polls + 4)
    assert [seen for seen in simulator.requests if seen.method == "POST"] == []
