"""How a drill ends: what it leaves behind, what it counts as its own, and answers that it cannot use."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from alerts import resolve
from azure_scheduled_events_exporter.alertmanager.client import AlertmanagerClient
from azure_scheduled_events_exporter.commands.drill.team import Team
from azure_scheduled_events_exporter.errors import ExporterError
from deploy.stack.free_port import free_port
from support.monitoring.paging import Alertmanager, Receiver, Stack, receivers
from support.programs import COMMAND, Program, eventually
from support.servers.http_peer import Peer

FAST = {"scrape.interval": "1s", "evaluation.interval": "1s", "evaluation.slow-interval": "3s", "group.interval": "1s"}


@pytest.fixture
def start_drill(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Start a drill, ``start_drill("--alertmanager", URL)``, that ends with the test."""
    started: list[Program] = []

    def start(*flags: str) -> Program:
        started.append(Program([COMMAND, "drill", *flags], tmp_path / "drill.log", PYTHONUNBUFFERED="1"))
        return started[-1]

    yield start
    for each in started:
        each.kill()


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Alertmanager]:
    """An Alertmanager whose receivers do not matter, and which notifies at once."""
    settings = {**FAST, "group.wait": "0s"}
    with (
        Receiver() as receiver,
        Alertmanager(tmp_path, resolve({**receivers(receiver.url), **settings})) as alertmanager,
    ):
        yield alertmanager


def accepts(port: int) -> bool:
    """Return whether something listens on ``port``."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("way", [(), ("--push",)], ids=["posted", "pushed"])
def test_a_stopped_drill_resolves_its_alert(
    way: tuple[str, ...], team: Alertmanager, start_drill: Callable[..., Program]
) -> None:
    """A drill that gets SIGTERM while it waits for the page resolves its alert before it ends."""
    drill = start_drill("--alertmanager", team.url, *way, "--scenario", "live-migration", "--timeout", "10m")
    drill.wait_for_line("Alertmanager has the alert")
    assert drill.terminate() == 128 + 15
    assert team.alerts() == []


def test_a_stopped_drill_ends_its_exporter(team: Alertmanager, start_drill: Callable[..., Program]) -> None:
    """A drill that gets SIGTERM leaves no exporter that serves a simulated VM."""
    port = free_port()
    address = ("--exporter.listen-address", f"127.0.0.1:{port}", "--wait", "10m")
    drill = start_drill("--alertmanager", team.url, *address)
    eventually(lambda: accepts(port), "the exporter of the drill serves")
    assert drill.terminate() == 128 + 15
    eventually(lambda: not accepts(port), "the exporter of the drill has ended")


def test_nothing_pages_later(tmp_path: Path, start_drill: Callable[..., Program]) -> None:
    """After a drill over Prometheus the event is over for the rules, and the missing target is no VM in maintenance."""
    port, short = free_port(), {"maintenance.after": "1s"}  # at least four slow evaluations
    with Stack(tmp_path, {**FAST, **short}, [f"127.0.0.1:{port}"]) as stack:
        address = ("--exporter.listen-address", f"127.0.0.1:{port}", "--wait", "4s", "--after", "25s")
        drill = start_drill("--alertmanager", stack.alertmanager.url, "--timeout", "30s", *address)
        drill.wait_for_line("Alertmanager notified")
        assert drill.process.wait(60) == 0
        query = stack.prometheus.query
        assert query('ALERTS{event_id!=""}') == []
        missed = f'max_over_time(up{{instance="127.0.0.1:{port}"}}[8s]) == 0'
        eventually(lambda: query(missed), "two slow evaluations without the target")
        assert query("azure_scheduled_events:vm_maintenance_begin_timestamp_seconds") == []


def test_a_foreign_page_is_not_the_drills(tmp_path: Path, start_drill: Callable[..., Program]) -> None:
    """A notification while the drill waits for Prometheus does not count as that of the drill."""
    port = free_port()
    with Stack(tmp_path, FAST, [f"127.0.0.1:{port}"]) as stack:
        address = ("--exporter.listen-address", f"127.0.0.1:{port}", "--wait", "6s", "--after", "1s")
        info = ("--scenario", "live-migration", "--timeout", "10s")
        drill = start_drill("--alertmanager", stack.alertmanager.url, *info, *address)
        drill.wait_for_line("scrape http")
        client = Team(AlertmanagerClient(stack.alertmanager.url, None))
        client.post({"alertname": "AzureScheduledEventReboot", "severity": "critical"}, {"summary": "Foreign."}, 300)
        eventually(lambda: stack.receiver.notified("/pager"), "the foreign page")
        assert "announced" not in drill.log
        assert drill.process.wait(60) == 1
        assert "severity info notifies nobody" in drill.log


@pytest.mark.parametrize(
    ("scenario", "values"),
    [
        ("host-failure", ""),
        ("live-migration", "freeze.short: 3s"),
        ("user-reboot", "degraded-host.notice: 5m"),
        ("spot-preempt", "preempt.severity: critical"),
        ("spot-preempt", "spot.severity: critical\nlabels.keep: [location, team]"),
    ],
)
def test_posted_is_what_is_pushed(
    scenario: str, values: str, tmp_path: Path, team: Alertmanager, start_drill: Callable[..., Program]
) -> None:
    """Routes of the team treat a posted drill as the real alert: it has the labels of the pushed one, and drill."""
    file = tmp_path / "values.yaml"
    file.write_text(values)
    flags = ("--alertmanager", team.url, "--scenario", scenario, "--alerts.values", str(file), "--keep")
    for way in ((), ("--push",)):
        assert start_drill(*flags, *way).process.wait(60) == 0
    posted, pushed = sorted(team.alerts(), key=lambda alert: "drill" not in alert["labels"])
    assert {**posted["labels"], "event_id": ""} == {**pushed["labels"], "event_id": "", "drill": "true"}
    assert posted["receivers"] == pushed["receivers"]
    assert posted["annotations"]["vms"] == pushed["annotations"]["vms"]


@pytest.mark.parametrize("body", [b"[1]", b"[{}]", b'[{"status": 1, "receivers": 2}]', b"{}x", b"7"])
def test_alerts_of_another_form(body: bytes) -> None:
    """A server that answers with something else than alerts is reported in one line."""
    with (
        Peer(body=body) as peer,
        pytest.raises(ExporterError, match="not with alerts: is it an Alertmanager"),
    ):
        Team(AlertmanagerClient(peer.url, None)).holding('drill="true"', "Any")


def test_braces_in_the_name_of_a_receiver() -> None:
    """Counts are read whatever other labels contain."""
    body = rb"""
alertmanager_notification_requests_total{integration="webhook",receiver_name="a}b"} 3
alertmanager_notification_requests_total{receiver_name="{c\"} ,integration=",integration="webhook"} 4
alertmanager_notification_requests_failed_total{integration="email",receiver_name="\\"} 1
"""
    with Peer(body=body) as peer:
        sent = Team(AlertmanagerClient(peer.url, None)).sent()
    assert sent.delivered == {"webhook": 7}
    assert sent.failed == {"email": 1}
