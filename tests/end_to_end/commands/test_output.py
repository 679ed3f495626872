"""What a command does when its output cannot be written: the reader has ended, the disk is full, or
it is closed.
"""

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.simulator import Simulator
from deploy.stack.free_port import free_port
from support.commands import NAME, place_event
from support.events.follower import event
from support.programs import COMMAND, PATIENCE, Exporter, Scrape, environment, eventually, fetch
from support.servers.http_peer import Peer

FULL = f"{NAME}: standard output cannot be written: No space left on device\n"
SIGPIPE_STATUS = 128 + signal.SIGPIPE
DETECTED = 60
"""Events of one document: their lines of the log are longer than the pipe of 4 KiB holds."""


def buffering() -> dict[str, str]:
    """An environment in which Python buffers its output, as it does unless told otherwise."""
    return {
        name: text
        for name, text in environment(LOGNAME="ada").items()
        if name != "PYTHONUNBUFFERED"
    }


@contextmanager
def unread() -> Iterator[int]:
    """The descriptor of a pipe whose reader has ended."""
    read, write = os.pipe()
    os.close(read)
    yield write
    os.close(write)


@pytest.fixture
def arguments(
    simulator: Simulator, tmp_path: Path, start_exporter: Callable[..., Exporter]
) -> Iterator[dict[str, list[str]]]:
    """The arguments with which each command succeeds and prints something."""
    place_event(simulator)
    state = str(tmp_path / "state")
    exporter = start_exporter(simulator.url, "--journal.path", state)
    exporter.shows("the event", lambda scrape: scrape.total("event_info") == 1)
    imds = ["--imds.endpoint", simulator.url, "--journal.path", state]
    with Peer() as alertmanager:
        yield {
            "events": ["events", *imds],
            "history": ["history", "--journal.path", state],
            "check-config": ["check-config"],
            "doctor": ["doctor", *imds, "--exporter", exporter.url],
            "drill": ["drill", "--alertmanager", alertmanager.url],
            "approve": ["approve", "--all-mine", *imds],
            "assets": ["assets", "list"],
            "--help": ["--help"],
        }


def run(arguments: list[str], output: int) -> subprocess.CompletedProcess[str]:
    """Run a command to its end with this standard output."""
    return subprocess.run(
        [COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.PIPE,
        env=buffering(),
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )


def is_ready(port: int) -> bool:
    """Return whether the exporter on ``port`` answers and has polled."""
    try:
        return fetch(f"http://127.0.0.1:{port}/-/ready").status == 200
    except OSError:
        return False


def test_nobody_reads(arguments: dict[str, list[str]], subtests: pytest.Subtests) -> None:
    """A command whose reader has ended ends without a message and with the status that a shell
    shows for SIGPIPE.
    """
    for name, given in arguments.items():
        with subtests.test(name), unread() as output:
            done = run(given, output)
            assert (done.returncode, done.stderr) == (SIGPIPE_STATUS, "")


def test_no_space(arguments: dict[str, list[str]]) -> None:
    """Output that does not fit on the disk, or is closed, is an error of one line."""
    with Path("/dev/full").open("w") as output:
        done = run(arguments["history"], output.fileno())
    assert (done.returncode, done.stderr) == (1, FULL)
    # `>&-` closes the standard output of the command.
    shell = ["sh", "-c", 'exec "$@" >&- <&-', "sh", COMMAND, *arguments["events"]]
    done = subprocess.run(
        shell, env=buffering(), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (
        1,
        f"{NAME}: standard output cannot be written: Bad file descriptor\n",
    )


def test_log_that_nobody_reads(simulator: Simulator, tmp_path: Path) -> None:
    """The exporter serves, and ends with status 0, though its log is closed."""
    port = free_port()
    flags = ("--web.listen-address", f"127.0.0.1:{port}", "--journal.path", str(tmp_path))
    command = (COMMAND, "run", "--imds.endpoint", simulator.url, *flags)
    shell = ["bash", "-c", 'exec "$@" >&- 2>&- <&-', "bash", *command]
    with subprocess.Popen(shell, env=buffering()) as running:
        try:
            eventually(lambda: is_ready(port), "the exporter is ready")
        finally:
            running.terminate()
        assert running.wait(30) == 0


def test_log_that_is_read_too_late(simulator: Simulator) -> None:
    """While nobody reads its log, the exporter polls and serves; a later reader learns how many
    lines are missing.
    """
    port = free_port()
    flags = (
        "--web.listen-address",
        f"127.0.0.1:{port}",
        "--journal.path",
        "memory",
        "--poll.interval",
        "250ms",
    )
    command = [COMMAND, "run", "--imds.endpoint", simulator.url, *flags]

    def detected() -> float:
        page = fetch(f"http://127.0.0.1:{port}/metrics").body.decode()
        return Scrape(page).total("transitions_total", transition="detected")

    with subprocess.Popen(
        command, stderr=subprocess.PIPE, env=buffering(), pipesize=4096
    ) as running:
        assert running.stderr
        try:
            eventually(lambda: is_ready(port), "the exporter is ready")
            simulator.set_document([event(f"E{number}") for number in range(DETECTED)])
            eventually(
                lambda: detected() == DETECTED,
                "it shows the events, each of which is a line of its log",
            )
            # Read what the pipe holds now, without waiting for more; the rest at its end below.
            os.set_blocking(running.stderr.fileno(), False)
            log = running.stderr.read()
            os.set_blocking(running.stderr.fileno(), True)
        finally:
            running.terminate()
        log += running.stderr.read()
        assert running.wait(30) == 0
    lines = log.decode().splitlines()
    lost = [
        int(number)
        for line in lines
        for number in re.findall(r'lines of this log were lost.*" lines=(\d+)$', line)
    ]
    # More, if a line that is not about an event was lost, too.
    assert sum(lost) + sum("event detected" in line for line in lines) >= DETECTED
    assert all(re.match(r"ts=\S+Z level=[a-z]+ msg=", line) for line in lines), "each line is whole"
