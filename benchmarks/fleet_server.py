"""Serves the expositions of many exporters at ``/vm/NUMBER/metrics``, in one process.

``benchmarks.fleet`` starts it with the expositions of real exporters. What is the same on all VMs
is compressed once a second; names, ids and times of one VM and its event are written anew for each
scrape, as a second member of the gzip stream. ``POST /advance`` announces an event in a placement
group without one, starts the oldest announced event and ends the oldest started one, so that the
number of current events stays the same. Imports nothing but Python's library.
"""

import argparse
import asyncio
import json
import math
import re
import socket
import time
import uuid
import zlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PREFIX = "azure_scheduled_events_"
TYPES = ("Freeze", "Reboot", "Redeploy", "Preempt", "Terminate")
NOTIFIED_AT_ONCE = ("Reboot", "Redeploy", "Preempt", "Terminate")  # a Freeze waits for `group.wait`
UPTIME_SECONDS = 3600  # of all exporters, when the server starts
POLL_CPU_SECONDS = 0.0016
# Kept open; more would exceed the usual limits of descriptors, here and in a scraper.
CONNECTIONS = 8000
NOTICE_SECONDS = 3600
OWN = tuple(f"{PREFIX}{name}" for name in ("instance_info", "event_", "vm_impact_"))
POLLS = re.compile(rf"^({PREFIX}poll(?:s_total|_duration_seconds)\S*) (\S+)$", re.MULTILINE)
MOMENTS = (
    "event_first_seen",
    "event_not_before",
    "event_started",
    "event_ended",
    "vm_impact",
    "event_seconds_until_not_before",
)
COUNTERS = (f"{PREFIX}poll_duration_seconds", f"{PREFIX}polls_total")
TIMES = {
    f"{PREFIX}last_success_timestamp_seconds": "{now}",
    f"{PREFIX}event_seen_timestamp_seconds": "{now}",
    "process_start_time_seconds": "{start}",
}
# What the captured expositions contain, and every VM has in its own way.
VM = "captured-vm-self"
PEER = "captured-vm-peer"
SCALE_SET = "captured-set"
EVENT_ID = "0CA97C0E-AB1E-4D00-9E1D-CA97C0E0CA97"


# ---- Expositions


@dataclass(frozen=True, slots=True)
class Counter:
    """A series that each poll makes larger by the same amount."""

    series: str
    step: float

    def line(self, polls: int) -> str:
        """Return its line after so many polls."""
        value = float(round(self.step * polls, 1))
        return f"{self.series} {value}"


class Exposition:
    """What one real exporter served, as a pattern: a part for all VMs, and one for each VM."""

    def __init__(self, text: str) -> None:
        self._common: list[str | Counter] = []
        own = []
        polls_line = re.search(rf'^{PREFIX}polls_total{{outcome="ok"}} (\S+)', text, re.MULTILINE)
        assert polls_line is not None
        polls = float(polls_line[1])
        for line in text.splitlines():
            name = _name_of(line)
            if name.startswith(OWN):
                own.append(line)
            else:
                self._common.append(_moving(line, name, polls))
        self._own = _pattern("\n".join((*own, "")))
        self._second = 0
        self._rendered = b""

    def common(self, now: float, began: float) -> bytes:
        """Return what is the same for all VMs, compressed."""
        if int(now) != self._second:
            polls = int(now - began) + UPTIME_SECONDS
            start = began - UPTIME_SECONDS
            lines = []
            for each in self._common:
                if isinstance(each, Counter):
                    lines.append(each.line(polls))
                else:
                    lines.append(each.format(now=f"{now:.3f}", start=f"{start:.2f}"))
            self._rendered = _gzip("\n".join((*lines, "")))
            self._second = int(now)
        return self._rendered

    def own(self, values: Mapping[str, object]) -> bytes:
        """Return what is the VM's own, compressed."""
        return _gzip(self._own % values)


def _name_of(line: str) -> str:
    """Return the name of the metric that a line of an exposition is about."""
    if line.startswith("#"):
        return line.split(" ")[2]
    return re.split(r"[{ ]", line)[0]


def _pattern(text: str) -> str:
    """Return lines of one VM with a place for each value that another VM has in its own way."""
    pattern = text.replace("%", "%%")
    marks = {
        f'vm_name="{VM}"': "vm",
        f'vm_name="{PEER}"': "vm",
        f'resources="{VM}"': "target",
        f'scale_set="{SCALE_SET}"': "scale_set",
        f'event_id="{EVENT_ID}"': "event_id",
        'zone="1"': "zone",
    }
    vm_id = re.search(r'vm_id="([^"]+)"', pattern)
    if vm_id:
        marks[vm_id[0]] = "vm_id"
    for mark, key in marks.items():
        label, _, _ = mark.partition("=")
        pattern = pattern.replace(mark, f'{label}="%({key})s"')
    for name in MOMENTS:
        line = rf"(?m)^({PREFIX}{name}(?:_timestamp_seconds)?{{.*}}) .*$"
        pattern = re.sub(line, rf"\1 %({name}).3f", pattern)
    return pattern


