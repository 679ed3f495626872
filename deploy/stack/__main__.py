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
from collections.abc import Iterable, Mapping, Sequence
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


def _run(
    services: Mapping[str, compose.Service],
    folder: Path,
    ended: threading.Event,
    *,
    free_ports: bool,
) -> None:
    """Start the services that have a program here, and show them until ``ended`` is set.

    Leaves no process behind.

    Raises:
        ExporterError: a port is taken, or a part cannot be started, fails, or does not listen in
            time.
    """
    programs = _programs(services)
    absent = [name for name in services if name not in programs]
    published: list[int] = []
    for name in programs:
        published.extend(services[name].ports.values())
    wiring = Wiring(services, absent, _ports(published, free=free_ports), folder)
    print(f"Starting {', '.join(programs)}. Logs: {folder / 'logs'}", flush=True)
    parts: list[Part] = []
    deadline = time.monotonic() + _PATIENCE
    try:
        # Each starts when those before it are ready.
        for name, program in programs.items():
            parts.append(Part(services[name], wiring, program, folder))
            _wait(parts, ended, deadline)
            if ended.is_set():
                return
        without = ""
        if absent:
            without = f", without what Debian has no package of: {', '.join(absent)}"
        print(f"Everything is up{without}. Ctrl-C ends it.", flush=True)
        _follow(parts, ended)
    finally:
        _stop(parts)


def _wait(parts: Sequence[Part], ended: threading.Event, deadline: float) -> None:
    """Wait until the last one of ``parts`` is ready, or ``ended`` is set.

    Raises:
        ExporterError: a part has failed, or the last one is not ready at the deadline.
    """
    newest = parts[-1]
    while not newest.is_ready() and not ended.is_set():
        _check(parts)
        if time.monotonic() > deadline:
            raise newest.complain("does not listen")
        ended.wait(_LOOK)


def _programs(services: Mapping[str, compose.Service]) -> dict[str, list[str]]:
    """Return the program of each service that has one here."""
    found = {}
    for name, service in services.items():
        program = program_of(service)
        if program is not None:
            found[name] = program
    return found


def _check(parts: Iterable[Part]) -> None:
    """Raise ExporterError if a part has ended that should not have."""
    for part in parts:
        if part.has_failed():
            raise part.complain(f"ended with status {part.status}")


def _stop(parts: Sequence[Part]) -> None:
    """End every part, the last one first; return when none is left.

    One that does not end by itself in time is killed.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + _GRACE
        for part in reversed(parts):
            part.end(number)
        while time.monotonic() < deadline:
            running = [part for part in parts if part.status is None]
            if not running:
                return
            time.sleep(_LOOK)


def _ports(published: list[int], *, free: bool) -> dict[int, int]:
    """Return the port to take for each published one: itself, or any that is free.

    Raises:
        ExporterError: one is taken.
    """
    if free:
        return {port: free_port() for port in published}
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


def _follow(parts: Sequence[Part], ended: threading.Event) -> None:
    """Print what the parts for people say, with the part's name, until ``ended`` is set.

    Raises:
        ExporterError: a part has failed.
    """
    files = {}
    for part in parts:
        if part.service.shown:
            files[part.service.name] = part.log.open(encoding="utf-8", errors="replace")
    width = max((len(name) for name in files), default=0)
    while not ended.is_set():
        for name, file in files.items():
            for line in file:  # what is new in the log
                print(f"{name:<{width}} | {line}", end="", flush=True)
        _check(parts)
        ended.wait(_LOOK)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make stack", description=__doc__)
    add = parser.add_argument
    text = "take any free ports instead of the usual ones"
    add("--free-ports", action="store_true", help=text)
    text = "vmagent, VictoriaMetrics, vmalert; no Prometheus"
    add("--victoria", action="store_true", help=text)
    text = "another compose file of this form"
    add("--file", type=Path, default=COMPOSE, metavar="FILE", help=text)
    text = "where to keep logs and data (default: temporary)"
    add("--folder", type=Path, metavar="DIR", help=text)
    return parser.parse_args()


def main() -> int:
    """Run the demo until a signal; return the exit status: 0 then, 1 if a part fails."""
    options = _options()
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: ended.set())
    folder = options.folder or Path(tempfile.mkdtemp(prefix="stack-"))
    overrides = []
    if options.victoria:
        overrides.append(VICTORIA)
    try:
        services = compose.read(options.file, os.environ, *overrides)
        _run(services, folder, ended, free_ports=options.free_ports)
    except ExporterError as error:  # the logs are kept: somebody will want to read them
        sys.stderr.write(f"stack: {error}\n")
        return error.exit_status
    except BrokenPipeError:  # the reader of our output has seen enough
        # What Python still has to write at its end goes nowhere, and so fails no more.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
    if options.folder is None:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
