"""The notifications that the exporter sends to systemd or a compatible service manager."""

import socket
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.simulator import Simulator
from support.programs import Exporter, eventually, fetch
from support.quiet import QUIET

WATCHDOG = 2.0
"""Seconds after which systemd would restart the exporter, which pings four times in that time."""
PINGS_OVER_WATCHDOG = 6
"""Pings that together take longer than the watchdog waits."""
STARTING = (
    "IMDS has not answered yet (the first answer may take two minutes), it is unknown whether there"
    " are events"
)
Start = Callable[..., Exporter]


class Manager:
    """The socket of a service manager: what the exporter tells it, line by line."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.setblocking(False)  # noqa: FBT003 - its name says it
        self.lines: list[str] = []
        self.environment = {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": str(int(WATCHDOG * 1e6))}

    def close(self) -> None:
        """Listen no more."""
        self._socket.close()

    def heard(self, beginning: str) -> int:
        """Return how many of the lines that have come until now begin so."""
        with suppress(BlockingIOError):
            while True:
                self.lines += self._socket.recv(65536).decode().split("\n")
        return sum(line.startswith(beginning) for line in self.lines)


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    """A service manager that a test reads."""
    with closing(Manager(tmp_path / "notify")) as listening:
        yield listening


def test_ready_when_the_port_answers(
    manager: Manager, tmp_path: Path, start_exporter: Start
) -> None:
    """The exporter tells systemd that it is ready as soon as /metrics answers, also while IMDS
    takes its two minutes for the first answer.
    """
    with Simulator(QUIET, first_answer_delay=120) as simulator:
        flags = ("--journal.path", str(tmp_path / "journal.sqlite"))
        exporter = start_exporter(simulator.url, *flags, **manager.environment)
        eventually(lambda: manager.heard("READY=1"), "READY=1")
        assert fetch(f"{exporter.url}/metrics").status == 200
    assert manager.lines[:2] == ["READY=1", f"STATUS={STARTING}"]


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        # The question is still open, so the status is that of the last answer.
        ("timeout", "IMDS answers, no events"),
        ("throttle", "IMDS gives no valid answer since 2"),  # the first digit of the year
    ],
)
def test_failing_imds_is_no_reason_to_restart(
    fault: str, status: str, manager: Manager, start_exporter: Start
) -> None:
    """The watchdog is fed while IMDS keeps a question open for a minute, and while it throttles."""
    with Simulator(QUIET) as simulator:
        start_exporter(simulator.url, "--imds.timeout", "1m", **manager.environment)
        eventually(
            lambda: manager.heard("STATUS=IMDS answers, no events"), "the status of a quiet day"
        )
        simulator.inject(fault)
        asked = len(simulator.requests)
        eventually(lambda: len(simulator.requests) > asked, "a question that fails")
        fed = manager.heard("WATCHDOG=1")
        eventually(
            lambda: manager.heard("WATCHDOG=1") > fed + PINGS_OVER_WATCHDOG,
            "pings for longer than the watchdog waits",
        )
        eventually(lambda: manager.heard(f"STATUS={status}"), "the status with this fault")


def test_the_end_of_the_exporter_is_notified(manager: Manager, start_exporter: Start) -> None:
    """The manager hears that the exporter is ending, and nothing after that."""
    with Simulator(QUIET) as simulator:
        exporter = start_exporter(simulator.url, **manager.environment)
        eventually(lambda: manager.heard("READY=1"), "READY=1")
        assert exporter.terminate() == 0
    assert manager.heard("STOPPING=1") == 1
    assert manager.lines[-2:] == ["STOPPING=1", "STATUS=ending"]
