"""A team tries its own paging with the command drill, without a Prometheus."""

import argparse
import json
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.alerts import load, resolve
from azure_scheduled_events_exporter.commands.drill import command as drill
from azure_scheduled_events_exporter.errors import ExporterError, UsageError
from deploy.stack.free_port import free_port
from support.monitoring.paging import Alertmanager, Receiver, receivers
from support.programs import COMMAND, NOBODY, PATIENCE, Program, eventually, fetch
from support.servers.http_peer import Peer

WITHOUT_NOTICE = ("AzureScheduledEventWithoutNotice", "critical", "firing")


def run(*flags: str) -> int:
    """Run the command as the command line does."""
    parser = argparse.ArgumentParser()
    drill.add_arguments(parser)
    return drill.run(parser.parse_args(flags))


@pytest.fixture
def team(tmp_path: Path) -> Iterator[tuple[Alertmanager, Receiver]]:
    """An Alertmanager that tells of a resolve within a second, and the receiver of pages and
    tickets.
    """
    with Receiver() as receiver:
        settings = resolve({**receivers(receiver.url), "group.interval": "1s"})
        with Alertmanager(tmp_path, settings) as alertmanager:
            yield alertmanager, receiver


def test_no_time(capsys: pytest.CaptureFixture[str]) -> None:
    """A time limit of 0 is refused: no page could come."""
    with pytest.raises(SystemExit):
        run("--alertmanager", f"http://{NOBODY}", "--timeout", "0s")
    assert "--timeout: must be more than 0" in capsys.readouterr().err


def test_straight_to_alertmanager(
    team: tuple[Alertmanager, Receiver], capsys: pytest.CaptureFixture[str]
) -> None:
    """A drill pages once, is labeled as a drill, prints how long it took, and ends."""
    alertmanager, receiver = team
    assert run("--alertmanager", alertmanager.url, "--timeout", "20s") == 0
    page, *_resolved = receiver.notifications
    assert page.alerts() == [WITHOUT_NOTICE]
    assert page.body["commonLabels"]["drill"] == "true"
    assert "drill" in page.body["commonAnnotations"]["description"]
    assert "DRILL-vmss_0" in page.body["commonAnnotations"]["summary"]
    assert " s: Alertmanager notified: webhook" in capsys.readouterr().out
    assert alertmanager.alerts() == []


