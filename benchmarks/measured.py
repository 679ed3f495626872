"""A server as a process, and what it costs: start, memory, processor time, scrapes.

Any server will do: this module knows neither the exporter nor its budgets.
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
_PAUSE_SECONDS = 0.001  # between two attempts to connect to a server that starts
_LONGEST = 1 << 24  # bytes of an answer
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


class Measurement:
    """One server program, which is started at once; a context manager that ends it.

    Attributes:
        url: where the program serves its metrics.
        process: the program.
        start_seconds: from the start of the process to its first complete answer.
    """

    def __init__(self, command: Sequence[str], url: str) -> None:
        self.url = url
        parts = urlsplit(url)
        self._host = parts.hostname or "127.0.0.1"
        self._port = parts.port or 80
        path = parts.path or "/"
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n"
        self._request = head.encode()
        env = dict(os.environ)
        # An installation has its bytecode on disk. With this variable, every start would compile
        # everything anew.
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        begun = time.perf_counter()
        self.process = subprocess.Popen(
            command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while not self._answers():
            has_ended = self.process.poll() is not None
            if has_ended or time.perf_counter() > begun + _PATIENCE_SECONDS:
                self.process.kill()  # here, because __exit__ is not called without __enter__
                self.process.wait()
                raise RuntimeError(f"it does not answer: {command!r}")
            time.sleep(_PAUSE_SECONDS)
        self.start_seconds = time.perf_counter() - begun

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
        threads = Path(f"/proc/{self.process.pid}/task")
        for thread in threads.iterdir():
            # The first of its three numbers is the time on a processor.
            numbers = (thread / "schedstat").read_text().split()
            nanoseconds += int(numbers[0])
        return nanoseconds / 1e9

    def scrapes(self, count: int, clients: int = 1) -> list[float]:
        """Return the seconds of at least ``count`` scrapes over ``clients`` kept connections.

        Each client asks again as soon as it has its answer. One thread plays all of them, so that
        they do not wait for one another's threads.
        """
        taken: list[float] = []
        asyncio.run(self._play(taken, count, clients))
        return taken

    async def _play(self, taken: list[float], count: int, clients: int) -> None:
        """Add the seconds of at least ``count`` scrapes of all clients together to ``taken``."""
        async with asyncio.timeout(10 * _PATIENCE_SECONDS):
            plays = [self._play_client(taken, count) for _ in range(clients)]
            await asyncio.gather(*plays)

    async def _play_client(self, taken: list[float], count: int) -> None:
        """Scrape over one connection until ``taken`` has at least ``count`` entries."""
        reader, writer = await asyncio.open_connection(self._host, self._port, limit=_LONGEST)
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
