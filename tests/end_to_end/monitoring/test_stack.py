"""The demo stack without containers, as ``make stack`` runs it, and the webhook that shows the
pages.
"""

import json
import re
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import yaml

from azure_scheduled_events_exporter.alerts import load
from azure_scheduled_events_exporter.alerts.groups import alerts, groups
from azure_scheduled_events_exporter.times import parse_duration
from deploy.stack.free_port import free_port
from support.doctor.doctor_chain import doctor
from support.monitoring.paging import query
from support.paths import ROOT
from support.programs import PATIENCE, Program, eventually, fetch

STACK = str(ROOT / "scripts" / "stack")
PAGES = str(ROOT / "deploy" / "compose" / "pages.py")
LISTENING = r"(http://127\.0\.0\.1:\d+)"
EXPORTERS = 5
PROGRAMS = EXPORTERS + 4
"""Simulator, Prometheus, Alertmanager and the webhook of pages; each listens on one port."""
PAGE = r"pages +\| [\d:]{8} PAGE     Preempt: .*\bweb-4\b"
"""The line by which the stack prints the page."""


@dataclass(frozen=True)
class Addresses:
    """The addresses of a running stack, as it prints them."""

    pages: str
    prometheus: str
    alertmanager: str
    simulator: str
    web_0: str  # the exporter of this VM


def addresses(stack: Program) -> Addresses:
    """Return the addresses once the stack has printed them all."""

    def printed(line: str) -> str:
        return stack.wait_for_line(LISTENING + line)[1]

    return Addresses(
        pages=printed("/ +Pages: "),
        prometheus=printed("/api/v1/alerts +Prometheus: "),
        alertmanager=printed("/api/v2/alerts +Alertmanager: "),
        simulator=printed("/simulator/record +Simulator: "),
        web_0=printed("/ +Status page of web-0"),
    )


def children(program: Program) -> list[psutil.Process]:
    """Return the processes that ``program`` has started."""
    return psutil.Process(program.process.pid).children(recursive=True)


def have_ended(processes: list[psutil.Process]) -> bool:
    """Return whether none of the processes runs any more."""
    return all(map(has_ended, processes))


