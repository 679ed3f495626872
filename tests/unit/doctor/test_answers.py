"""What doctor makes of answers that no version of a server gives, and of refusals."""

from collections.abc import Iterator

import pytest

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.alerts import Settings
from azure_scheduled_events_exporter.alerts.groups import alerts
from azure_scheduled_events_exporter.doctor.finding import Finding, counted
from azure_scheduled_events_exporter.doctor.metadata_service import _CLOCK_WRONG
from azure_scheduled_events_exporter.http_server.messages import plain
from support.doctor.canned_parts import (
    Replies,
    alertmanager,
    examined,
    exporter,
    finding_of,
    prometheus,
    target,
)
from support.doctor.doctor_chain import as_json, grafana
from support.programs import NOBODY
from support.servers.http_peer import Peer

_BOARD = next(path for path in grafana() if "/dashboards/" in path)


@pytest.mark.parametrize(
    ("part", "check", "replies"),
    [
        ("Exporter", "exporter", {**exporter(), "/api/v1/events": as_json([])}),
        ("Prometheus", "prometheus-reachable", {"/api/v1/status/buildinfo": as_json([])}),
        ("Prometheus", "prometheus-reachable", prometheus([target(labels=None)])),
        # A sample's time is no number.
        (
            "Prometheus",
            "prometheus-reachable",
            prometheus(query={"result": [{"metric": {"job": "a"}, "values": [["b", "1"]] * 2}]}),
        ),
        ("Alertmanager", "alertmanager-reachable", alertmanager("inhibit_rules: [a]")),
        ("Grafana", "grafana-reachable", {"/api/health": as_json([])}),
        ("Grafana", "grafana-reachable", grafana(**{_BOARD: as_json([])})),
    ],
)
def test_answers_of_another_form(part: str, check: str, replies: Replies) -> None:
    """An answer that this version does not know is a finding of its part, and does not end the
    report.
    """
    last = examined(part, replies)[-1]
    assert (last.check, last.mark) == (check, "wrong")
    assert "answers in another form than this version knows" in last.sentence


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (401, "Name a user in the address, or credentials in --prometheus.http-config.file."),
        (403, "Name a user in the address, or credentials in --prometheus.http-config.file."),
        (500, "Start it, or correct the address: --prometheus URL."),
    ],
)
def test_server_that_refuses(status: int, hint: str) -> None:
    """A server that wants a user is not said to be down, nor the other way round."""
    refusal = as_json({}, status)
    [found] = examined("Prometheus", {"/api/v1/status/buildinfo": refusal})
    assert (found.check, found.mark, found.hint) == ("prometheus-reachable", "wrong", hint)


@pytest.fixture(params=[f"http://me:sesame@{NOBODY}", f"http://me:sesame/2@{NOBODY}", 403, 407])
def _proxy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the environment name a proxy with a password: this address, or one with this answer."""
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    if isinstance(request.param, str):
        monkeypatch.setenv("http_proxy", request.param)
        yield
        return
    with Peer(request.param) as peer:
        monkeypatch.setenv("http_proxy", peer.url.replace("//", "//me:sesame@"))
        yield


@pytest.mark.usefixtures("_proxy")
@pytest.mark.parametrize(
    ("part", "flags"),
    [("Prometheus", {}), ("Traces", {"otlp.endpoint": "http://server.example"})],
)
def test_a_proxy_that_passes_nothing_on(part: str, flags: dict[str, str]) -> None:
    """What fails at a proxy of the environment is not said to be the server's fault for certain,
    and the proxy's password is not shown.
    """
    [found] = examined(part, {}, "http://server.example", flags)
    assert found.mark == "wrong"
    assert found.hint.startswith("A proxy of the environment (HTTP_PROXY, ")
    assert "try NO_PROXY=server.example." in found.hint
    assert "sesame" not in found.sentence + found.hint


def test_the_clock_is_judged_as_the_alert_judges_it() -> None:
    """The clock is wrong from where ClockOff fires."""
    [clock_off] = [each for each in alerts(Settings()) if each.name.endswith("ClockOff")]
    assert f" {_CLOCK_WRONG:g} s" in clock_off.meaning


def test_an_exporter_that_refuses_the_certificate() -> None:
    """An exporter that allows other names of client certificates is not another program."""
    replies = {**exporter(), "/-/healthy": (403, {}, plain(403).body)}
    served = finding_of("served", examined("Exporter", replies))
    assert served.mark == "warning"
    assert "End that program" not in served.hint


def version_found(running: str) -> Finding:
    """Return what doctor says of an exporter that runs this version."""
    replies = {**exporter(), "/api/v1/events": as_json({"version": running})}
    return finding_of("exporter-version", examined("Exporter", replies))


def test_an_exporter_that_was_not_restarted() -> None:
    """After an upgrade, an exporter that still runs the version before is to be restarted."""
    assert version_found(__version__).mark == "ok"
    found = version_found("0.0.1")
    assert found.mark == "warning"
    assert "systemctl restart" in found.hint


def test_numbers_of_things() -> None:
    """One warning is no "1 warnings"."""
    found = [counted(number, "warning") for number in (0, 1, 2)]
    assert found == ["0 warnings", "1 warning", "2 warnings"]
