"""What the command demo takes from the environment in which it runs, which may be that of a real
exporter.
"""

from pathlib import Path

from support.programs import COMMAND, Program, eventually
from support.servers.http_peer import Peer

FLAGS = ("--speed", "600", "--web.listen-address", "127.0.0.1:0")


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
