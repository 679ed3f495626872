"""Programs under test, as processes on loopback, and ways to wait for what they show."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any, Self, TypeVar

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.paths import GUARD, TOOLS
from support.prepared import Prepared

COMMAND = str(Path(sys.executable).parent / "azure-scheduled-events-exporter")
PREFIX = "azure_scheduled_events_"
NOBODY = "127.0.0.1:1"
"""An address at which nobody listens, whatever runs beside the tests."""
PATIENCE = 180.0  # seconds; a busy machine is slow, a broken program never gets there
QUIET_PATIENCE = float(os.environ.get("PATIENCE", "25"))
"""Seconds after which nothing more is to be hoped for, where nothing else runs."""
Sample = tuple[dict[str, str], float]
_NAME = re.compile(r"[^{ ]*")
_Found = TypeVar("_Found")


def eventually(
    look: Callable[[], _Found],
    what: str,
    seconds: float | None = None,
    *,
    until: Callable[[_Found], object] = bool,
) -> _Found:
    """Return the first value of ``look`` that is true, or ``until`` accepts; fail, naming ``what``,
    if none is in time.

    It looks less often the longer it waits: a scrape that is parsed every 20 ms would be a third of
    a core. Without ``seconds``, it waits as long as a working program may take on this machine now.
    """
    begun = time.monotonic()
    while not until(found := look()):
        waited = time.monotonic() - begun
        if waited > (seconds or _patience()):
            pytest.fail(f"not within {waited:.0f} s: {what}; last seen: {found!r}")
        time.sleep(min(0.1, 0.02 + waited / 20))
    return found


def _patience() -> float:
    """Return how long to wait: where six processes want a processor, each gets a sixth of it."""
    wanting = os.getloadavg()[0] / (os.cpu_count() or 1)
    return min(PATIENCE, QUIET_PATIENCE * max(1.0, wanting))


def environment(**more: str) -> dict[str, str]:
    """Return an environment in which no program reaches the metadata address and no setting of ours
    leaks in.
    """
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AZURE_", "OTEL_"))
    }
    return {**clean, "PYTHONPATH": str(GUARD), **more}


def debian(program: str) -> str:
    """Return the path of a program: unpacked by scripts/tools, or on the PATH."""
    unpacked = TOOLS / program
    path = str(unpacked) if unpacked.exists() else shutil.which(program)
    if path is None:
        raise FileNotFoundError(
            f"{program} is neither in {TOOLS.parent.parent} nor on the PATH: run scripts/tools"
        )
    return path


@dataclass(frozen=True)
class Answer:
    """An HTTP answer of any status."""

    status: int
    headers: Message
    body: bytes


def fetch(url: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Answer:
    """Return the answer to one request; header names with underscores for dashes."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, data=body, headers=names, method=method)  # noqa: S310 - http only
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=PATIENCE) as response:
            return Answer(response.status, response.headers, response.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.headers, error.read())


class Scrape:
    """The samples of one exposition in text format; names without our prefix.

    Only the lines of series that are asked for are parsed: parsing all of them for each look at a
    metric was a third of the processor time of the tests.
    """

    def __init__(self, text: str) -> None:
        self._lines: dict[str, list[str]] = {}
        self._parsed: dict[str, list[Sample]] = {}
        for line in text.splitlines():
            if line and not line.startswith("#"):
                self._lines.setdefault(_NAME.match(line)[0].removeprefix(PREFIX), []).append(line)  # type: ignore[index]  # it matches ""

    @property
    def samples(self) -> dict[str, list[Sample]]:
        """All samples by name."""
        return {name: self.series(name) for name in self._lines}

    def series(self, name: str, **labels: str) -> list[Sample]:
        """Return the samples of ``name`` that carry ``labels``."""
        if name not in self._parsed:
            families = text_string_to_metric_families("\n".join([*self._lines.get(name, ()), ""]))
            self._parsed[name] = [
                (each.labels, each.value) for family in families for each in family.samples
            ]
        return [
            (have, value) for have, value in self._parsed[name] if labels.items() <= have.items()
        ]

    def value(self, name: str, **labels: str) -> float | None:
        """Return the value of the one series that carries ``labels``; None if there is none."""
        found = self.series(name, **labels)
        assert len(found) <= 1, f"{len(found)} series {name} with {labels}"
        return found[0][1] if found else None

    def total(self, name: str, **labels: str) -> float:
        """Return the sum over all series that carry ``labels``."""
        return sum(value for _, value in self.series(name, **labels))

    def transitions(self, **labels: str) -> dict[str, float]:
        """Return the transitions counted so far, without those that are 0."""
        counted: dict[str, float] = {}
        for have, value in self.series("transitions_total", **labels):
            if value:
                counted[have["transition"]] = counted.get(have["transition"], 0) + value
        return counted


