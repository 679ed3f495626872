"""A team tries its own paging with the command drill."""

import argparse
import re
import socketserver
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from alerts import resolve
from alerts.groups import alerts
from alerts.pushed import pushed_alerts
from azure_scheduled_events_exporter.alertmanager.alert import parse_catalog
from azure_scheduled_events_exporter.alertmanager.client import AlertmanagerClient
from azure_scheduled_events_exporter.commands import drill
from azure_scheduled_events_exporter.commands.drill.story import alert_of_story, story_of
from azure_scheduled_events_exporter.commands.drill.team import Team
from azure_scheduled_events_exporter.errors import ExporterError, UsageError
from azure_scheduled_events_exporter.simulator.scenario import SHIPPED
from deploy.stack.free_port import free_port
from support.monitoring.paging import Alertmanager, Receiver, Stack, receivers
from support.programs import eventually
from support.servers.http_peer import Peer

FAST = {"scrape.interval": "1s", "evaluation.interval": "1s", "evaluation.slow-interval": "3s", "group.interval": "1s"}


def run(*flags: str) -> int:
    """Run the command as the command line does."""
    parser = argparse.ArgumentParser()
    drill.add_arguments(parser)
    return drill.run(parser.parse_args(flags))


def test_straight_to_alertmanager(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A drill pages once, is labeled as a drill, prints how long it took, and ends."""
    with Receiver() as receiver, Alertmanager(tmp_path, resolve({**receivers(receiver.url), **FAST})) as alertmanager:
        assert run("--alertmanager", alertmanager.url, "--timeout", "20s") == 0
    (told, *_) = receiver.notifications
    assert told.alerts() == [("AzureScheduledEventWithoutNotice", "critical", "firing")]
    assert told.body["commonLabels"]["drill"] == "true"
    assert "drill" in told.body["commonAnnotations"]["description"]
    assert told.body["commonAnnotations"]["vms"] == "DRILL-vmss_0 (scale set DRILL)"
    assert " s: Alertmanager notified: webhook" in capsys.readouterr().out


def test_the_whole_way(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulated failure of a host goes through exporter, Prometheus and Alertmanager to the pager.

    What is set for the VM's own exporter does not hold for that of the drill: this one would refuse to start.
    """
    monkeypatch.setenv("AZURE_SCHEDULED_EVENTS_LOG_LEVEL", "loud")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    port = free_port()
    with Stack(tmp_path, FAST, [f"127.0.0.1:{port}"]) as stack:
        address = ("--exporter.listen-address", f"127.0.0.1:{port}", "--wait", "4s", "--after", "1s")
        assert run("--alertmanager", stack.alertmanager.url, "--timeout", "30s", *address) == 0
        assert stack.receiver.notified("/pager")[0] == ("AzureScheduledEventWithoutNotice", "critical", "firing")
    assert "Reboot of DRILL-vmss_0 announced" in capsys.readouterr().out


def test_the_exporters_own_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a Prometheus, a simulated VM's exporter pushes the alert, and resolves it at the end."""
    with Receiver() as receiver:
        settings = resolve({**receivers(receiver.url), **FAST})
        with Alertmanager(tmp_path, settings) as alertmanager:
            assert run("--alertmanager", alertmanager.url, "--timeout", "20s", "--push") == 0
            assert receiver.notified("/pager")[0] == ("AzureScheduledEventWithoutNotice", "critical", "firing")
            assert alertmanager.alerts() == []
    assert "its exporter pushes AzureScheduledEventWithoutNotice" in capsys.readouterr().out


def test_receiver_is_broken(tmp_path: Path) -> None:
    """A drill whose page is not accepted fails with a message."""
    dead = f"http://127.0.0.1:{free_port()}"
    settings = resolve({**receivers(dead), **FAST})
    with Alertmanager(tmp_path, settings) as team, pytest.raises(ExporterError, match="notification failed: webhook"):
        run("--alertmanager", team.url, "--timeout", "5s")


def test_receiver_without_an_integration(tmp_path: Path) -> None:
    """A drill of an eviction fails if the receiver of tickets notifies nobody, whatever else is notified meanwhile."""
    with Receiver() as receiver:
        settings = resolve({**receivers(receiver.url), **FAST, "tickets.webhook-url": "", "tickets.email-to": ""})
        with Alertmanager(tmp_path, settings) as team:
            assert run("--alertmanager", team.url, "--timeout", "20s") == 0  # a page, whose end is notified meanwhile
            with pytest.raises(
                ExporterError, match=r"nobody is notified of \S+Preempt \(warning\): .*receivers: tickets;"
            ):
                run("--alertmanager", team.url, "--timeout", "20s", "--scenario", "spot-preempt")


def test_status_that_is_not_allowed() -> None:
    """A drill goes on if a proxy before Alertmanager does not let it read the configuration."""
    with Peer(status=403) as proxy:
        assert Team(AlertmanagerClient(proxy.url, None)).notifies(["pager"])


def test_info_reaches_nobody(tmp_path: Path) -> None:
    """A drill of an event with severity info prints that nobody was notified, and why."""
    with (
        Receiver() as receiver,
        Alertmanager(tmp_path, resolve({**receivers(receiver.url), **FAST})) as alertmanager,
        pytest.raises(ExporterError, match="severity info notifies nobody"),
    ):
        run("--alertmanager", alertmanager.url, "--timeout", "2s", "--scenario", "live-migration")
    assert receiver.notifications == []


@pytest.fixture
def quiet_team(tmp_path: Path) -> Iterator[Alertmanager]:
    """An Alertmanager that inhibits alerts of node_exporter while Azure works on a VM."""
    targets = {"maintenance.targets": "node-exporter", "maintenance.equal": "instance=host:9100"}
    dead = f"http://127.0.0.1:{free_port()}"
    with Alertmanager(tmp_path, resolve({**receivers(dead), **FAST, **targets})) as alertmanager:
        yield alertmanager


def test_inhibition(quiet_team: Alertmanager, capsys: pytest.CaptureFixture[str]) -> None:
    """A drill says whether an alert of the team's own stays quiet while Azure works on its VM, and takes both back."""
    address, vm = ("--alertmanager", quiet_team.url, "--timeout", "10s"), "instance=10.0.0.4:9100"
    assert run(*address, "--maintenance", f"alertname=InstanceDown,{vm}") == 0
    assert "InstanceDown is inhibited while its VM is in maintenance" in capsys.readouterr().out
    with pytest.raises(ExporterError, match="ReplicaLag is not inhibited while its VM is in maintenance"):
        run(*address, "--maintenance", f"alertname=ReplicaLag,{vm}")
    with pytest.raises(UsageError, match="--maintenance: the labels of an alert have an alertname"):
        run(*address, "--maintenance", vm)
    eventually(lambda: quiet_team.alerts() == [], "no alert of the drill is left")


@pytest.mark.parametrize("flags", [(), ("--push",)], ids=["posted", "pushed"])
def test_credentials(flags: tuple[str, ...], tmp_path: Path) -> None:
    """The drill, and the exporter that it starts, authenticate as the HTTP client configuration says."""
    (tmp_path / "http.yml").write_text("authorization: {credentials: sesame}\n")
    with Peer() as peer:
        with pytest.raises(ExporterError, match="is it an Alertmanager"):
            run("--alertmanager", peer.url, "--alertmanager.http-config.file", str(tmp_path / "http.yml"), *flags)
        assert peer.requests
        assert {headers.get("Authorization") for _, headers, _ in peer.requests} == {"Bearer sesame"}


def test_no_alertmanager() -> None:
    """A wrong address is reported in one line."""
    with pytest.raises(ExporterError, match=r"Alertmanager at http://127\S+: Connection refused$"):
        run("--alertmanager", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(UsageError, match="is not an address"):
        run("--alertmanager", "alerts:9093")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--timeout", "soon"), "--timeout: 'soon' is no duration"),
        (("--scenario", "all"), "--scenario: 'all' is not one scenario with events"),
        (("--scenario", "flood"), "'flood' is no scenario"),
        (("--alerts.values", "/no/values.yaml"), "--alerts.values: /no/values.yaml: "),
        (("--exporter.listen-address", "10169"), "--exporter.listen-address: '10169' is no listen address"),
        (("--push", "--exporter.listen-address", ":0"), "--push and --exporter.listen-address cannot be used together"),
    ],
)
def test_impossible_flags(flags: tuple[str, ...], said: str) -> None:
    """What cannot be is refused before anything is sent, by the name of the flag."""
    with Peer() as peer:
        with pytest.raises(UsageError, match=re.escape(said)):
            run("--alertmanager", peer.url, *flags)
        assert peer.requests == []


