"""A server as a process, and what it costs: start, memory, processor time, scrapes.

Knows nothing of budgets.
"""

import asyncio
import os
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import psutil

MEBIBYTE = 1 << 20
_PATIENCE_SECONDS = 30.0
_PAUSE_SECONDS = 0.001
_LONGEST = 1 << 24  # bytes of an answer
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


class Measurement:
    """One server program, from its start to its end; a context manager.

    Attributes:
        url: where it serves its metrics.
        process: it.
        started: seconds from the start of the process to its first complete answer.
    """

    def __init__(self, command: Sequence[str], url: str) -> None:
        self.url = url
        parts = urlsplit(url)
        self._address = (parts.hostname or "127.0.0.1", parts.port or 80)
        path = parts.path or "/"
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n"
        self._request = head.encode()
        # Bytecode as an installation has it: without, every start compiles everything anew.
        env = dict(os.environ)
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        begun = time.perf_counter()
        self.process = subprocess.Popen(
            command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while not self._answers():
            has_ended = self.process.poll() is not None
            if has_ended or time.perf_counter() > begun + _PATIENCE_SECONDS:
                raise RuntimeError(f"it does not answer: {command!r}")
            time.sleep(_PAUSE_SECONDS)
        self.started = time.perf_counter() - begun

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def memory(self) -> float:
        """Return the resident memory in MiB."""
        process = psutil.Process(self.process.pid)
        used: int = process.memory_info().rss
        return used / MEBIBYTE

    def processor(self) -> float:
        """Return the seconds of processor time of all its threads, to the nanosecond (Linux).

        Threads that have ended are not counted.
        """
        nanoseconds = 0
        for thread in Path(f"/proc/{self.process.pid}/task").iterdir():
            running, *_ = (thread / "schedstat").read_text().split()
            nanoseconds += int(running)
        return nanoseconds / 1e9

    def scrapes(self, count: int, clients: int = 1) -> list[float]:
        """Return the seconds of at least ``count`` scrapes over ``clients`` kept connections.

        Each client asks again as soon as it has its answer; one thread plays them all, so as not to
        measure itself.
        """
        taken: list[float] = []

        async def client() -> None:
            reader, writer = await asyncio.open_connection(*self._address, limit=_LONGEST)
            while len(taken) < count:
                begun = time.perf_counter()
                writer.write(self._request)
                head = await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                if length:
                    await reader.readexactly(int(length[1]))
                else:  # chunked, as Go's servers answer what is large
                    await reader.readuntil(b"\r\n0\r\n\r\n")
                taken.append(time.perf_counter() - begun)
            writer.close()

        async def play() -> None:
            async with asyncio.timeout(_PATIENCE_SECONDS * 10):
                await asyncio.gather(*(client() for _ in range(clients)))

        asyncio.run(play())
        return taken

    def end(self) -> float:
        """Return the seconds from SIGTERM to its exit."""
        begun = time.perf_counter()
        self.process.terminate()
        self.process.wait(_PATIENCE_SECONDS)
        return time.perf_counter() - begun

    def _answers(self) -> bool:
        try:
            return bool(self.scrapes(1))
        except (ConnectionError, EOFError):
            return False