def _moving(line: str, name: str, polls: float) -> str | Counter:
    """Return what a line becomes as time passes: a counter, or a format.

    ``polls``: how many the exporter had made when it served the line. A format has the values now
    and start, seconds since 1970.
    """
    series, _, value = line.rpartition(" ")
    fixed = line.replace("{", "{{").replace("}", "}}")
    if line.startswith("#"):
        return fixed
    if name == "process_cpu_seconds_total":
        return Counter(series, POLL_CPU_SECONDS)
    if name.startswith(COUNTERS) and float(value):
        return Counter(series, float(value) / polls)
    if name in TIMES:
        before, _, _ = fixed.rpartition(" ")
        return f"{before} {TIMES[name]}"
    return fixed


def _gzip(text: str) -> bytes:
    return zlib.compress(text.encode(), 1, wbits=31)


# ---- The fleet


@dataclass(slots=True)
class Event:
    """An event of the first VM of a group, which all exporters of the group report."""

    group: int
    event_type: str
    announced: float
    status: str = "Scheduled"  # Started, then past
    started: float = 0.0
    ended: float = 0.0
    event_id: str = field(default_factory=lambda: str(uuid.uuid4()).upper())


class Fleet:
    """Placement groups of ``group`` VMs each, with ``events`` current events in as many groups."""

    def __init__(self, expositions: Mapping[str, str], vms: int, events: int, group: int) -> None:
        # Counts of polls are the same in all expositions: a counter would go back when a VM's
        # exposition is replaced by that of another state.
        polls = dict(POLLS.findall(expositions["idle"]))
        self._expositions = {}
        for name, text in expositions.items():
            same_polls = POLLS.sub(lambda found: f"{found[1]} {polls[found[1]]}", text)
            self._expositions[name] = Exposition(same_polls)
        self._size = group
        self._began = time.time()
        self._turn = 0
        self._events: dict[int, Event] = {}  # the newest of each group, also when it is past
        self._free = deque(range(math.ceil(vms / group)))  # groups without a current event
        self._scheduled: deque[Event] = deque()
        self._started: deque[Event] = deque()
        for number in range(events):
            self._announce(TYPES[number % len(TYPES)], self._began - 60)
            if number % 3 == 0:
                self._start()

    def advance(self) -> dict[str, object]:
        """Announce an event, start one and end one; return which was announced, and when."""
        if self._started:
            over = self._started.popleft()
            over.status = "past"
            over.ended = time.time()
            self._free.append(over.group)
        self._start()
        self._turn += 1
        event_type = NOTIFIED_AT_ONCE[self._turn % len(NOTIFIED_AT_ONCE)]
        event = self._announce(event_type, time.time())
        return {"event_id": event.event_id, "event_type": event.event_type, "at": time.monotonic()}

    def _announce(self, event_type: str, at: float) -> Event:
        event = Event(self._free.popleft(), event_type, at)
        self._events[event.group] = event
        self._scheduled.append(event)
        return event

    def _start(self) -> None:
        if self._scheduled:
            event = self._scheduled.popleft()
            event.status = "Started"
            event.started = time.time()
            self._started.append(event)

    def body(self, vm: int) -> bytes:
        """Return what the exporter of a VM serves now, compressed."""
        now = time.time()
        group, member = divmod(vm, self._size)
        scope = "peer" if member else "self"
        scale_set = f"vmss{group}"
        values: dict[str, object] = {
            "vm": f"{scale_set}_{member}",
            "vm_id": f"00000000-0000-4000-8000-{vm:012d}",
            "target": f"{scale_set}_0",
            "scale_set": scale_set,
            "zone": group % 3 + 1,
        }
        name = "idle"
        if event := self._events.get(group):
            name = f"{event.event_type} {event.status} {scope}"
            not_before = event.announced + NOTICE_SECONDS
            moments = (
                event.announced,
                not_before,
                event.started,
                event.ended,
                event.started or not_before,
                not_before - now,
            )
            values["event_id"] = event.event_id
            values |= zip(MOMENTS, moments, strict=True)
        exposition = self._expositions[name]
        return exposition.common(now, self._began) + exposition.own(values)


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
        method, path, _ = head.split(b" ", 2)
        more = b""
        closes = False
        if method == b"POST":
            body = json.dumps(self._fleet.advance()).encode()
        else:
            vm = int(path.split(b"/")[2])
            body = self._fleet.body(vm)
            more += b"Content-Encoding: gzip\r\n"
            closes = vm >= CONNECTIONS
        if closes:
            more += b"Connection: close\r\n"
        head = (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n%bContent-Length:"
            b" %d\r\n\r\n"
        )
        self._transport.write(head % (more, len(body)) + body)
        if closes:
            self._transport.close()


async def serve(fleet: Fleet, addresses: int) -> None:
    """Serve on ``addresses`` loopback addresses, and print the port, which is the same on all.

    Each has its own range of client ports.
    """
    loop = asyncio.get_running_loop()
    port = 0
    for number in range(1, addresses + 1):
        listener = socket.create_server((f"127.0.0.{number}", port), backlog=4096)
        port = listener.getsockname()[1]
        await loop.create_server(lambda: Connection(fleet), sock=listener, backlog=4096)
    print(f"port {port}", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Serve until the process is killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("expositions", type=Path)
    for name in ("vms", "events", "group", "addresses"):
        parser.add_argument(f"--{name}", type=int, required=True)
    options = parser.parse_args()
    fleet = Fleet(
        json.loads(options.expositions.read_text("utf-8")),
        options.vms,
        options.events,
        options.group,
    )
    asyncio.run(serve(fleet, options.addresses))


if __name__ == "__main__":
    main()