def test_event_without_vms(tmp_path: Path) -> None:
    """A scenario of one's own whose event names no VM is refused."""
    scenario = tmp_path / "nobody.yaml"
    scenario.write_text("description: Nobody.\nevents: [{type: Reboot, resources: []}]\n")
    with pytest.raises(UsageError, match="is not one scenario with events"):
        run("--alertmanager", "http://127.0.0.1:1", "--scenario", str(scenario))


@contextmanager
def dripping() -> Iterator[str]:
    """Serve answers that come byte by byte, for two seconds each; yield the address."""
    ended = threading.Event()

    class Drip(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1 << 16)
            self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n")
            with suppress(OSError):
                for _ in range(40):
                    if not ended.wait(0.05):
                        self.request.sendall(b"#")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Drip) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            ended.set()
            server.shutdown()


@pytest.mark.parametrize("flags", [(), ("--push",), ("--maintenance", "alertname=InstanceDown")])
def test_answer_byte_by_byte(flags: tuple[str, ...]) -> None:
    """An Alertmanager whose answer comes byte by byte is given up after the time limit of the drill."""
    with dripping() as url, pytest.raises(ExporterError, match=r": no whole answer within 0\.5 s$"):
        run("--alertmanager", url, "--timeout", "500ms", *flags)


@pytest.mark.parametrize("flags", [(), ("--maintenance", "alertname=InstanceDown")])
def test_redirect(flags: tuple[str, ...]) -> None:
    """An address that redirects is named in one line with the place it leads to, and nothing is sent there."""
    with Peer() as elsewhere, Peer(302, {"Location": elsewhere.url.replace("//", "//me:sesame@")}) as gate:
        with pytest.raises(ExporterError, match=r"answered 302: the redirect to http://\*\*\*@\S+ is not followed"):
            run("--alertmanager", gate.url, *flags)
        assert elsewhere.requests == []


