"""The commands as people run them: help, wrong usage, ``run`` and ``demo``."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.commands.cli import COMMANDS, main
from azure_scheduled_events_exporter.config.settings import SETTINGS
from azure_scheduled_events_exporter.simulator import Simulator
from support.commands import EVENT_ID, NAME, assert_one_line, command, place_event
from support.programs import (
    COMMAND,
    NOBODY,
    Exporter,
    Program,
    Scrape,
    environment,
    eventually,
    fetch,
)

NOWHERE = ("--imds.endpoint", "http://127.0.0.1:9")


@pytest.mark.parametrize(
    "program", [[COMMAND], [sys.executable, "-m", "azure_scheduled_events_exporter"]]
)
def test_version(program: list[str]) -> None:
    """--version prints name and version; running the module does the same as the command."""
    for words in (["--version"], ["run", "--version"]):
        said = subprocess.check_output([*program, *words], env=environment(), text=True)
        assert said == f"{NAME} {__version__}\n"


def test_help() -> None:
    """--help names every command, and each has a help of its own; all fit 80 columns."""
    said = command("--help").stdout
    assert f"{NAME} demo" in said
    assert max(map(len, said.splitlines())) <= 80
    for name in COMMANDS:
        assert re.search(rf"\n    {name}\s", said)
        own = command(name, "--help", COLUMNS="80").stdout
        assert own.startswith(f"usage: {NAME} {name} ")
        assert max(map(len, own.splitlines())) <= 80


@pytest.mark.parametrize("name", ["events", "approve", "hook", "history"])
def test_help_shows_what_matters(name: str) -> None:
    """The help of a command shows the settings that matter to it."""
    said = command(name, "--help").stdout
    assert "--journal.path " in said
    assert "--web.listen-address " not in said


@pytest.mark.parametrize("name", ["run", "check-config"])
def test_help_shows_settings(name: str) -> None:
    """The help of run and check-config names every flag with its default, and the other ways to set
    it.
    """
    said = " ".join(command(name, "--help").stdout.split())
    for setting in SETTINGS:
        assert f"--{setting.flag} " in said
        assert not setting.default or f"(default {setting.default})" in said
    assert "AZURE_SCHEDULED_EVENTS_POLL_INTERVAL" in said


class TestUsage:
    """A usage error is one line, with status 2."""

    @pytest.mark.parametrize(
        ("arguments", "word"),
        [
            ((), "name a command"),
            (("fly",), "fly"),
            (("simulator",), "did you mean 'simulate'?"),
            (("run", "--poll.intervall", "1s"), "did you mean '--poll.interval'?"),
            (("history", "--jsn"), "did you mean '--json'?"),
            (("drill", "--alertmanager", "http://127.0.0.1:1:2"), "http://127.0.0.1:1:2"),
            (("--poll.interval", "1s"), "run --poll.interval"),
            (("run", "--poll.interval"), "--poll.interval"),
            (("run", "surplus"), "surplus"),
            (("run", "--poll.interval", "soon"), "--poll.interval"),
            (("run", "--imds.api-version", "latest"), "2020-07-01, or"),
            (("run", "--config.file", "/nonexistent/config.yml"), "/nonexistent/config.yml"),
            (("demo", "--speed", "fast"), "--speed"),
            (("demo", "--imds.endpoint", "http://127.0.0.1:1"), "--imds.endpoint"),
            (("simulate", "--scenario", "x" * 300), "is no scenario"),
            (("run", "--imds.endpoin", "http://u:sesame@h"), "did you mean '--imds.endpoint'?"),
            (("--imds.endpoint=http://u:sesame@h",), "name a command first"),
            (
                ("check-config", "--imds.endpoint", "http://u:sesame@127.0.0.1/?x"),
                "write http://HOST[:PORT], or 'discover'\n",
            ),
            (("check-config", "--approval.policy", f"{'x' * 300}.yaml"), "--approval.policy"),
            (
                ("events", *NOWHERE, "--poll.interval", ""),
                "--poll.interval: has no value: write one, such as 1s",
            ),
            (
                ("events", *NOWHERE, "--follow", "--since", "last"),
                "--since: 'last' is not a position: use the 'cursor'",
            ),
            (("events", *NOWHERE, "--since", "3"), "events: --since and --mine need --follow"),
            (("events", *NOWHERE, "--mine"), "events: --since and --mine need --follow"),
            (
                ("check-config", "--env-file", "/nonexistent/environment"),
                "/nonexistent/environment",
            ),
            (
                ("history", "--documents", "--json"),
                "argument --json: not allowed with argument --documents",
            ),
            (
                ("drill", "--alertmanager", "http://h", "--alertmanager.http-config.file", "/no"),
                "file: /no: ",
            ),
        ],
    )
    def test_refused(
        self, arguments: tuple[str, ...], word: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The line names what was wrong, without a password."""
        status = main(arguments)
        said = capsys.readouterr()
        assert_one_line(subprocess.CompletedProcess(arguments, status, said.out, said.err), 2, word)
        assert "sesame" not in said.err