def has_ended(process: psutil.Process) -> bool:
    """Return whether the process runs no more, also while nobody has asked for its exit status."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_preempt_is_paged(tmp_path: Path) -> None:
    """A simulated eviction that all exporters see causes one page; at the end no process is left
    running.
    """
    # The story stands still until all five exporters are watched.
    flags = ["--free-ports", "--folder", str(tmp_path / "stack")]
    with Program([STACK, *flags], tmp_path / "out.log", SPEED="0.001") as stack:
        at = addresses(stack)
        assert "without what Debian has no package of: tempo, grafana" in stack.log
        assert "Grafana:" not in stack.log
        assert doctor_on(at, tmp_path / "stack") == (0, [])

        play_story(at.simulator, speed=4)
        stack.wait_for_line(PAGE)
        alerts_there = json.loads(fetch(f"{at.alertmanager}/api/v2/alerts").body)
        names = {alert["labels"]["alertname"] for alert in alerts_there}
        assert "AzureScheduledEventPreempt" in names
        assert_page_is_shown(at.pages)
        info = 'azure_scheduled_events_event_info{event_type="Preempt"}'
        seen = f"count(count by (instance) (count_over_time({info}[2m]))) == {EXPORTERS}"
        eventually(lambda: query(at.prometheus, seen), "all exporters see it")
        ended = f"azure_scheduled_events:event_ended and on (event_id) last_over_time({info}[10m])"
        eventually(lambda: query(at.prometheus, ended), "its end is known, which resolves it later")
        assert len(stack.lines("PAGE ")) == 1
        assert stack.lines("TICKET ") == []

        started = children(stack)
        assert len(started) == PROGRAMS
        assert stack.terminate() == 0
        assert have_ended(started)
        ports = {int(port) for port in re.findall(r"127\.0\.0\.1:([1-9]\d*)", stack.log)}
        assert len(ports) == PROGRAMS
        for port in ports:
            with socket.socket() as probe:
                assert probe.connect_ex(("127.0.0.1", port)) != 0


def play_story(simulator: str, *, speed: float) -> None:
    """Let the simulator at this address play its story, ``speed`` times as fast as in life."""
    order = json.dumps({"scenario": "story", "speed": speed}).encode()
    answer = fetch(f"{simulator}/simulator/play", "POST", order)
    assert answer.status == 200, answer


def assert_page_is_shown(pages: str) -> None:
    """The webhook at this address shows the page with a link to its runbook, and none to a
    dashboard: there is no Grafana.
    """
    html = fetch(f"{pages}/").body.decode()
    [page] = re.findall(r'<li class="PAGE">.*<b>PAGE</b> Preempt: .*\bweb-4\b.*</li>', html)
    assert "  " not in page, "no gap where a link is left out"
    assert "Dashboard" not in page
    [link] = re.findall(rf'<a href="({pages}/runbooks/\w+\.md)">Runbook</a>', page)
    assert fetch(link).body.startswith(b"# AzureScheduledEventPreempt")


def two_simulators(folder: Path, first_port: int = 10170, second_port: int = 10171) -> Path:
    """Write a compose file of two simulators, ``first`` and ``second``; return its path."""
    ports = {"first": first_port, "second": second_port}
    health = [
        "CMD",
        "azure-scheduled-events-exporter",
        "events",
        "--imds.endpoint=http://127.0.0.1:10170",
    ]
    services = {
        name: {
            "image": "azure-scheduled-events-exporter:demo",
            "command": ["simulate", "--web.listen-address=:10170"],
            "ports": [f"127.0.0.1:{published}:10170"],
            "healthcheck": {"test": health},
        }
        for name, published in ports.items()
    }
    path = folder / "compose.yaml"
    path.write_text(yaml.safe_dump({"services": services}))
    return path


@pytest.fixture
def stack_of_two(tmp_path: Path) -> Iterator[Program]:
    """A stack of two simulators that is up."""
    file = two_simulators(tmp_path)
    flags = ["--free-ports", "--file", str(file), "--folder", str(tmp_path / "stack")]
    with Program([STACK, *flags], tmp_path / "out.log") as stack:
        stack.wait_for_line(r"Everything is up\. Ctrl-C ends it\.")
        yield stack


def test_a_part_dies(stack_of_two: Program) -> None:
    """If a part of a stack ends, one line names it and its log, and the other parts are stopped."""
    first, second = children(stack_of_two)
    second.kill()
    assert stack_of_two.process.wait(PATIENCE) == 1
    assert have_ended([first])
    (line,) = stack_of_two.lines("stack: ")
    assert re.fullmatch(
        r"stack: second ended with status -9: .* \[.*/stack/logs/second\.log\]", line
    )


def test_killed(stack_of_two: Program) -> None:
    """Even when the stack is killed, its parts do not outlive it."""
    started = children(stack_of_two)
    assert len(started) == 2
    stack_of_two.kill()
    eventually(lambda: have_ended(started), "the parts have ended")


def test_port_is_taken(tmp_path: Path) -> None:
    """If an address is in use, nothing is started, and the error says what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        # The second is to listen where the test listens; the first on any port.
        file = two_simulators(tmp_path, first_port=0, second_port=port)
        with Program([STACK, "--file", str(file)], tmp_path / "out.log") as stack:
            assert stack.process.wait(PATIENCE) == 1
            assert stack.log == (
                f"stack: 127.0.0.1:{port} cannot be had: Address already in use; end what listens"
                " there, or take any free ports: make stack STACK=--free-ports\n"
            )


def notification(status: str) -> bytes:
    """Return what Alertmanager posts about a Reboot: texts with HTML, a runbook below the address
    of the pages, and a dashboard elsewhere.
    """
    labels = {"alertname": "AzureScheduledEventReboot"}
    texts = {
        "summary": "<b>, vmss_1.",
        "description": "It  reboots.\n",
        "runbook_url": "http://pages.test/runbooks/Known.md",
        "dashboard_url": "http://elsewhere.test/d",
    }
    alert = {"status": status, "labels": labels, "annotations": texts}
    return json.dumps(
        {"status": status, "groupKey": "k", "commonLabels": labels, "alerts": [alert]}
    ).encode()


@pytest.fixture
def webhook(tmp_path: Path) -> Iterator[tuple[Program, str]]:
    """The webhook of pages, which is told two addresses to link to; and its own address."""
    (tmp_path / "secret.md").write_text("secret")
    (tmp_path / "runbooks").mkdir()
    (tmp_path / "runbooks" / "Known.md").write_text("# Known")
    address = f"127.0.0.1:{free_port()}"
    addresses = f"http://{address}/  the pages\nhttp://pages.test/ a <host>\n"
    command = [sys.executable, PAGES, f"--listen={address}", f"--runbooks={tmp_path / 'runbooks'}"]
    with Program(command, tmp_path / "out.log", ADDRESSES=addresses) as program:
        program.wait_for_line("Pages and tickets")
        yield program, f"http://{address}"


