"""A server as a process, and what it costs: start, memory, processor time, scrapes. Knows nothing of budgets."""

import os
import selectors
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import psutil

from deploy.stack.free_port import free_port

MEBIBYTE = 1 << 20
_PATIENCE_SECONDS = 30.0
_PAUSE_SECONDS = 0.001
_ENOUGH = 1 << 16


class Measurement:
    """One server program, from its start to its end; a context manager.

    Attributes:
        started: seconds from the start of the process to its first complete answer at ``url``.
    """

    def __init__(self, command: Sequence[str], url: str) -> None:
        parts = urlsplit(url)
        self.port = parts.port or 80
        self._address = (parts.hostname or "127.0.0.1", self.port)
        self._request = f"GET {parts.path or '/'} HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n".encode()
        # Bytecode as an installation has it: without, every start compiles everything anew.
        env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        begun = time.perf_counter()
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._watched = psutil.Process(self.process.pid)
        self._until_answered()
        self.started = time.perf_counter() - begun

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def memory(self) -> float:
        """Return the resident memory in MiB."""
        return float(self._watched.memory_info().rss) / MEBIBYTE

    def processor(self) -> float:
        """Return the seconds of processor time of all its threads, to the nanosecond (Linux)."""
        folders = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((each / "schedstat").read_text().split()[0]) for each in folders) / 1e9

    def scrapes(self, count: int, clients: int = 1) -> list[float]:
        """Return the seconds of ``count`` scrapes over ``clients`` connections that are kept alive.

        Each client asks again as soon as it has its answer; one thread plays them all, so as not to measure itself.
        """
        taken: list[float] = []
        with selectors.DefaultSelector() as selector:
            sockets = [socket.create_connection(self._address, _PATIENCE_SECONDS) for _ in range(clients)]
            for each in sockets:
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                selector.register(each, selectors.EVENT_READ)
            state = {each: (time.perf_counter(), b"") for each in sockets if each.send(self._request)}
            while len(taken) < count:
                for key, _ in selector.select(_PATIENCE_SECONDS) or self._silence():
                    client = key.fileobj
                    assert isinstance(client, socket.socket)
                    begun, got = state[client]
                    got += client.recv(_ENOUGH)
                    if not _complete(got):
                        state[client] = (begun, got)
                        continue
                    taken.append(time.perf_counter() - begun)
                    state[client] = (time.perf_counter(), b"")
                    client.send(self._request)
            for each in sockets:
                each.close()
        return taken

    def body(self) -> bytes:
        """Return what it serves, uncompressed."""
        with socket.create_connection(self._address, _PATIENCE_SECONDS) as client:
            client.send(self._request.replace(b"Accept-Encoding: gzip\r\n", b"Connection: close\r\n"))
            got = b""
            while part := client.recv(_ENOUGH):
                got += part
        return got.partition(b"\r\n\r\n")[2]

    def end(self) -> float:
        """Return the seconds from SIGTERM to its exit."""
        begun = time.perf_counter()
        self.process.terminate()
        self.process.wait(_PATIENCE_SECONDS)
        return time.perf_counter() - begun

    def _until_answered(self) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"it ended with {self.process.returncode}: {self.process.args!r}")
            try:
                self.scrapes(1)
            except ConnectionError:
                time.sleep(_PAUSE_SECONDS)
            else:
                return
        raise RuntimeError(f"no answer within {_PATIENCE_SECONDS:g} s: {self.process.args!r}")

    def _silence(self) -> Sequence[tuple[selectors.SelectorKey, int]]:
        raise RuntimeError(f"a scrape was not answered within {_PATIENCE_SECONDS:g} s")


def _complete(answer: bytes) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    if not answer:
        raise ConnectionResetError("closed without an answer")
    lengths = [line.partition(b":")[2] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    if end and not lengths:  # chunked, as Go's servers answer what is large
        return body.endswith(b"0\r\n\r\n")
    return bool(end) and len(body) >= int(lengths[0])


class Installation:
    """The exporter as users have it: a wheel with the pinned requirements, on a Python of one's choice."""

    def __init__(self, root: Path, python: str) -> None:
        self._folder = Path(tempfile.mkdtemp())
        build = [str(root / ".venv/bin/python"), "-m", "hatchling", "build", "-t", "wheel", "-d", str(self._folder)]
        env: Mapping[str, str] = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
            "PYTHON": python,
        }
        subprocess.run(build, cwd=root, check=True, capture_output=True, env=env)
        (wheel,) = self._folder.glob("*.whl")
        home = self._folder / "environment"
        subprocess.run(
            [str(root / "scripts/try-wheel"), str(wheel), str(home)], check=True, capture_output=True, env=env
        )
        self.python = str(home / "bin/python")
        self.command = str(home / "bin/azure-scheduled-events-exporter")
        (self.site,) = home.glob("lib/python3*/site-packages")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder)

    def size(self) -> float:
        """Return the MiB of the exporter and all that it needs, without compiled bytecode and pip."""
        files = [each for each in self.site.rglob("*") if each.is_file()]
        counted = [each for each in files if "__pycache__" not in each.parts and "pip" not in each.parts[-3:-1]]
        return sum(each.stat().st_size for each in counted if not each.is_relative_to(self.site / "pip")) / MEBIBYTE

    def start(self, imds: str, *flags: str) -> Measurement:
        """Start ``run`` on a free port against ``imds``."""
        port = free_port()
        address = f"127.0.0.1:{port}"
        command = [self.command, "run", "--imds.endpoint", imds, "--web.listen-address", address, *flags]
        return Measurement(command, f"http://{address}/metrics")