class TestRun:
    """The daemon's beginning."""

    def test_off_azure(self, start_exporter: Callable[..., Exporter]) -> None:
        """If no metadata service can be reached, the log suggests what to try."""
        exporter = start_exporter(f"http://{NOBODY}")
        [line] = eventually(lambda: exporter.lines("VM name unknown"), "the warning")
        assert f"try '{NAME} demo'" in line

    def test_address_in_use(self, simulator: Simulator) -> None:
        """An address that is taken ends the exporter with one line that names it."""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            done = command(
                *("run", "--imds.endpoint", simulator.url, "--web.listen-address", address),
                *("--journal.path", "memory"),
            )
        assert_one_line(done, 1, address)

    def test_settings_hold(
        self, simulator: Simulator, start_exporter: Callable[..., Exporter], tmp_path: Path
    ) -> None:
        """A flag wins over its variable, that over the unit's environment file, then the file, then
        the default.

        A misspelled variable, and a flag that is written twice with different values, cause a
        warning.
        """
        file, unit = tmp_path / "config.yml", tmp_path / "environment"
        file.write_text(
            "poll: {interval: 7s}\ninstance.name: from-file\nweb.telemetry-path: /from-file\n"
        )
        unit.write_text(
            'AZURE_SCHEDULED_EVENTS_POLL_INTERVAL=9s\nAZURE_SCHEDULED_EVENTS_JOURNAL_RETENTION="36h"\n'
        )
        exporter = start_exporter(
            simulator.url,
            *("--config.file", str(file), "--env-file", str(unit), "--instance.name", "from-flag"),
            *(
                "--alertmanager.url",
                "http://127.0.0.1:9",
                "--alertmanager.url",
                "http://127.0.0.1:19",
            ),
            AZURE_SCHEDULED_EVENTS_INSTANCE_NAME="from-variable",
            AZURE_SCHEDULED_EVENTS_POLL_INTERVAL="3s",
            AZURE_SCHEDULED_EVENTS_POLL_INTERVALL="5s",
            AZURE_SCHEDULED_EVENTS_EXPORTER_SERVICE_HOST="10.0.0.1",  # Kubernetes' own
        )
        assert fetch(f"{exporter.url}/metrics").status == 404
        scrape = Scrape(fetch(f"{exporter.url}/from-file").body.decode())
        assert scrape.value("poll_interval_seconds") == 3
        assert len(scrape.series("instance_info", vm_name="from-flag")) == 1
        [line] = exporter.lines("unknown environment variable")
        assert "level=warning" in line
        assert "did you mean AZURE_SCHEDULED_EVENTS_POLL_INTERVAL?" in line
        [line] = exporter.lines("--alertmanager.url is written more than once")
        assert "level=warning" in line

    def test_json_log(self, simulator: Simulator, tmp_path: Path) -> None:
        """--log.format json writes one JSON object per line."""
        place_event(simulator)
        flags = (
            "--web.listen-address",
            "127.0.0.1:0",
            "--journal.path",
            "memory",
            "--log.format",
            "json",
        )
        arguments = [COMMAND, "run", "--imds.endpoint", simulator.url, *flags]
        with Program(arguments, tmp_path / "run.log") as exporter:
            exporter.wait_for_line("event detected.*\n")
            assert exporter.terminate() == 0
        records = [json.loads(line) for line in exporter.log.splitlines()]
        [detected] = [record for record in records if record["msg"] == "event detected"]
        assert detected["level"] == "info"
        assert (detected["event_id"], detected["event_type"], detected["scope"]) == (
            EVENT_ID,
            "Reboot",
            "self",
        )
        assert detected["resource_type"] == "VirtualMachine"


class TestDemo:
    """The newcomer's first minute."""

    def test_all_event_types_move(self, tmp_path: Path) -> None:
        """The demo prints its addresses, and its metrics move through all five event types."""
        # Wins over the demo's own default.
        address = {"AZURE_SCHEDULED_EVENTS_WEB_LISTEN_ADDRESS": "127.0.0.1:0"}
        flags = ("--speed", "600", "--poll.interval", "250ms")
        with Program([COMMAND, "demo", *flags], tmp_path / "demo.log", **address) as demo:
            url = demo.wait_for_line(r"metrics +(http://127\.0\.0\.1:\d+/metrics)\n")[1]
            assert demo.wait_for_line(r"simulator +(http://127\.0\.0\.1:\d+)")[1] != url
            seen: dict[str, set[str]] = {"pending": set(), "started": set()}

            def look() -> bool:
                scrape = Scrape(fetch(url).body.decode())
                for metric, types in seen.items():
                    types |= {
                        labels["event_type"] for labels, value in scrape.series(metric) if value
                    }
                counted: dict[str, set[str]] = {"detected": set(), "started": set()}
                for transition, types in counted.items():
                    series = scrape.series("transitions_total", transition=transition, scope="self")
                    types |= {labels["event_type"] for labels, value in series if value}
                announced = counted["detected"] >= {
                    "Freeze",
                    "Reboot",
                    "Redeploy",
                    "Preempt",
                    "Terminate",
                }
                # At this speed, many states pass between two scrapes of a busy machine; counters
                # keep them.
                return announced and len(counted["started"]) >= 3 and all(seen.values())

            eventually(look, f"all five event types; seen {seen}", 90)
            assert demo.terminate() == 0
        assert "Traceback" not in demo.log

    @pytest.mark.parametrize("name", ["demo", "simulate"])
    def test_reader_that_has_gone(self, name: str) -> None:
        """Piped into `head -1`, it continues until it is stopped, and prints no error."""
        flags = ("--speed", "6000", "--web.listen-address", "127.0.0.1:0")
        read, write = os.pipe()
        with subprocess.Popen(
            [COMMAND, name, *flags],
            stdout=write,
            stderr=subprocess.PIPE,
            env=environment(),
            text=True,
        ) as running:
            os.close(write)
            with os.fdopen(read) as output:
                assert output.readline()
            time.sleep(1)  # in which much happens
            running.terminate()
            _, said = running.communicate(timeout=30)
        assert running.returncode == 0
        assert "BrokenPipe" not in said
        assert "Traceback" not in said
