"""All parts together: started in order, watched, and ended so that none is left."""

import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from azure_scheduled_events_exporter.errors import ExporterError

from .compose import Service
from .free_port import free_port
from .part import Part, pages_of, program_of
from .wiring import Wiring

_DONE = "service_completed_successfully"
_PATIENCE = 120.0  # seconds until everything is up, on a busy machine
_GRACE = 10.0  # seconds to end by themselves
_LOOK = 0.1  # seconds between looks


class Stack:
    """All parts, in the order in which they start."""

    def __init__(self, services: Mapping[str, Service], folder: Path, *, free_ports: bool) -> None:
        programs = {name: program for name, service in services.items() if (program := program_of(service))}
        self.absent = [name for name in services if name not in programs]
        here = [services[name] for name in programs]
        ports = _ports([port for service in here for port in service.ports.values()], free=free_ports)
        pages = {name: pages_of(service) for name, service in services.items()}
        wiring = Wiring(services, frozenset(self.absent), ports, pages, folder)
        self._once = {name for service in here for name, condition in service.needs.items() if condition == _DONE}
        self.parts = {name: Part(services[name], wiring, program, folder) for name, program in programs.items()}

    def start(self, ended: threading.Event) -> None:
        """Start everything, each part after what it needs, and wait until all of it listens or ``ended`` is set.

        Raises:
            ExporterError: a part ends, or does not listen in time.
        """
        deadline = time.monotonic() + _PATIENCE
        for part in self.parts.values():
            for name, condition in part.service.needs.items():
                if name in self.parts and condition != "service_started":
                    self._wait(self.parts[name], ended, deadline)
            if ended.is_set():
                return
            part.start()
        for part in self.parts.values():
            self._wait(part, ended, deadline)

    def check(self) -> None:
        """Raise ExporterError if a part has ended that should not have."""
        for name, part in self.parts.items():
            if part.ended is not None and (name not in self._once or part.ended != 0):
                raise ExporterError(f"{name} ended with status {part.ended}: {part.last_words} [{part.log}]")

    def stop(self) -> None:
        """End every part, the last one first; return when none is left."""
        parts = list(self.parts.values())[::-1]
        for number in (signal.SIGTERM, signal.SIGKILL):
            for part in parts:
                part.tell_to_end(number)
            if _until(lambda: not any(part.runs for part in parts), _GRACE):
                return

    def _wait(self, part: Part, ended: threading.Event, deadline: float) -> None:
        while not ended.is_set():
            self.check()
            if part.ended == 0 if part.service.name in self._once else part.listens():
                return
            if time.monotonic() > deadline:
                raise ExporterError(f"{part.service.name} does not listen: {part.last_words} [{part.log}]")
            ended.wait(_LOOK)


def _until(look: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not look():
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK)
    return True


def _ports(published: list[int], *, free: bool) -> dict[int, int]:
    """Return the port to take for each published one: itself, or any that is free.

    Raises:
        ExporterError: one is taken.
    """
    if free:
        found: set[int] = set()
        while len(found) < len(published):
            found.add(free_port())
        return dict(zip(published, found, strict=True))
    for port in published:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                raise ExporterError(
                    f"127.0.0.1:{port} cannot be had: {error.strerror}; end what listens there, "
                    "or take any free ports: make stack STACK=--free-ports"
                ) from None
    return {port: port for port in published}
