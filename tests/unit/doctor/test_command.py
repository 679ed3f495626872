"""The command ``doctor`` on one VM: what it asks, and what its report never has."""

from pathlib import Path

import pytest

from azure_scheduled_events_exporter import DOCUMENTATION
from azure_scheduled_events_exporter.simulator import Simulator
from support.commands import command
from support.doctor.doctor_chain import doctor
from support.programs import NOBODY, Exporter
from support.servers.http_peer import Peer

PUSHING = {"AZURE_SCHEDULED_EVENTS_ALERTMANAGER_URL": f"http://{NOBODY}"}


def _flags_on_the_vm(simulator: Simulator, exporter: Exporter) -> dict[str, str | None]:
    """Return the flags of a doctor on the exporter's VM."""
    address = f"127.0.0.1:{exporter.port}"
    return {"imds.endpoint": simulator.url, "web.listen-address": address, "journal.path": "memory"}


def test_an_exporter_that_does_not_push_yet(simulator: Simulator, tmp_path: Path) -> None:
    """The address of an Alertmanager was set, but the exporter was not restarted since: doctor says
    that it pushes no alerts.
    """
    with Exporter(simulator.url, tmp_path / "log") as exporter:
        exporter.shows("a poll", lambda scrape: scrape.value("up") == 1)
        report = doctor(_flags_on_the_vm(simulator, exporter), **PUSHING)
        (found,) = report.of("exporter-deliveries")
    assert found["mark"] == "wrong"
    assert "pushes no alerts, although --alertmanager.url is set" in found["sentence"]


@pytest.mark.parametrize(
    ("status", "mark", "sentence"),
    [
        (200, "ok", "Alertmanager accepted the last push."),
        (401, "wrong", "The exporter cannot push alerts to Alertmanager."),
    ],
)
def test_an_exporter_that_pushes(
    simulator: Simulator, tmp_path: Path, status: int, mark: str, sentence: str
) -> None:
    """Doctor says whether Alertmanager accepts what the running exporter pushes."""
    with (
        Peer(status) as alertmanager,
        Exporter(
            simulator.url, tmp_path / "log", "--alertmanager.url", alertmanager.url
        ) as exporter,
    ):
        up_after_the_push = float(mark == "ok")
        exporter.shows(
            "a push", lambda scrape: scrape.value("alertmanager_up") == up_after_the_push
        )
        pushing = {"AZURE_SCHEDULED_EVENTS_ALERTMANAGER_URL": alertmanager.url}
        report = doctor(_flags_on_the_vm(simulator, exporter), **pushing)
        (found,) = report.of("exporter-deliveries")
    assert (found["mark"], found["sentence"]) == (mark, sentence)


def test_the_servers_are_named_first(tmp_path: Path) -> None:
    """Before it asks anybody, doctor says whom it will ask, passwords aside."""
    with_password = f"http://me:sesame@{NOBODY}"
    flags = ("--journal.path", str(tmp_path), "--web.listen-address", NOBODY)
    asked = [f"--{name}={with_password}" for name in ("prometheus", "alertmanager", "grafana")]
    done = command("doctor", *flags, "--imds.endpoint", f"http://{NOBODY}", *asked)
    shown = f"http://***@{NOBODY}"
    assert done.stdout.splitlines()[0] == (
        f"doctor asks: the metadata service at http://{NOBODY}, the exporter at"
        f" http://{NOBODY}, Prometheus at {shown}, Alertmanager at {shown}, Grafana at {shown}"
    )


def test_requests_stay_within_the_budget(tmp_path: Path) -> None:
    """Doctor sends the metadata service at most one request in 1.1 s, and only reads."""
    with Simulator() as simulator:
        flags = {
            "imds.endpoint": simulator.url,
            "journal.path": str(tmp_path),
            "web.listen-address": NOBODY,
        }
        doctor(flags)
        first, second = simulator.requests
    assert (first.method, second.method) == ("GET", "GET")
    assert second.at - first.at >= 1.1


def test_each_problem_has_its_page(tmp_path: Path) -> None:
    """A finding that is wrong or a warning has the address of a page, in JSON and for people; one
    that is well has none.
    """
    flags: dict[str, str | None] = {
        "imds.endpoint": f"http://{NOBODY}",
        "journal.path": str(tmp_path),
        "web.listen-address": NOBODY,
    }
    report = doctor(flags)
    pages = {found["check"]: found["page"] for found in report.complaints}
    assert pages["served"] == f"{DOCUMENTATION}runbooks/AzureScheduledEventExporterDown.md"
    assert all(pages.values())
    assert {each["page"] for each in report.findings if each not in report.complaints} == {""}
    done = command("doctor", *(f"--{name}={value}" for name, value in flags.items()))
    assert f"\n    See {pages['served']}\n" in done.stdout


def test_passwords_are_not_shown(tmp_path: Path) -> None:
    """A password in an address never appears in the report."""
    flags = {
        "imds.endpoint": f"http://{NOBODY}",
        "journal.path": str(tmp_path),
        "web.listen-address": NOBODY,
    }
    servers = ("prometheus", "alertmanager", "grafana", "otlp.endpoint")
    report = doctor({**flags, **dict.fromkeys(servers, f"http://me:sesame@{NOBODY}")})
    assert f"http://***@{NOBODY}" in report.output
    assert "sesame" not in report.output