DEFAULTS = {
    "live-migration": "ShortFreeze info",
    "host-maintenance": "Freeze warning",
    "user-reboot": "RebootRequested warning",
    "user-redeploy": "RedeployRequested warning",
    "spot-preempt": "Preempt warning",
    "terminate": "TerminateRequested warning",
    "cancelled": "Freeze warning",
    "host-failure": "WithoutNotice critical",
    "degraded-host": "DegradedHost warning",
    "rollout": "ShortFreeze info",
    "double-impact": "Freeze warning",
    "waiting-neighbors": "RebootRequested warning",
    "single-fault-domain": "Reboot critical",
}
UNCHANGED = ("spot-preempt", "host-failure", "degraded-host")
CHANGES: Mapping[str, Mapping[str, str]] = {
    "": {},
    "freeze.short: 3s": {"live-migration": "Freeze warning", "rollout": "Freeze warning"},
    "freeze.short: 60s": dict.fromkeys(("host-maintenance", "cancelled", "double-impact"), "ShortFreeze info"),
    "degraded-host.notice: 7d": {"degraded-host": "Redeploy critical"},
    "degraded-host.notice: 5m": {name: "DegradedHost warning" for name in DEFAULTS if name not in UNCHANGED},
    "spot.severity: critical": {"spot-preempt": "Preempt critical"},
    "reboot.severity: warning": {"single-fault-domain": "Reboot warning"},
}
"""Values, and the alerts of scenarios that differ with them."""


@pytest.mark.parametrize("values", CHANGES)
def test_alert_is_the_rules_own(values: str) -> None:
    """Each scenario raises the alert, with the severity, that rules rendered with the same values raise."""
    settings = resolve(dict(line.split(": ") for line in values.splitlines()))
    catalog = parse_catalog(pushed_alerts(settings))
    raised = {name: alert_of_story(story_of(name), catalog, time.time()).labels for name in SHIPPED}
    said = {name: f"{labels['alertname']} {labels['severity']}" for name, labels in raised.items()}
    assert said == {name: f"AzureScheduledEvent{text}" for name, text in {**DEFAULTS, **CHANGES[values]}.items()}
    rules = {(each.name, each.severity) for each in alerts(settings)}
    if "spot" not in values:  # rules choose that severity by a label of the series
        assert {(labels["alertname"], labels["severity"]) for labels in raised.values()} <= rules
