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
CLOSED = f"{NAME}: standard output cannot be written: Bad file descriptor\n"
SIGPIPE_STATUS = 128 + signal.SIGPIPE
PIPE_BYTES = 4096
ANNOUNCED = 60
"""Events of one document: their lines of the log are longer than the pipe holds."""


def buffering() -> dict[str, str]:
    """Return an environment in which Python buffers its output, as it does by default.

    ``approve`` takes the operator's name from LOGNAME.
    """
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
    for name, command_line in arguments.items():
        with subtests.test(name), unread() as output:
            done = run(command_line, output)
            assert (done.returncode, done.stderr) == (SIGPIPE_STATUS, "")


def test_no_space(arguments: dict[str, list[str]]) -> None:
    """Output that does not fit on the disk, or is closed, is an error of one line."""
    with Path("/dev/full").open("w") as full_disk:
        done = run(arguments["history"], full_disk.fileno())
    assert (done.returncode, done.stderr) == (1, FULL)
    # `>&-` closes the standard output of the command, and `<&-` its standard input.
    shell = ["sh", "-c", 'exec "$@" >&- <&-', "sh", COMMAND, *arguments["events"]]
    done = subprocess.run(
        shell, env=buffering(), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (1, CLOSED)


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


def detected(port: int) -> float:
    """Return how many events the exporter on ``port`` has detected."""
    page = fetch(f"http://127.0.0.1:{port}/metrics").body.decode()
    return Scrape(page).total("transitions_total", transition="detected")


def log_that_is_read_too_late(simulator: Simulator) -> list[str]:
    """Announce the events to an exporter while nobody reads its log, and then read the log until
    the exporter has ended; return its lines.
    """
    port = free_port()
    address = f"127.0.0.1:{port}"
    flags = ("--journal.path", "memory", "--poll.interval", "250ms")
    imds = ("--imds.endpoint", simulator.url)
    command = [COMMAND, "run", *imds, "--web.listen-address", address, *flags]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, env=buffering(), pipesize=PIPE_BYTES
    ) as running:
        assert running.stderr
        try:
            eventually(lambda: is_ready(port), "the exporter is ready")
            simulator.set_document([event(f"E{number}") for number in range(ANNOUNCED)])
            eventually(lambda: detected(port) == ANNOUNCED, "it polls, and serves its metrics")
            # Read what the pipe holds now, without waiting for more; the rest at its end below.
            os.set_blocking(running.stderr.fileno(), False)
            log = running.stderr.read()
            os.set_blocking(running.stderr.fileno(), True)
        finally:
            running.terminate()
        log += running.stderr.read()
        assert running.wait(PATIENCE) == 0
    return log.decode().splitlines()


def test_log_that_is_read_too_late(simulator: Simulator) -> None:
    """While nobody reads its log, the exporter polls and serves; a later reader learns how many
    lines are missing.
    """
    lines = log_that_is_read_too_late(simulator)
    about_events = sum("event detected" in line for line in lines)
    missing = sum(
        int(number)
        for number in re.findall(
            r'lines of this log were lost.*" lines=(\d+)$', "\n".join(lines), re.MULTILINE
        )
    )
    assert missing > 0
    # More, if a line that is not about an event was lost, too.
    assert about_events + missing >= ANNOUNCED, "each event has a line, or is counted as missing"
    assert all(re.match(r"ts=\S+Z level=[a-z]+ msg=", line) for line in lines), "each line is whole"
