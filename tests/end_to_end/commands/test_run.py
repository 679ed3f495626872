"""The beginning of ``run``: what it says and what holds, from flags, variables and files."""

import json
import socket
from collections.abc import Callable
from pathlib import Path

from azure_scheduled_events_exporter.simulator import Simulator
from support.commands import EVENT_ID, NAME, assert_one_line, command, place_event
from support.programs import COMMAND, NOBODY, Exporter, Program, Scrape, eventually, fetch


def test_off_azure(start_exporter: Callable[..., Exporter]) -> None:
    """If no metadata service can be reached, the log suggests what to try."""
    exporter = start_exporter(f"http://{NOBODY}")
    [line] = eventually(lambda: exporter.lines("VM name unknown"), "the warning")
    assert f"try '{NAME} demo'" in line


def test_address_in_use(simulator: Simulator) -> None:
    """An address that is taken ends the exporter with one line that names it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = command(
            *("run", "--imds.endpoint", simulator.url, "--web.listen-address", address),
            *("--journal.path", "memory"),
        )
    assert_one_line(done, 1, address)


def test_settings_hold(
    simulator: Simulator, start_exporter: Callable[..., Exporter], tmp_path: Path
) -> None:
    """A flag wins over its variable, that over the unit's environment file, then the configuration
    file, then the default.
    """
    file = tmp_path / "config.yml"
    unit = tmp_path / "environment"
    file.write_text(
        "instance.name: from-file\n"
        "poll: {interval: 7s}\n"
        "web.telemetry-path: /from-file\n"
        "approval.policy: documented\n"
    )
    unit.write_text(
        "AZURE_SCHEDULED_EVENTS_POLL_INTERVAL=9s\n"
        "AZURE_SCHEDULED_EVENTS_WEB_TELEMETRY_PATH=/from-unit\n"
    )
    exporter = start_exporter(
        simulator.url,
        *("--config.file", str(file), "--env-file", str(unit), "--instance.name", "from-flag"),
        AZURE_SCHEDULED_EVENTS_INSTANCE_NAME="from-variable",
        AZURE_SCHEDULED_EVENTS_POLL_INTERVAL="3s",
    )
    # At the path of the unit's file, which counts for more than that of the configuration file.
    scrape = Scrape(fetch(f"{exporter.url}/from-unit").body.decode())
    assert len(scrape.series("instance_info", vm_name="from-flag")) == 1
    assert scrape.value("poll_interval_seconds") == 3, "that of the variable"
    assert fetch(f"{exporter.url}/metrics").status == 404, "not the default of the path"
    assert scrape.series("approval_policy_info", policy="documented"), "only the file has one"


def test_settings_that_are_likely_mistakes(
    simulator: Simulator, start_exporter: Callable[..., Exporter]
) -> None:
    """A misspelled variable, and a flag that is written twice with different values, cause a
    warning each; the variables that Kubernetes adds cause none.
    """
    exporter = start_exporter(
        simulator.url,
        *("--alertmanager.url", "http://127.0.0.1:9"),
        *("--alertmanager.url", "http://127.0.0.1:19"),
        AZURE_SCHEDULED_EVENTS_POLL_INTERVALL="5s",
        AZURE_SCHEDULED_EVENTS_EXPORTER_SERVICE_HOST="10.0.0.1",  # as Kubernetes adds it
    )
    [line] = exporter.lines("unknown environment variable")
    assert "level=warning" in line
    assert "did you mean AZURE_SCHEDULED_EVENTS_POLL_INTERVAL?" in line
    [line] = exporter.lines("--alertmanager.url is written more than once")
    assert "level=warning" in line


def test_json_log(simulator: Simulator, tmp_path: Path) -> None:
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
    assert detected["event_id"] == EVENT_ID
    assert detected["event_type"] == "Reboot"
    assert detected["scope"] == "self"
    assert detected["resource_type"] == "VirtualMachine"
