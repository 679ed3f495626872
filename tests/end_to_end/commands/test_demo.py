"""The command demo: the newcomer's first minute, also beside a real exporter."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from support.programs import COMMAND, PATIENCE, Program, Scrape, environment, eventually, fetch
from support.servers.http_peer import Peer

FLAGS = ("--speed", "600", "--web.listen-address", "127.0.0.1:0")
ALL_TYPES = {"Freeze", "Reboot", "Redeploy", "Preempt", "Terminate"}


def test_simulated_events_stay_inside(tmp_path: Path) -> None:
    """A demo beside a real exporter sends nothing to its Alertmanager or collector."""
    with Peer() as real:
        config = tmp_path / "config.yaml"
        config.write_text("approval.policy: documented\nalertmanager.url: http://127.0.0.1:1\n")
        settings = {
            "AZURE_SCHEDULED_EVENTS_CONFIG_FILE": str(config),
            "AZURE_SCHEDULED_EVENTS_ALERTMANAGER_URL": real.url,
            "AZURE_SCHEDULED_EVENTS_OTLP_ENDPOINT": real.url,
            "OTEL_EXPORTER_OTLP_ENDPOINT": real.url,
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{real.url}/v1/traces",
        }
        with Program([COMMAND, "demo", *FLAGS], tmp_path / "demo.log", **settings) as demo:
            demo.wait_for_line("completed +Preempt")
            assert demo.terminate() == 0
        assert real.requests == []


def test_flags_of_the_demo(tmp_path: Path) -> None:
    """A demo that is given an Alertmanager as a flag pushes to it."""
    with Peer() as own:
        flags = (*FLAGS, "--alertmanager.url", own.url)
        with Program([COMMAND, "demo", *flags], tmp_path / "demo.log") as demo:
            demo.wait_for_line("simulator +http")
            eventually(own.alerts, "a simulated alert")
            assert demo.terminate() == 0


def test_all_event_types_move(tmp_path: Path) -> None:
    """The demo prints its addresses, and its metrics move through all five event types."""
    # A variable wins over the demo's own default, which is a fixed port.
    address = {"AZURE_SCHEDULED_EVENTS_WEB_LISTEN_ADDRESS": "127.0.0.1:0"}
    flags = ("--speed", "600", "--poll.interval", "250ms")
    with Program([COMMAND, "demo", *flags], tmp_path / "demo.log", **address) as demo:
        url = demo.wait_for_line(r"metrics +(http://127\.0\.0\.1:\d+/metrics)\n")[1]
        demo.wait_for_line(r"eviction lasts 0\.05 s at this speed.* --speed 10")
        assert demo.wait_for_line(r"simulator +(http://127\.0\.0\.1:\d+)")[1] != url
        current: dict[str, set[str]] = {"pending": set(), "started": set()}

        def has_moved() -> bool:
            scrape = Scrape(fetch(url).body.decode())
            for metric in current:
                current[metric] |= event_types(scrape, metric)
            detected = event_types(scrape, "transitions_total", transition="detected", scope="self")
            started = event_types(scrape, "transitions_total", transition="started", scope="self")
            # Starts are scraped as counters: at this speed, many states pass between two scrapes
            # of a busy machine. Of starts, three types are enough: a state too short to be polled
            # is not counted.
            return detected >= ALL_TYPES and len(started) >= 3 and all(current.values())

        eventually(has_moved, "all five event types", 90)
        assert demo.terminate() == 0
    assert "Traceback" not in demo.log


def event_types(scrape: Scrape, metric: str, **labels: str) -> set[str]:
    """Return the event types for which the metric is not 0."""
    return {have["event_type"] for have, value in scrape.series(metric, **labels) if value}


def steps_played(simulator: str) -> int:
    """Return how many steps of events the simulator at this address has played; the command prints
    each.
    """
    return len(json.loads(fetch(f"{simulator}/simulator/record").body)["record"])


@pytest.mark.parametrize("arguments", [("demo",), ("simulate", "--loop")])
def test_reader_that_has_gone(arguments: tuple[str, ...]) -> None:
    """A command that is piped into `head` continues until it is stopped, and prints no error."""
    flags = ("--speed", "6000", "--web.listen-address", "127.0.0.1:0")
    address = r"(?:simulator +|--imds\.endpoint )(http://127\.0\.0\.1:\d+)"
    running = subprocess.Popen(
        [COMMAND, *arguments, *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        text=True,
    )
    try:
        assert running.stdout
        simulator = next(filter(None, (re.search(address, line) for line in running.stdout)))[1]
        running.stdout.close()
        before = steps_played(simulator)
        eventually(lambda: steps_played(simulator) > before + 2, "lines that nobody reads")
        running.terminate()
        assert running.wait(PATIENCE) == 0
        assert running.stderr
        said = running.stderr.read()
        running.stderr.close()
    finally:
        running.kill()
        running.wait()
    assert "BrokenPipe" not in said
    assert "Traceback" not in said
