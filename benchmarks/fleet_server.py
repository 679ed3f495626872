"""Serves the expositions of many exporters at ``/vm/NUMBER/metrics``, in one process.

``benchmarks.fleet`` starts it with the expositions of real exporters. What is the same on all VMs
is compressed once a second; names, ids and times of one VM and its event are written anew for each
scrape, as a second member of the gzip stream. ``POST /advance`` announces an event in a placement
group without one, starts the oldest announced event and ends the oldest started one, so that the
number of current events stays the same. Imports nothing but Python's library, so that the process
stays small.
"""

import argparse
import asyncio
import json
import math
import socket
import time
import uuid
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.fleet_exposition import Exposition, Moment, with_polls_of

TYPES = ("Freeze", "Reboot", "Redeploy", "Preempt", "Terminate")
NOTIFIED_AT_ONCE = ("Reboot", "Redeploy", "Preempt", "Terminate")  # a Freeze waits for `group.wait`
UPTIME_SECONDS = 3600  # of all exporters, when the server starts
NOTICE_SECONDS = 3600
# How many are kept open: those to the first VMs, one for each. More would exceed the usual limits
# of descriptors, here and in a scraper. Each scrape of another VM has a connection of its own.
CONNECTIONS = 8000
BACKLOG = 4096  # connections that wait to be accepted: at the start, all come at once


def _new_event_id() -> str:
    return str(uuid.uuid4()).upper()


@dataclass(slots=True)
class Event:
    """An event of the first VM of a group, which all exporters of the group report.

    ``status`` is Scheduled, Started, and then past. Times are Unix seconds; ``started`` and
    ``ended`` are 0 before the event has started and ended.
    """

    group: int
    event_type: str
    announced: float
    status: str = "Scheduled"
    started: float = 0.0
    ended: float = 0.0
    event_id: str = field(default_factory=_new_event_id)

    @property
    def not_before(self) -> float:
        """NotBefore, in Unix seconds."""
        return self.announced + NOTICE_SECONDS


class Fleet:
    """Placement groups of ``group`` VMs each, with ``events`` current events in as many groups.

    Args:
        expositions: what ``benchmarks.expositions`` has captured.
    """

    def __init__(self, expositions: Mapping[str, str], vms: int, events: int, group: int) -> None:
        # Counts of polls are the same in all expositions: a counter would go back when a VM's
        # exposition is replaced by that of another state.
        idle = expositions["idle"]
        self._expositions = {}
        for name, text in expositions.items():
            self._expositions[name] = Exposition(with_polls_of(text, idle))
        self._size = group
        self._began = time.time()
        self._turn = 0  # how many steps the rollout has advanced
        self._events: dict[int, Event] = {}  # the newest of each group, also when it is past
        groups = math.ceil(vms / group)
        self._free = deque(range(groups))  # those without a current event
        self._scheduled: deque[Event] = deque()
        self._started: deque[Event] = deque()
        # Every third event has started: the rollout keeps this share.
        for number in range(events):
            a_minute_ago = self._began - 60
            self._announce(TYPES[number % len(TYPES)], a_minute_ago)
            if number % 3 == 0:
                self._start()

    def advance(self) -> dict[str, object]:
        """Announce an event, start one and end one.

        Returns which was announced, and when by the monotonic clock, which all processes share.
        """
        if self._started:
            over = self._started.popleft()
            over.status = "past"
            over.ended = time.time()
            self._free.append(over.group)
        self._start()
        self._turn += 1
        event_type = NOTIFIED_AT_ONCE[self._turn % len(NOTIFIED_AT_ONCE)]
        event = self._announce(event_type, time.time())
        return {"event_id": event.event_id, "at": time.monotonic()}

    def _announce(self, event_type: str, at: float) -> Event:
        """Announce an event in the group that has been without one for longest."""
        event = Event(self._free.popleft(), event_type, at)
        self._events[event.group] = event
        self._scheduled.append(event)
        return event

    def _start(self) -> None:
        """Start the oldest of the announced events, if there is one."""
        if self._scheduled:
            event = self._scheduled.popleft()
            event.status = "Started"
            event.started = time.time()
            self._started.append(event)

    def body(self, vm: int) -> bytes:
        """Return what the exporter of a VM serves now, compressed."""
        now = time.time()
        group, member = divmod(vm, self._size)
        scale_set = f"vmss{group}"
        name_of_vm = f"{scale_set}_{member}"
        values: dict[str, object] = {
            "vm": name_of_vm,
            "vm_id": f"00000000-0000-4000-8000-{vm:012d}",
            "target": name_of_vm,
            "scale_set": scale_set,
            "zone": group % 3 + 1,
        }
        name = "idle"
        if event := self._events.get(group):
            scope = "peer" if member else "self"
            values["target"] = f"{scale_set}_0"
            name = f"{event.event_type} {event.status} {scope}"
            values["event_id"] = event.event_id
            values["first_seen"] = event.announced
            values["seen"] = now
            values["not_before"] = event.not_before
            values["seconds_left"] = event.not_before - now
            values["started"] = event.started
            values["ended"] = event.ended
            values["impact"] = event.started or event.not_before
        exposition = self._expositions[name]
        moment = Moment(now, started=self._began - UPTIME_SECONDS)
        # Two members of a gzip stream, which a scraper reads as one text.
        return exposition.common(moment) + exposition.own(values)


# ---- HTTP


class Connection(asyncio.Protocol):
    """One connection of a scraper, which sends a request only after the last response."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what answers go to."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer the request once its head is whole."""
        self._received += data
        head, end, _ = self._received.partition(b"\r\n\r\n")
        if not end:
            return
        self._received = b""
        method, path, _ = head.decode().split(" ", 2)
        if method == "POST":
            step = json.dumps(self._fleet.advance())
            self._answer(step.encode())
            return
        _, _, number, _ = path.split("/")
        vm = int(number)
        headers = ["Content-Encoding: gzip"]
        closes = vm >= CONNECTIONS
        if closes:
            headers.append("Connection: close")
        self._answer(self._fleet.body(vm), *headers)
        if closes:
            self._transport.close()

    def _answer(self, body: bytes, *headers: str) -> None:
        """Send a body with these headers, besides those that every answer has."""
        lines = ["HTTP/1.1 200 OK", "Content-Type: text/plain; version=0.0.4", *headers]
        lines.append(f"Content-Length: {len(body)}")
        head = "\r\n".join(lines)
        self._transport.write(f"{head}\r\n\r\n".encode() + body)


async def serve(fleet: Fleet, addresses: int) -> None:
    """Serve on ``addresses`` loopback addresses, and print the port, which is the same on all.

    A scraper has its own range of client ports for each address, so it can keep more connections.
    """
    loop = asyncio.get_running_loop()
    port = 0
    for number in range(1, addresses + 1):
        listener = socket.create_server((f"127.0.0.{number}", port), backlog=BACKLOG)
        port = listener.getsockname()[1]
        connection = partial(Connection, fleet)
        await loop.create_server(connection, sock=listener, backlog=BACKLOG)
    print(f"port {port}", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Serve until the process is killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("expositions", type=Path)
    for name in ("vms", "events", "group", "addresses"):
        parser.add_argument(f"--{name}", type=int, required=True)
    options = parser.parse_args()
    text = options.expositions.read_text("utf-8")
    fleet = Fleet(json.loads(text), options.vms, options.events, options.group)
    asyncio.run(serve(fleet, options.addresses))


if __name__ == "__main__":
    main()
