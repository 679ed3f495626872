"""The commands as people run them: what they print, and the status that they end with."""

import json
import os
import re
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.commands.cli import main
from azure_scheduled_events_exporter.config import state_folder
from azure_scheduled_events_exporter.simulator import Scenario, Simulator, VirtualMachine
from support.certificates import Authority
from support.programs import COMMAND, PATIENCE, Exporter, Program, Scrape, environment, eventually, fetch, free_port

QUIET = Scenario("quiet", "Nothing happens.", (VirtualMachine("vm_0"), VirtualMachine("vm_1")), ())
NAME = "azure-scheduled-events-exporter"
EVENT_ID = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"
COMMANDS = ("run", "demo", "simulate", "events", "check-config")
FLAGS = (
    "imds.endpoint",
    "imds.api-version",
    "imds.timeout",
    "poll.interval",
    "instance.name",
    "web.listen-address",
    "web.telemetry-path",
    "web.config.file",
    "journal.path",
    "journal.retention",
    "approval.policy",
    "otlp.endpoint",
    "tracing.scope",
    "log.level",
    "log.format",
    "config.file",
)


def command(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [COMMAND, *arguments],
        env=environment(COLUMNS="100", **env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def assert_one_line(done: subprocess.CompletedProcess[str], status: int, *words: str) -> None:
    """It ended with ``status``, and its one line contains ``words``."""
    assert done.returncode == status, done
    assert done.stdout == ""
    assert re.fullmatch(rf"{NAME}: [^\n]+\n", done.stderr), done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


def helped(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return what a call for help prints; it ends with status 0."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """A simulator in which nothing happens by itself."""
    with Simulator(QUIET) as running:
        yield running


def place_event(simulator: Simulator) -> float:
    """Announce a Reboot of this VM and its neighbour; return its NotBefore."""
    not_before = float(int(time.time()) + 900)
    simulator.set_document(
        [
            {
                "EventId": EVENT_ID,
                "EventType": "Reboot",
                "ResourceType": "VirtualMachine",
                "Resources": ["vm_0", "vm_1"],
                "EventStatus": "Scheduled",
                "NotBefore": formatdate(not_before, usegmt=True),
                "Description": "Host server is undergoing maintenance.",
                "EventSource": "Platform",
                "DurationInSeconds": 30,
            }
        ]
    )
    return not_before


class TestHelp:
    """Help that teaches."""

    def test_version(self) -> None:
        """--version prints name and version."""
        done = command("--version")
        assert (done.returncode, done.stdout) == (0, f"{NAME} {__version__}\n")

    def test_help(self, capsys: pytest.CaptureFixture[str]) -> None:
        """--help names every command, and the one that a newcomer tries first."""
        said = helped(capsys, "--help")
        for name in COMMANDS:
            assert re.search(rf"\n    {name}\s", said)
        assert f"{NAME} demo" in said

    @pytest.mark.parametrize("name", ["run", "demo", "events", "check-config"])
    def test_settings(self, name: str, capsys: pytest.CaptureFixture[str]) -> None:
        """Each command that has settings names every flag with its default, and the other ways to set it."""
        said = " ".join(helped(capsys, name, "--help").split())
        for flag in FLAGS:
            assert f"--{flag} " in said
        for default in ("http://169.254.169.254", "2020-07-01", "10s", "1s", ":10169", "/metrics", "90d", "logfmt"):
            assert f"(default {default})" in said
        assert "AZURE_SCHEDULED_EVENTS_IMDS_ENDPOINT" in said

    def test_own_options_first(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A command's own options come before the settings, which stand in groups with their possible values."""
        said = helped(capsys, "events", "--help")
        places = [
            said.index(text) for text in ("--follow", "metadata service:", "--imds.endpoint", "traces:", "--otlp")
        ]
        assert places == sorted(places)
        plain = " ".join(said.split())
        for values in (
            "2019-08-01 or 2020-07-01",
            "debug, info, warning or error",
            "logfmt or json",
            "off, documented",
        ):
            assert values in plain

    def test_simulate(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The simulator has flags of its own."""
        said = helped(capsys, "simulate", "--help")
        for flag in ("scenario", "speed", "loop", "fault", "first-answer-delay", "empty-body", "web.listen-address"):
            assert f"--{flag}" in said

    def test_as_a_module(self) -> None:
        """Running the module does the same as the command."""
        module = [sys.executable, "-m", "azure_scheduled_events_exporter", "--version"]
        assert subprocess.check_output(module, env=environment(), text=True) == f"{NAME} {__version__}\n"


class TestUsage:
    """A usage error is one line, with status 2."""

    @pytest.mark.parametrize(
        ("arguments", "word"),
        [
            ((), "COMMAND"),
            (("fly",), "fly"),
            (("simulator",), "did you mean 'simulate'?"),
            (("run", "--poll.intervall", "1s"), "did you mean '--poll.interval'?"),
            (("history", "--jsn"), "did you mean '--json'?"),
            (("drill", "--alertmanager", "http://127.0.0.1:1:2"), "http://127.0.0.1:1:2"),
            (("--poll.interval", "1s"), "run --poll.interval"),
            (("--poll.interval=1s",), "run --poll.interval"),
            (("run", "--nope"), "--nope"),
            (("run", "--poll.interval"), "--poll.interval"),
            (("run", "--poll.inter", "1s"), "--poll.inter"),
            (("run", "surplus"), "surplus"),
            (("run", "--poll.interval", "soon"), "--poll.interval"),
            (("run", "--imds.api-version", "latest"), "2020-07-01"),
            (("run", "--imds.endpoint", "ftp://x"), "--imds.endpoint"),
            (("run", "--log.level", "loud"), "--log.level"),
            (("run", "--web.listen-address", "nowhere"), "--web.listen-address"),
            (("run", "--config.file", "/nonexistent/config.yml"), "/nonexistent/config.yml"),
            (("demo", "--speed", "fast"), "--speed"),
            (("demo", "--imds.endpoint", "http://127.0.0.1:1"), "--imds.endpoint"),
            (("simulate", "--scenario", "nothing-like-it"), "nothing-like-it"),
            (("events", "--poll.interval", "0"), "--poll.interval"),
        ],
    )
    def test_refused(self, arguments: tuple[str, ...], word: str, capsys: pytest.CaptureFixture[str]) -> None:
        """The line names what was wrong."""
        status = main(arguments)
        said = capsys.readouterr()
        assert_one_line(subprocess.CompletedProcess(arguments, status, said.out, said.err), 2, word)

    def test_status_of_the_process(self) -> None:
        """The process ends with that status."""
        assert_one_line(command("run", "--nope"), 2, "--nope", "--help")

    def test_bad_variable(self) -> None:
        """A bad value of an environment variable is named by the variable."""
        done = command("run", AZURE_SCHEDULED_EVENTS_POLL_INTERVAL="often")
        assert_one_line(done, 2, "AZURE_SCHEDULED_EVENTS_POLL_INTERVAL", "often")


class TestRun:
    """The daemon's beginning."""

    def test_off_azure(self, start_exporter: Callable[..., Exporter]) -> None:
        """If no metadata service can be reached, the log suggests what to try."""
        exporter = start_exporter(f"http://127.0.0.1:{free_port()}")
        [line] = eventually(lambda: exporter.lines("this VM's name is not known yet"), "the warning")
        assert f"try '{NAME} demo'" in line

    def test_environment_file(
        self, simulator: Simulator, start_exporter: Callable[..., Exporter], tmp_path: Path
    ) -> None:
        """--env-file gives the settings of a unit to an exporter that is started by hand."""
        file = tmp_path / "environment"
        file.write_text('AZURE_SCHEDULED_EVENTS_INSTANCE_NAME="from the file"\n')
        exporter = start_exporter(simulator.url, "--env-file", str(file))
        assert Scrape(fetch(f"{exporter.url}/metrics").body.decode()).series("instance_info", vm_name="from the file")

    def test_address_in_use(self, simulator: Simulator) -> None:
        """An address that is taken ends the exporter with one line that names it."""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            done = command(
                *("run", "--imds.endpoint", simulator.url, "--web.listen-address", address),
                *("--journal.path", "memory"),
            )
        assert_one_line(done, 1, address)

    def test_unknown_variable(self, simulator: Simulator, start_exporter: Callable[..., Exporter]) -> None:
        """A misspelt variable causes a warning with a suggestion; Kubernetes' own variables do not."""
        exporter = start_exporter(
            simulator.url,
            AZURE_SCHEDULED_EVENTS_POLL_INTERVALL="5s",
            AZURE_SCHEDULED_EVENTS_LOG_LEVEL="info",
            AZURE_SCHEDULED_EVENTS_EXPORTER_SERVICE_HOST="10.0.0.1",
        )
        [line] = exporter.lines("unknown environment variable")
        assert "level=warning" in line
        assert "AZURE_SCHEDULED_EVENTS_POLL_INTERVALL" in line
        assert "did you mean AZURE_SCHEDULED_EVENTS_POLL_INTERVAL?" in line

    def test_settings_hold(self, simulator: Simulator, start_exporter: Callable[..., Exporter], tmp_path: Path) -> None:
        """A flag wins over its variable, that over the file, that over the default."""
        file = tmp_path / "config.yml"
        file.write_text("poll: {interval: 7s}\ninstance.name: from-file\nweb.telemetry-path: /from-file\n")
        exporter = start_exporter(
            simulator.url,
            *("--config.file", str(file), "--instance.name", "from-flag"),
            AZURE_SCHEDULED_EVENTS_INSTANCE_NAME="from-variable",
            AZURE_SCHEDULED_EVENTS_POLL_INTERVAL="3s",
        )
        assert fetch(f"{exporter.url}/metrics").status == 404
        scrape = Scrape(fetch(f"{exporter.url}/from-file").body.decode())
        assert scrape.value("poll_interval_seconds") == 3
        assert len(scrape.series("instance_info", vm_name="from-flag")) == 1

    def test_json_log(self, simulator: Simulator, tmp_path: Path) -> None:
        """--log.format json writes one JSON object per line."""
        place_event(simulator)
        flags = ("--web.listen-address", "127.0.0.1:0", "--journal.path", "memory", "--log.format", "json")
        arguments = [COMMAND, "run", "--imds.endpoint", simulator.url, *flags]
        with Program(arguments, tmp_path / "run.log") as exporter:
            exporter.wait_for_line("event detected.*\n")
            assert exporter.terminate() == 0
        records = [json.loads(line) for line in exporter.log.splitlines()]
        [detected] = [record for record in records if record["msg"] == "event detected"]
        assert detected["level"] == "info"
        assert (detected["event_id"], detected["event_type"], detected["scope"]) == (EVENT_ID, "Reboot", "self")
        assert detected["resource_type"] == "VirtualMachine"


class TestEvents:
    """One question to IMDS, without a daemon."""

    def test_table(self, simulator: Simulator) -> None:
        """People get a table: who, what, when, whose."""
        place_event(simulator)
        done = command("events", "--imds.endpoint", simulator.url)
        assert (done.returncode, done.stderr) == (0, "")
        head, row = done.stdout.splitlines()
        assert head.split()[:4] == ["EventId", "Type", "Status", "Source"]
        for word in (
            EVENT_ID,
            "Reboot",
            "Scheduled",
            "Platform",
            "self",
            "vm_0, vm_1",
            "30s",
            "(in 1",
            "VirtualMachine",
        ):
            assert word in row

    def test_why_an_event_is_not_approved(self, simulator: Simulator, tmp_path: Path) -> None:
        """The table and the JSON say why the policy does not approve an event."""
        place_event(simulator)
        policy = tmp_path / "policy.yaml"
        policy.write_text("rules:\n  - {name: failover first, action: hold}\n")
        flags = ("--imds.endpoint", simulator.url, "--approval.policy", str(policy))
        assert "held by rule 'failover first'" in command("events", *flags).stdout
        [event] = json.loads(command("events", "--json", *flags).stdout)["events"]
        assert (event["approval"], event["approval_due"]) == ("held by rule 'failover first'", None)
        assert "the approval policy is off" in command("events", "--imds.endpoint", simulator.url).stdout

    def test_json(self, simulator: Simulator) -> None:
        """Scripts get JSON."""
        not_before = place_event(simulator)
        done = command("events", "--json", "--imds.endpoint", simulator.vm_url("vm_1"))
        assert (done.returncode, done.stderr) == (0, "")
        content = json.loads(done.stdout)
        assert content["up"] is True
        assert content["vm_name"] == "vm_1"
        [event] = content["events"]
        assert event["event_id"] == EVENT_ID
        assert event["scope"] == "self"
        assert event["resources"] == ["vm_0", "vm_1"]
        assert event["seconds_until_not_before"] == pytest.approx(not_before - time.time(), abs=20)

    def test_none(self, simulator: Simulator) -> None:
        """If there are no events, a sentence says so."""
        done = command("events", "--imds.endpoint", simulator.url)
        assert (done.returncode, done.stdout, done.stderr) == (0, "No events.\n", "")

    def test_imds_down(self) -> None:
        """If IMDS cannot be reached, one line reports it and the status is 1, unlike with no events."""
        url = f"http://127.0.0.1:{free_port()}"
        assert_one_line(
            command("events", "--imds.endpoint", url), 1, url, "Connection refused", f"{NAME} demo", f"{NAME} simulate"
        )

    def test_imds_hangs(self, simulator: Simulator, tmp_path: Path) -> None:
        """While no answer comes, the command prints what it waits for and what to try outside Azure."""
        simulator.inject("timeout")
        with Program([COMMAND, "events", "--imds.endpoint", simulator.url], tmp_path / "events.log") as events:
            assert f"{NAME} demo" in events.wait_for_line(r"waiting up to 130 s for (.*)\n")[1]

    @pytest.mark.parametrize("fault", ["500", "throttle", "not-json", "reset"])
    def test_imds_fails(self, fault: str, simulator: Simulator) -> None:
        """If IMDS gives no valid answer, one line reports it and the status is 1."""
        simulator.inject(fault)
        assert_one_line(command("events", "--imds.endpoint", simulator.url), 1)

    def test_name_not_known(self, simulator: Simulator) -> None:
        """Events are shown although IMDS does not say who this VM is."""
        place_event(simulator)
        done = command("events", "--imds.endpoint", simulator.url, "--instance.name", "elsewhere")
        assert done.returncode == 0
        assert " peer " in done.stdout

    def test_unreadable_entry(self, simulator: Simulator) -> None:
        """A document that is partly unreadable is reported as such, with status 1, and never as no events."""
        simulator.serve_body(b'{"DocumentIncarnation": 1, "Events": [5]}')
        done = command("events", "--imds.endpoint", simulator.url)
        assert done.returncode == 1, done
        assert "No events" not in done.stdout
        assert "Events[0]" in done.stderr


class TestCheckConfig:
    """What would hold, and why."""

    def test_good(self, tmp_path: Path) -> None:
        """Every setting is listed with its value and where it is set."""
        file = tmp_path / "config.yml"
        file.write_text("imds.timeout: 5s\n")
        done = command(
            *("check-config", "--config.file", str(file), "--log.level", "debug"),
            AZURE_SCHEDULED_EVENTS_POLL_INTERVAL="2s",
        )
        assert (done.returncode, done.stderr) == (0, "")
        for line in (
            "log.level: debug   [--log.level]",
            "poll.interval: 2s   [environment variable AZURE_SCHEDULED_EVENTS_POLL_INTERVAL]",
            f"imds.timeout: 5s   [{file}:1: imds.timeout]",
            "imds.api-version: 2020-07-01   [default]",
            f"journal.path: {state_folder(environment())}   [default]",
        ):
            assert line in done.stdout.splitlines()

    def test_warnings(self) -> None:
        """Settings that hide something are valid, and each is warned of: an old api-version, and rare polls."""
        done = command("check-config", "--imds.api-version", "2017-03-01", "--poll.interval", "2m")
        assert done.returncode == 0
        version, interval = done.stderr.splitlines()
        assert "2017-03-01 does not show events of type" in version
        assert "Preempt" in version
        assert "Terminate" in version
        assert "--poll.interval 2m is longer than 1m" in interval
        assert command("check-config", "--poll.interval", "1m").stderr == ""

    def test_environment_file(self, tmp_path: Path) -> None:
        """Settings of the unit's environment file hold for commands in a shell, with file and line as their place."""
        file = tmp_path / "environment"
        file.write_text(
            "# settings\n\nAZURE_SCHEDULED_EVENTS_POLL_INTERVAL=3s\nAZURE_SCHEDULED_EVENTS_LOG_LEVEL=debug\n"
        )
        done = command("check-config", "--env-file", str(file), AZURE_SCHEDULED_EVENTS_LOG_LEVEL="error")
        assert (done.returncode, done.stderr) == (0, "")
        lines = done.stdout.splitlines()
        assert f"poll.interval: 3s   [{file}:3: AZURE_SCHEDULED_EVENTS_POLL_INTERVAL]" in lines
        assert "log.level: error   [environment variable AZURE_SCHEDULED_EVENTS_LOG_LEVEL]" in lines

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("AZURE_SCHEDULED_EVENTS_POLL_INTERVAL=often\n", (":1: AZURE_SCHEDULED_EVENTS_POLL_INTERVAL", "often")),
            ("\nexport A=b\n", (":2: expected NAME=VALUE",)),
            ("AZURE_SCHEDULED_EVENTS_CONFIG_FILE=/nonexistent/config.yml\n", ("/nonexistent/config.yml",)),
        ],
    )
    def test_bad_environment_file(self, text: str, words: tuple[str, ...], tmp_path: Path) -> None:
        """A mistake in the environment file is reported in one line with file and line number."""
        file = tmp_path / "environment"
        file.write_text(text)
        assert_one_line(command("check-config", "--env-file", str(file)), 2, *words)

    def test_environment_file_that_is_not_there(self) -> None:
        """A file that was named and is missing is an error."""
        assert_one_line(command("events", "--env-file", "/nonexistent/environment"), 2, "/nonexistent/environment")

    @pytest.mark.parametrize(
        ("text", "where", "words"),
        [
            ("poll.intervall: 2s\n", ":1", ("poll.intervall", "poll.interval")),
            ("log.level: info\npoll.interval: often\n", ":2", ("poll.interval", "often")),
            ("poll: [\n", "", ()),
        ],
        ids=["unknown key", "bad value", "no YAML"],
    )
    def test_bad(self, text: str, where: str, words: tuple[str, ...], tmp_path: Path) -> None:
        """An error is one line with its place, and the status is 2."""
        file = tmp_path / "config.yml"
        file.write_text(text)
        assert_one_line(command("check-config", "--config.file", str(file)), 2, f"{file}{where}", *words)

    @pytest.mark.parametrize("name", ["check-config", "run"])
    def test_protocol_of_traces(self, name: str) -> None:
        """A protocol for traces that is not spoken here is refused by both, when there is a collector to send to."""
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
        flags = ("--imds.endpoint", "http://127.0.0.1:9", "--web.listen-address", "127.0.0.1:0", "--log.level", "error")
        done = command(name, *flags, "--journal.path", "memory", **variables)
        assert_one_line(done, 2, "OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc'", "unset it", "http/protobuf", "4318")

    @pytest.mark.parametrize("name", ["AZURE_SCHEDULED_EVENTS_LOG_LEVLE", "AZURE_SCHEDULED_EVENTS_" + "Q" * 60])
    def test_unknown_variable(self, name: str) -> None:
        """A misspelt variable is reported; a suggestion is made only if there is a similar name."""
        done = command("check-config", **{name: "debug"})
        assert done.returncode == 0
        assert re.fullmatch(r"[^\n]+\n", done.stderr)
        assert name in done.stderr
        assert ("did you mean AZURE_SCHEDULED_EVENTS_LOG_LEVEL?" in done.stderr) == name.endswith("LEVLE")
        assert "mean ?" not in done.stderr


class TestDemo:
    """The newcomer's first minute."""

    def test_all_event_types_move(self, tmp_path: Path) -> None:
        """The demo prints its addresses, and its metrics move through all five event types."""
        flags = ("--speed", "600", "--poll.interval", "250ms", "--web.listen-address", "127.0.0.1:0")
        with Program([COMMAND, "demo", *flags], tmp_path / "demo.log") as demo:
            url = demo.wait_for_line(r"metrics +(http://127\.0\.0\.1:\d+/metrics)\n")[1]
            assert demo.wait_for_line(r"simulator +(http://127\.0\.0\.1:\d+)")[1] != url
            seen: dict[str, set[str]] = {"pending": set(), "started": set()}

            def look() -> bool:
                scrape = Scrape(fetch(url).body.decode())
                for metric, types in seen.items():
                    types |= {labels["event_type"] for labels, value in scrape.series(metric) if value}
                detected = {
                    labels["event_type"]
                    for labels, value in scrape.series("transitions_total", transition="detected", scope="self")
                    if value
                }
                return detected >= {"Freeze", "Reboot", "Redeploy", "Preempt", "Terminate"}

            eventually(look, f"all five event types; seen {seen}", 90)
            assert len(seen["pending"]) >= 3, seen
            assert len(seen["started"]) >= 3, seen
            assert demo.terminate() == 0
        assert "Traceback" not in demo.log

    def test_environment_holds(self, tmp_path: Path) -> None:
        """A variable wins over the demo's own defaults, as over any default."""
        address = {"AZURE_SCHEDULED_EVENTS_WEB_LISTEN_ADDRESS": "127.0.0.1:0"}
        with Program([COMMAND, "demo"], tmp_path / "demo.log", **address) as demo:
            url = demo.wait_for_line(r"metrics +(http://127\.0\.0\.1:\d+/metrics)\n")[1]
            assert ":10169/" not in url
            assert fetch(url).status == 200

    def test_ipv6_address(self, tmp_path: Path) -> None:
        """The printed address of an IPv6 listener can be opened."""
        flags = ("--web.listen-address", "[::1]:0")
        with Program([COMMAND, "demo", *flags], tmp_path / "demo.log") as demo:
            url = demo.wait_for_line(r"metrics +(http://\[::1\]:\d+/metrics)\n")[1]
            assert fetch(url).status == 200

    def test_tls(self, tmp_path: Path) -> None:
        """With TLS configured, the printed addresses and the command use https and work unchanged."""
        authority = Authority(tmp_path)
        authority.server()
        file = tmp_path / "web.yml"
        file.write_text("tls_server_config: {cert_file: server.pem, key_file: server.key}\n")
        flags = ("--web.listen-address", "127.0.0.1:0", "--web.config.file", str(file))
        with Program([COMMAND, "demo", *flags], tmp_path / "demo.log") as demo:
            url = demo.wait_for_line(r"metrics +(https://127\.0\.0\.1:\d+/metrics)\n")[1]
            assert demo.wait_for_line(r"page +(\S+)\n")[1] == url.removesuffix("metrics")
            assert demo.wait_for_line(r"watch +curl -sk (\S+) ")[1] == url
            assert demo.wait_for_line(r"simulator +(http://127\.0\.0\.1:\d+)/")
            trusting = ssl.create_default_context(cafile=str(authority.own.certificate))
            handlers = (urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusting))
            with urllib.request.build_opener(*handlers).open(url, timeout=PATIENCE) as answer:
                assert answer.status == 200

    @pytest.mark.parametrize("name", ["demo", "simulate"])
    def test_reader_that_has_gone(self, name: str) -> None:
        """Piped into `head -1`, it continues until it is stopped, and prints no error."""
        flags = ("--speed", "6000", "--web.listen-address", "127.0.0.1:0")
        read, write = os.pipe()
        with subprocess.Popen(
            [COMMAND, name, *flags], stdout=write, stderr=subprocess.PIPE, env=environment(), text=True
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