def test_pages_and_tickets(webhook: tuple[Program, str]) -> None:
    """The webhook prints a line for a page, for a ticket and for what is resolved, and none for a
    page that comes again.

    The web page lists them, the newest first, with links to runbooks; the dashboards lie outside
    the demo, so their links are left out. The addresses of the demo follow.
    """
    program, url = webhook
    posted = [
        ("/pager", "firing"),
        ("/pager", "firing"),  # the same again
        ("/tickets", "firing"),
        ("/pager", "resolved"),
    ]
    for path, status in posted:
        assert fetch(f"{url}{path}", "POST", notification(status)).status == 200
    runbook = "http://pages.test/runbooks/Known.md"
    after_the_time = len("HH:MM:SS ")
    assert [line[after_the_time:] for line in program.lines("<b>")] == [
        f"PAGE     Reboot: <b>, vmss_1: It reboots. {runbook}",
        f"TICKET   Reboot: <b>, vmss_1: It reboots. {runbook}",
        "resolved Reboot: <b>, vmss_1",
    ]
    answer = fetch(f"{url}/")
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    items = re.findall(r"<li.*</li>", answer.body.decode())
    assert [re.sub("<time>.*?</time>", "<time>", item) for item in items] == [
        '<li class="resolved"><time> <b>resolved</b> Reboot: &lt;b&gt;, vmss_1.</li>',
        (
            '<li class="TICKET"><time> <b>TICKET</b> Reboot: &lt;b&gt;, vmss_1. It reboots.'
            f' <a href="{runbook}">Runbook</a></li>'
        ),
        (
            '<li class="PAGE"><time> <b>PAGE</b> Reboot: &lt;b&gt;, vmss_1. It reboots.'
            f' <a href="{runbook}">Runbook</a></li>'
        ),
        f'<li><a href="{url}/">the pages</a></li>',
        '<li><a href="http://pages.test/">a &lt;host&gt;</a></li>',
    ]


def test_a_ticket_about_several_exporters(webhook: tuple[Program, str]) -> None:
    """If the alerts of a notification have different summaries, its line has that of the first
    alert, and how many alerts there are.
    """
    program, url = webhook
    body = json.loads(notification("firing"))
    [alert] = body["alerts"]
    another = {**alert, "annotations": {**alert["annotations"], "summary": "vmss_2"}}
    body["alerts"].append(another)
    fetch(f"{url}/tickets", "POST", json.dumps(body).encode())
    [line] = program.lines("TICKET")
    assert "<b>, vmss_1. (2 alerts in this message): It reboots." in line


def test_the_ticket_that_the_page_promises() -> None:
    """The fault in demo-stack.md lasts long enough for its ticket."""
    page = (ROOT / "docs" / "demo-stack.md").read_text()
    (seconds,) = re.findall(r'\{"fault": "timeout", "seconds": (\d+)\}', page)
    settings = load(ROOT / "deploy" / "compose" / "values.yaml")
    (alert,) = (each for each in alerts(settings) if each.name.endswith("ImdsUnreachable"))
    (group,) = (each for each in groups(settings) if alert in each.alerts)
    evaluated_late = parse_duration(group.interval)
    sent_late = parse_duration(settings.text("group.wait"))
    polls_and_scrapes = 10  # seconds, more than enough until the failed poll is in Prometheus
    # Twice as late, for a machine that is slow.
    late = 2 * (evaluated_late + sent_late) + polls_and_scrapes
    assert int(seconds) > parse_duration(alert.pending_for) + late


def doctor_on(at: Addresses, folder: Path) -> tuple[int, list[str]]:
    """Return the exit status of doctor on the stack, once all exporters are scraped, and the checks
    that are not ok. ``folder`` is the stack's.
    """
    success = "azure_scheduled_events_last_success_timestamp_seconds"
    watched = f"{success} > 0 and on (instance) count_over_time({success}[1m]) > 1"
    eventually(lambda: len(query(at.prometheus, watched)) == EXPORTERS, "all are scraped twice")
    [journal] = folder.glob("web-0/**/journal.sqlite")
    report = doctor(
        {
            "imds.endpoint": at.simulator,
            "web.listen-address": at.web_0.removeprefix("http://"),
            "journal.path": str(journal),
            "prometheus": at.prometheus,
            "alertmanager": at.alertmanager,
        }
    )
    return report.status, [each["check"] for each in report.complaints]


def test_victoria_metrics(tmp_path: Path) -> None:
    """On VictoriaMetrics, doctor lists what the engine does not report and finds no fault, and the
    page is sent.
    """
    folder = tmp_path / "stack"
    # The story stands still until doctor has looked; then it is played by hand.
    flags = ["--free-ports", "--folder", str(folder), "--victoria"]
    with Program([STACK, *flags], tmp_path / "out.log", SPEED="0.001") as stack:
        at = addresses(stack)
        # VictoriaMetrics does not say to which Alertmanager vmalert sends.
        assert doctor_on(at, folder) == (0, ["alerting"])
        play_story(at.simulator, speed=2)
        stack.wait_for_line(PAGE)
        assert stack.terminate() == 0
