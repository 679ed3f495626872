"""``make stack``: the demo of ``deploy/compose/`` without containers, until Ctrl-C or SIGTERM.

What has no Debian package (Grafana, Tempo) is not part of it.
"""

import argparse
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from azure_scheduled_events_exporter.errors import ExporterError

from . import compose
from .free_port import free_port
from .part import ROOT, Part, program_of
from .wiring import Wiring

COMPOSE = ROOT / "deploy" / "compose" / "compose.yaml"
VICTORIA = ROOT / "deploy" / "compose" / "compose.victoria.yaml"
_PATIENCE = 120.0  # seconds until everything is up, on a busy machine
_GRACE = 10.0  # seconds to end by themselves
_LOOK = 0.1  # seconds between looks


class Stack:
    """All parts together: started one after the other, watched, and ended so that none is left."""

    def __init__(self, services: Mapping[str, compose.Service], folder: Path, *, free_ports: bool) -> None:
        self._folder = folder
        self._services = services
        self.programs = {name: program for name, each in services.items() if (program := program_of(each))}
        self.absent = [name for name in services if name not in self.programs]
        ports = _ports([port for name in self.programs for port in services[name].ports.values()], free=free_ports)
        self._wiring = Wiring(services, frozenset(self.absent), ports, folder)
        self.parts: list[Part] = []

    def start(self, ended: threading.Event) -> None:
        """Start everything, each part when what comes before it is ready, unless ``ended`` is set meanwhile.

        Raises:
            ExporterError: a part ends, or does not listen in time.
        """
        deadline = time.monotonic() + _PATIENCE
        for name, program in self.programs.items():
            self.parts.append(Part(self._services[name], self._wiring, program, self._folder))
            while not self.parts[-1].is_ready():
                self.check()
                if ended.wait(_LOOK):
                    return
                if time.monotonic() > deadline:
                    raise self.parts[-1].complain("does not listen")

    def check(self) -> None:
        """Raise ExporterError if a part has ended that should not have."""
        for part in self.parts:
            if part.has_failed():
                raise part.complain(f"ended with status {part.status}")

    def stop(self) -> None:
        """End every part, the last one first; return when none is left."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + _GRACE
            for part in reversed(self.parts):
                part.end(number)
            while any(part.status is None for part in self.parts) and time.monotonic() < deadline:
                time.sleep(_LOOK)


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


def _run(stack: Stack, folder: Path, ended: threading.Event) -> None:
    """Run ``stack`` until ``ended`` is set; leave no process behind.

    Raises:
        ExporterError: a part cannot be started, or ends.
    """
    try:
        print(f"Starting {', '.join(stack.programs)}. Logs: {folder / 'logs'}", flush=True)
        stack.start(ended)
        if not ended.is_set():
            without = ", without what Debian has no package of: " + ", ".join(stack.absent) if stack.absent else ""
            print(f"Everything is up{without}. Ctrl-C ends it.", flush=True)
            _follow(stack, ended)
    finally:
        stack.stop()


def _follow(stack: Stack, ended: threading.Event) -> None:
    """Print what the parts for people say, each line with the part's name, until ``ended`` is set."""
    shown = [part for part in stack.parts if part.service.shown]
    width = max(len(part.service.name) for part in shown)
    files = [(part.service.name, part.log.open(encoding="utf-8", errors="replace")) for part in shown]
    while not ended.is_set():
        for name, file in files:
            for line in file:
                print(f"{name:<{width}} | {line}", end="", flush=True)
        stack.check()
        ended.wait(_LOOK)


def main() -> int:
    """Return the exit status: 0 after SIGINT or SIGTERM, 1 if a part fails."""
    parser = argparse.ArgumentParser(prog="make stack", description=__doc__)
    parser.add_argument("--free-ports", action="store_true", help="take any free ports instead of the usual ones")
    text = "vmagent, VictoriaMetrics and vmalert instead of Prometheus"
    parser.add_argument("--victoria", action="store_true", help=text)
    parser.add_argument("--file", type=Path, default=COMPOSE, metavar="FILE", help="another compose file of this form")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where to keep logs and data (default: temporary)")
    arguments = parser.parse_args()
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: ended.set())
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="stack-"))
    try:
        services = compose.read(arguments.file, os.environ, *([VICTORIA] if arguments.victoria else []))
        _run(Stack(services, folder, free_ports=arguments.free_ports), folder, ended)
    except ExporterError as error:  # the logs are kept: somebody will want to read them
        sys.stderr.write(f"stack: {error}\n")
        return error.exit_status
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if arguments.folder is None:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
