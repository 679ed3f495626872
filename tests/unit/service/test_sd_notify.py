"""Messages to a service manager, over real sockets."""

import asyncio
import contextlib
import os
import socket
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.service.sd_notify import ServiceManager

QUICK = "400000"  # microseconds of a watchdog that is fed every 0.1 s


@pytest.fixture(params=["a path", "an abstract name"])
def listening(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[str, socket.socket]]:
    """A service manager's socket, with the way in which $NOTIFY_SOCKET names it."""
    path = str(tmp_path / "notify") if request.param == "a path" else f"@ase-{uuid.uuid4()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path.replace("@", "\0"))
        manager.settimeout(30)
        yield path, manager


ANY_LINES: Callable[[list[str]], bool] = bool
"""Takes as ``enough`` the lines of the first message, however many they are."""


def lines_to(
    manager: socket.socket,
    environment: dict[str, str],
    enough: Callable[[list[str]], bool],
    overdue_seconds: Callable[[], float] = lambda: 0.0,
    words: Callable[[], str] = lambda: "fine",
) -> list[str]:
    """Notify ``manager`` until it has got ``enough`` lines; return them.

    In each turn, ``overdue_seconds`` returns how late work is, and ``words`` the status.
    """

    async def notify() -> list[str]:
        loop = asyncio.get_running_loop()
        manager.settimeout(0)
        notifications = loop.create_task(
            ServiceManager(environment).keep_notifying(overdue_seconds, words)
        )
        lines: list[str] = []
        async with asyncio.timeout(30):
            while not enough(lines):
                lines += (await loop.sock_recv(manager, 65536)).decode().split("\n")
        notifications.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await notifications
        return lines

    return asyncio.run(notify())


def test_ready_comes_first_and_once(listening: tuple[str, socket.socket]) -> None:
    """The manager hears once that the daemon is ready, with the line for people."""
    path, manager = listening
    environment = {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": QUICK}
    lines = lines_to(manager, environment, lambda lines: lines.count("WATCHDOG=1") > 3)
    ready, status, *pings = lines
    assert (ready, status) == ("READY=1", "STATUS=fine")
    assert set(pings) == {"WATCHDOG=1"}


@pytest.mark.parametrize("listening", ["a path"], indirect=True)
def test_no_watchdog_no_pings(listening: tuple[str, socket.socket]) -> None:
    """After READY=1, a manager without a watchdog hears only of changes of the status."""
    path, manager = listening
    says = iter(["one", "one", "two"])
    lines = lines_to(
        manager,
        {"NOTIFY_SOCKET": path},
        lambda lines: "STATUS=two" in lines,
        words=lambda: next(says),
    )
    assert lines == ["READY=1", "STATUS=one", "STATUS=two"]


def test_work_that_is_late_gets_no_pings(listening: tuple[str, socket.socket]) -> None:
    """The watchdog is fed while work is late by less than half its time (0.2 s), and not while it
    is later.
    """
    path, manager = listening
    overdue = [0.0, 0.19, 0.21, 5.0, 5.0, 0.0]  # seconds, in each turn
    late = iter(overdue)
    turns = iter(range(len(overdue)))
    lines = lines_to(
        manager,
        {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": QUICK},
        enough=lambda lines: "STATUS=5" in lines,
        overdue_seconds=lambda: next(late),
        words=lambda: str(next(turns)),
    )
    # Each turn has another status, so the lines up to the next status are those of one turn.
    _, *by_turn = "\n".join(lines).split("STATUS=")
    fed = [turn.partition("\n")[0] for turn in by_turn if "WATCHDOG=1" in turn]
    assert fed == ["0", "1", "5"], "the numbers of the turns in which work was not too late"


def test_a_manager_that_cannot_be_reached_at_first(tmp_path: Path) -> None:
    """READY=1 is sent again until the manager has taken it: its queue may be full."""
    path = str(tmp_path / "notify")
    turns = iter(range(100))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:

        def words() -> str:
            if next(turns) == 2:  # two attempts to send READY=1 have failed
                manager.bind(path)
            return "fine"

        lines = lines_to(
            manager, {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": QUICK}, ANY_LINES, words=words
        )
    assert lines == ["READY=1", "STATUS=fine", "WATCHDOG=1"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Reboot of vm\nMAINPID=1", "STATUS=Reboot of vm MAINPID=1"),
        ("x\u202ey\udc80z", "STATUS=x y z"),
        ("x" * 1000, f"STATUS={'x' * 297}..."),
    ],
)
def test_status_is_one_line_of_text(
    text: str, line: str, listening: tuple[str, socket.socket]
) -> None:
    """A VM's name cannot inject another message."""
    path, manager = listening
    assert lines_to(manager, {"NOTIFY_SOCKET": path}, ANY_LINES, words=lambda: text) == [
        "READY=1",
        line,
    ]


def test_status_that_fails_is_told(listening: tuple[str, socket.socket]) -> None:
    """An error while formatting the status does not prevent READY=1."""
    path, manager = listening
    lines = lines_to(manager, {"NOTIFY_SOCKET": path}, ANY_LINES, words=lambda: str(1 // 0))
    ready, status = lines
    assert ready == "READY=1"
    assert "ZeroDivisionError" in status


@pytest.mark.parametrize(
    "name", ["", "vsock:2:1234", "relative/path", "/nobody/listens/here", f"/{'x' * 200}"]
)
def test_nobody_there(name: str) -> None:
    """Without a manager, or with one that cannot be reached, ``notify`` raises nothing, and returns
    that the message was not sent.
    """
    environment = {"NOTIFY_SOCKET": name} if name else {}
    is_sent = ServiceManager(environment).notify("READY=1")
    assert not is_sent


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "60000000"}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "\u0663"}, None),
        ({"WATCHDOG_USEC": ""}, None),
    ],
)
def test_watchdog(environment: dict[str, str], seconds: float | None) -> None:
    """The watchdog is used only if it is for this process, has a valid time, and comes with a
    socket to notify.
    """
    assert ServiceManager({"NOTIFY_SOCKET": "@x", **environment}).watchdog_seconds == seconds
    without_a_socket = ServiceManager(environment)
    assert without_a_socket.watchdog_seconds is None