class Program:
    """A process whose output goes to a file."""

    prepared: Prepared | None = None
    """What starts our own program without its imports: in tests, not in trials and benchmarks."""

    def __init__(self, arguments: list[str], output: Path, **env: str) -> None:
        self.output = output
        clean = environment(**env)
        with output.open("wb") as file:
            quick = self.prepared if arguments[0] == COMMAND else None
            self.process = (
                quick and quick.start(arguments, file.fileno(), clean)
            ) or subprocess.Popen(
                arguments,
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=clean,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def log(self) -> str:
        """Its output so far."""
        return self.output.read_text(errors="replace")

    def lines(self, text: str) -> list[str]:
        """Return the lines of the log that contain ``text``."""
        return [line for line in self.log.splitlines() if text in line]

    def wait_for_line(self, pattern: str) -> re.Match[str]:
        """Return the first match of ``pattern`` in the log, once it is there."""

        def look() -> re.Match[str] | None:
            found = re.search(pattern, self.log)
            if found is None and self.process.poll() is not None:
                pytest.fail(
                    f"ended with {self.process.returncode} before it wrote {pattern!r}:\n{self.log}"
                )
            return found

        found = eventually(look, f"{pattern!r} in the log")
        assert found
        return found

    def terminate(self) -> int:
        """Send SIGTERM and return the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        """Send SIGKILL, as a power cut would end it."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)


class Exporter(Program):
    """``azure-scheduled-events-exporter run`` on a free port; ``command`` is another way to call
    the program.
    """

    def __init__(
        self,
        endpoint: str,
        output: Path,
        *flags: str,
        command: Sequence[str] = (COMMAND,),
        **env: str,
    ) -> None:
        base = [*command, "run", "--imds.endpoint", endpoint, "--web.listen-address", "127.0.0.1:0"]
        journal = (
            []
            if any(flag.startswith("--journal.path") for flag in flags)
            else ["--journal.path", "memory"]
        )
        super().__init__([*base, *journal, *flags], output, **env)
        try:
            self.port = int(self.wait_for_line(r"msg\W+listening.*\bport\W+(\d+)")[1])
        except BaseException:
            self.kill()
            raise
        self.url = f"http://127.0.0.1:{self.port}"

    def scrape(self) -> Scrape:
        """Return its metrics now."""
        answer = fetch(f"{self.url}/metrics")
        assert answer.status == 200, answer
        return Scrape(answer.body.decode())

    def shows(self, what: str, look: Callable[[Scrape], _Found]) -> _Found:
        """Return the first true value of ``look`` on its metrics; fail, naming ``what``, if there
        is none in time.
        """
        return eventually(lambda: look(self.scrape()), what)


class Server(Program):
    """A program of Debian that serves HTTP at ``{address}`` in its flags, from when it has logged
    ``ready``.

    Its port is one that the kernel gives it, unless one is named: no other server can have it.
    """

    def __init__(
        self, program: str, output: Path, ready: str, *flags: str, port: int = 0, **env: str
    ) -> None:
        address = f"127.0.0.1:{port}"
        named = (flag.replace("{address}", address) for flag in flags)
        super().__init__([debian(program), *named], output, **env)
        try:
            self.wait_for_line(ready)
            # Some log that they start before they listen.
            (listening,) = eventually(self._ports, "a port to listen on")
        except BaseException:
            self.kill()
            raise
        self.url = f"http://127.0.0.1:{listening}"

    def _ports(self) -> set[int]:
        sockets = psutil.Process(self.process.pid).net_connections("tcp")
        return {each.laddr.port for each in sockets if each.status == psutil.CONN_LISTEN}


class ConfiguredPrometheus(Server):
    """Debian's Prometheus with a configuration file, and its data and log in ``folder``."""

    def __init__(self, config: Path, folder: Path, *flags: str) -> None:
        own = (
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            "--web.listen-address={address}",
        )
        super().__init__(
            "prometheus",
            folder / "prometheus.log",
            "Server is ready to receive web requests",
            *own,
            *flags,
        )


class Prometheus(ConfiguredPrometheus):
    """A Prometheus that scrapes ``targets`` (host:port) every ``interval``.

    ``copy_to``: the URL of a VictoriaMetrics that it writes all series to. ``jobs``: further scrape
    configurations.
    """

    def __init__(
        self,
        folder: Path,
        *targets: str,
        interval: str = "1s",
        copy_to: str = "",
        jobs: Sequence[object] = (),
    ) -> None:
        # One shard keeps the order of samples, so that what has been sent last is older than what
        # has not.
        queue = {"max_shards": 1, "batch_send_deadline": "200ms"}
        content = {
            "global": {"scrape_interval": interval, "evaluation_interval": interval},
            "scrape_configs": [
                {"job_name": "exporter", "static_configs": [{"targets": targets}]},
                *jobs,
            ],
            "remote_write": [{"url": f"{copy_to}/api/v1/write", "queue_config": queue}]
            if copy_to
            else [],
        }
        (folder / "prometheus.yml").write_text(json.dumps(content))
        super().__init__(folder / "prometheus.yml", folder)

    def query(self, expression: str) -> dict[str, float]:
        """Return the values of ``expression`` now, each under its labels as ``a=b,c=d``."""
        result = self._api("query", query=expression)
        return {
            ",".join(f"{name}={value}" for name, value in sorted(series["metric"].items())): float(
                series["value"][1]
            )
            for series in result
        }

    def one(self, expression: str) -> float | None:
        """Return the value of the one series of ``expression``; None if there is none."""
        found = list(self.query(expression).values())
        assert len(found) <= 1, f"{len(found)} series of {expression}"
        return found[0] if found else None

    def _api(self, path: str, **parameters: str) -> list[dict[str, Any]]:
        query = urllib.parse.urlencode(parameters)
        answer = fetch(f"{self.url}/api/v1/{path}?{query}")
        assert answer.status == 200, answer.body
        result: list[dict[str, Any]] = json.loads(answer.body)["data"]["result"]
        return result