def test_the_exporters_own_way(
    team: tuple[Alertmanager, Receiver],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a Prometheus, a simulated VM's exporter pushes the alert. The drill resolves it, with
    the texts that the alert had.

    The drill's exporter does not read the variables that are set for the VM's own exporter: with
    these two, it would not start.
    """
    monkeypatch.setenv("AZURE_SCHEDULED_EVENTS_LOG_LEVEL", "loud")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    alertmanager, receiver = team
    assert run("--alertmanager", alertmanager.url, "--timeout", "20s", "--push") == 0
    assert receiver.notified("/pager")[0] == WITHOUT_NOTICE
    name, severity, _firing = WITHOUT_NOTICE
    receiver.wait_for([(name, severity, "resolved")])
    page, resolve, *_ = receiver.notifications
    [firing] = page.body["alerts"]
    [resolved] = resolve.body["alerts"]
    assert resolved["annotations"] == firing["annotations"]
    assert alertmanager.alerts() == []
    assert "its exporter pushes AzureScheduledEventWithoutNotice" in capsys.readouterr().out


@pytest.fixture
def start_drill(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Start a drill, ``start_drill("--alertmanager", URL)``, that ends with the test."""
    started: list[Program] = []

    def start(*flags: str) -> Program:
        started.append(
            Program([COMMAND, "drill", *flags], tmp_path / "drill.log", PYTHONUNBUFFERED="1")
        )
        return started[-1]

    yield start
    for each in started:
        each.kill()


def test_receiver_is_broken(tmp_path: Path) -> None:
    """A drill whose page is not accepted fails with a message."""
    settings = resolve(receivers(f"http://{NOBODY}"))
    with (
        Alertmanager(tmp_path, settings) as alertmanager,
        pytest.raises(ExporterError, match="notification failed: webhook"),
    ):
        run("--alertmanager", alertmanager.url, "--timeout", "5s")


def test_receiver_without_an_integration(tmp_path: Path) -> None:
    """A drill of an eviction fails if the receiver of tickets notifies nobody."""
    with Receiver() as receiver:
        settings = resolve(
            {**receivers(receiver.url), "tickets.webhook-url": "", "tickets.email-to": ""}
        )
        with (
            Alertmanager(tmp_path, settings) as alertmanager,
            pytest.raises(
                ExporterError,
                match=r"nobody of \S+Preempt within 2s: .* receivers.* --timeout .* group_interval",
            ),
        ):
            run("--alertmanager", alertmanager.url, "--timeout", "2s", "--scenario", "spot-preempt")


def test_what_it_waits_for(tmp_path: Path, start_drill: Callable[..., Program]) -> None:
    """A drill that waits for longer than some seconds prints what it waits for.

    It waits here for a ticket, as which the alert of ``spot-preempt`` would be sent: Alertmanager
    has no receiver of tickets.
    """
    with Receiver() as receiver:
        settings = resolve(
            {**receivers(receiver.url), "tickets.webhook-url": "", "tickets.email-to": ""}
        )
        with Alertmanager(tmp_path, settings) as alertmanager:
            drill = start_drill("--alertmanager", alertmanager.url, "--scenario", "spot-preempt")
            text = "waiting for Alertmanager to notify somebody, which may take 2m in all"
            drill.wait_for_line(f"{text}.*\n")


def test_info_reaches_nobody(team: tuple[Alertmanager, Receiver], tmp_path: Path) -> None:
    """A drill of an event with severity info fails, with the reason why nobody was notified."""
    values = tmp_path / "values.yaml"
    values.write_text("severities: {WithoutNotice: info}\n")
    alertmanager, receiver = team
    with pytest.raises(ExporterError, match="severity info notifies nobody"):
        run("--alertmanager", alertmanager.url, "--timeout", "2s", "--alerts.values", str(values))
    assert receiver.notifications == []


@pytest.fixture
def company(tmp_path: Path) -> Iterator[tuple[Alertmanager, Path]]:
    """An Alertmanager for the words sev1, sev2 and sev3, and the values file of its rules."""
    values = tmp_path / "the values.yaml"
    values.write_text("severities: {critical: sev1, warning: sev2, info: sev3}\n")
    with (
        Receiver() as receiver,
        Alertmanager(tmp_path, load(values, receivers(receiver.url))) as alertmanager,
    ):
        yield alertmanager, values


def test_words_of_a_company(
    company: tuple[Alertmanager, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """A drill with a severity that no route names fails, and with the values file it pages."""
    alertmanager, values = company
    address = ("--alertmanager", alertmanager.url, "--timeout", "20s")
    with pytest.raises(
        ExporterError,
        match=r"critical pages, but no route names it, .* \(tickets\)\. .* --alerts\.values",
    ):
        run(*address)
    assert run(*address, "--alerts.values", str(values)) == 0
    said = capsys.readouterr().out
    assert "Check that the page has arrived (severity sev1; receivers: pager)." in said
    assert run(*address, "--alerts.values", str(values), "--scenario", "spot-preempt") == 0
    said = capsys.readouterr().out
    assert "Check that the ticket has arrived (severity sev2; receivers: tickets)." in said


def test_a_page_that_a_route_takes_to_tickets(tmp_path: Path) -> None:
    """A drill fails if a team's own route sends its alert, which is to page, to tickets alone. That
    a later route names its severity does not help.
    """
    settings = resolve(receivers("http://127.0.0.1:1"))
    all_to_tickets = {"matchers": ['alertname=~".+"'], "receiver": "tickets"}
    with (
        Alertmanager(tmp_path, settings, routes=[all_to_tickets]) as alertmanager,
        pytest.raises(ExporterError, match="critical pages, but the alert went only to tickets,"),
    ):
        run("--alertmanager", alertmanager.url, "--timeout", "20s")


def test_an_archive_beside_the_pager(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A drill succeeds if the pager is notified, and an archive too. The receiver of tickets is the
    archive here.
    """
    archive = {"matchers": ['alertname=~".+"'], "receiver": "tickets", "continue": True}
    with Receiver() as receiver:
        # Tickets would wait for 30 s, which is longer than the drill does here.
        settings = resolve({**receivers(receiver.url), "group.wait": "0s"})
        with Alertmanager(tmp_path, settings, routes=[archive]) as alertmanager:
            assert run("--alertmanager", alertmanager.url, "--timeout", "20s") == 0
    assert "(severity critical; receivers: tickets, pager)." in capsys.readouterr().out


def test_a_word_that_the_drill_does_not_know(
    team: tuple[Alertmanager, Receiver], start_drill: Callable[..., Program]
) -> None:
    """If the rules of a Prometheus have another word for the severity, the drill fails and asks for
    their values.

    The test plays the Prometheus: it finds the event at the drill's exporter, and posts its alert.
    """
    alertmanager, _ = team
    address = f"127.0.0.1:{free_port()}"
    flags = ("--exporter.listen-address", address, "--wait", "0s", "--after", "0s")
    with start_drill("--alertmanager", alertmanager.url, *flags, "--timeout", "20s") as drill:
        drill.wait_for_line(
            "has begun without notice; AzureScheduledEventWithoutNotice should fire"
        )
        event_id, *_ = eventually(
            lambda: re.findall('event_info{.*event_id="([^"]+)"', metrics(address)), "the event"
        )
        name, _, _ = WITHOUT_NOTICE
        labels = {"alertname": name, "event_id": event_id, "severity": "sev9"}
        body = json.dumps([{"labels": labels}]).encode()
        headers = {"Content_Type": "application/json"}
        assert fetch(f"{alertmanager.url}/api/v2/alerts", "POST", body, **headers).status == 200
        assert drill.process.wait(PATIENCE) == 1, drill.log
    assert "severity sev9, but by the drill's settings critical: give --alerts.values" in drill.log


def metrics(address: str) -> str:
    """Return what is served to Prometheus at ``address``."""
    return fetch(f"http://{address}/metrics").body.decode()


def test_advice_repeats_the_files(tmp_path: Path) -> None:
    """A drill that fails advises to run ``doctor`` with the Alertmanager and the files that the
    drill had.
    """
    values = tmp_path / "the values.yaml"
    values.write_text("severities: {critical: sev1}\n")
    flags = ("--timeout", "2s", "--alerts.values", str(values))
    with Receiver() as receiver:
        settings = load(values, {**receivers(receiver.url), "pager.webhook-url": ""})
        with (
            Alertmanager(tmp_path, settings) as alertmanager,
            pytest.raises(
                ExporterError,
                match=r"run azure-scheduled-events-exporter doctor"
                rf" --alertmanager {alertmanager.url} --alerts.values '{values}', which",
            ),
        ):
            run("--alertmanager", alertmanager.url, *flags)


@pytest.mark.parametrize("flags", [(), ("--push",)], ids=["posted", "pushed"])
def test_credentials(flags: tuple[str, ...], tmp_path: Path) -> None:
    """The drill authenticates as the HTTP client configuration says, and so does the exporter that
    it may start: each request has the same credentials, whichever of the two sends it.
    """
    (tmp_path / "http.yml").write_text("authorization: {credentials: sesame}\n")
    with Peer() as peer:  # which notes the requests, and answers nothing that the drill accepts
        with pytest.raises(ExporterError, match="is it an Alertmanager"):
            run(
                "--alertmanager",
                peer.url,
                "--alertmanager.http-config.file",
                str(tmp_path / "http.yml"),
                *flags,
            )
        assert peer.requests
        assert {headers.get("Authorization") for _, headers, _ in peer.requests} == {
            "Bearer sesame"
        }


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (("--scenario", "all"), "--scenario: 'all' is not one scenario with events"),
        (("--scenario", "flood"), "'flood' is no scenario"),
        (
            ("--alertmanager", "alerts:9093"),
            "--alertmanager: is not the address of an Alertmanager: write http://",
        ),
        (("--alertmanager", "http://a:1,http://b:1"), "--alertmanager: give one address"),
        (("--alerts.values", "/no/values.yaml"), "--alerts.values: /no/values.yaml: "),
        (
            ("--push", "--exporter.listen-address", ":0"),
            "--push and --exporter.listen-address cannot be used together",
        ),
        (
            ("--maintenance", "alertname=InstanceDown"),
            "--maintenance: add --prometheus URL, to compare",
        ),
        (
            ("--maintenance", "alertname=InstanceDown", "--push"),
            "--push and --maintenance cannot be used together",
        ),
        (("--prometheus", "http://p:9090"), "--prometheus is only for --maintenance"),
    ],
)
def test_impossible_flags(flags: tuple[str, ...], complaint: str) -> None:
    """A flag that is wrong, or does not go with another one, is refused by its name before anything
    is sent.
    """
    with Peer() as peer:
        with pytest.raises(UsageError, match=re.escape(complaint)):
            run("--alertmanager", peer.url, *flags)
        assert peer.requests == []


@pytest.mark.parametrize("flags", [(), ("--push",)])
def test_redirect(flags: tuple[str, ...]) -> None:
    """An address that redirects is named in one line with the place it leads to, and nothing is
    sent there.
    """
    with (
        Peer() as elsewhere,
        Peer(302, {"Location": elsewhere.url.replace("//", "//me:sesame@")}) as gate,
    ):
        with pytest.raises(
            ExporterError, match=r"answered 302: the redirect to http://\*\*\*@\S+ is not followed"
        ):
            run("--alertmanager", gate.url, *flags)
        assert elsewhere.requests == []


@pytest.mark.parametrize("way", [(), ("--push",)], ids=["posted", "pushed"])
def test_a_stopped_drill_resolves_its_alert(
    way: tuple[str, ...], team: tuple[Alertmanager, Receiver], start_drill: Callable[..., Program]
) -> None:
    """A drill that gets SIGTERM while it waits for the notification resolves its alert before it
    ends.
    """
    alertmanager, _ = team
    drill = start_drill(
        "--alertmanager", alertmanager.url, *way, "--scenario", "spot-preempt", "--timeout", "10m"
    )
    drill.wait_for_line("Alertmanager has the alert")
    assert drill.terminate() == 128 + signal.SIGTERM
    assert alertmanager.alerts() == []


def test_posted_is_what_is_pushed(
    tmp_path: Path, team: tuple[Alertmanager, Receiver], start_drill: Callable[..., Program]
) -> None:
    """Routes of the team treat a posted drill as the real alert: it has the labels of the pushed
    one, and the label ``drill``. Each has an event of its own.
    """
    alertmanager, _ = team
    file = tmp_path / "values.yaml"
    file.write_text("severities: {Preempt: critical}\nlabels.add: {owner: web}\n")
    flags = (
        "--alertmanager",
        alertmanager.url,
        "--scenario",
        "spot-preempt",
        "--alerts.values",
        str(file),
        "--keep",
    )
    for way in ((), ("--push",)):
        assert start_drill(*flags, *way).process.wait(60) == 0
    (posted,) = [each for each in alertmanager.alerts() if "drill" in each["labels"]]
    (pushed,) = [each for each in alertmanager.alerts() if "drill" not in each["labels"]]
    labels = posted["labels"]
    assert {**labels, "event_id": pushed["labels"]["event_id"]} == {
        **pushed["labels"],
        "drill": "true",
    }
    assert labels["event_id"] != pushed["labels"]["event_id"]
    assert labels["owner"] == "web"
    assert posted["receivers"] == pushed["receivers"]
