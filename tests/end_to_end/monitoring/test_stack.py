"""The demo stack without containers, as ``make stack`` runs it, and the webhook that shows the
pages.
"""

import json
import re
import socket
import sys
from collections.abc import Iterator
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


def children(program: Program) -> list[psutil.Process]:
    """Return the processes that ``program`` has started."""
    return psutil.Process(program.process.pid).children(recursive=True)


def gone(processes: list[psutil.Process]) -> bool:
    """Whether none of them runs any more."""
    return all(map(ended, processes))


def ended(process: psutil.Process) -> bool:
    """Whether it runs no more, also while nobody has asked for its exit status."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_preempt_is_paged(tmp_path: Path) -> None:
    """A simulated eviction that all exporters see causes one page; at the end no process is left
    running.
    """
    # The story stands still until all five exporters are watched, then goes four times as fast as
    # in life.
    flags = ["--free-ports", "--folder", str(tmp_path / "stack")]
    with Program([STACK, *flags], tmp_path / "out.log", SPEED="0.001") as stack:
        pages = stack.wait_for_line(LISTENING + "/ +Pages: ")[1]
        prometheus = stack.wait_for_line(LISTENING + "/api/v1/alerts +Prometheus: ")[1]
        alertmanager = stack.wait_for_line(LISTENING + "/api/v2/alerts +Alertmanager: ")[1]
        simulator = stack.wait_for_line(LISTENING + "/simulator/record +Simulator: ")[1]
        assert "without what Debian has no package of: tempo, grafana" in stack.log
        assert "Grafana:" not in stack.log
        watched = "azure_scheduled_events_last_success_timestamp_seconds>0"
        eventually(lambda: len(query(prometheus, watched)) == EXPORTERS, "all are scraped")
        assert complaints(stack, tmp_path / "stack") == (0, [])

        play = fetch(f"{simulator}/simulator/play", "POST", b'{"scenario": "story", "speed": 4}')
        assert play.status == 200, play
        stack.wait_for_line(r"pages +\| [\d:]{8} PAGE     Preempt: .*\bweb-4\b")
        assert {
            each["labels"]["alertname"]
            for each in json.loads(fetch(f"{alertmanager}/api/v2/alerts").body)
        } >= {"AzureScheduledEventPreempt"}
        page = fetch(f"{pages}/").body.decode()
        [told] = re.findall(r'<li class="PAGE">.*<b>PAGE</b> Preempt: .*\bweb-4\b.*</li>', page)
        assert "  " not in told, "no gap where a link is left out"
        [link] = re.findall(rf'<a href="({pages}/runbooks/\w+\.md)">Runbook</a>', told)
        assert "Dashboard" not in told  # there is no Grafana
        runbook = fetch(link)
        assert runbook.body.startswith(b"# AzureScheduledEventPreempt")
        info = 'azure_scheduled_events_event_info{event_type="Preempt"}'
        seen = f"count(count by (instance) (count_over_time({info}[2m]))) == {EXPORTERS}"
        eventually(lambda: query(prometheus, seen), "all exporters see it")
        ended = f"azure_scheduled_events:event_ended and on (event_id) last_over_time({info}[10m])"
        eventually(lambda: query(prometheus, ended), "its end is known, which resolves it later")
        assert len(stack.lines("PAGE ")) == 1
        assert stack.lines("TICKET ") == []

        started = children(stack)
        assert len(started) == PROGRAMS
        assert stack.terminate() == 0
        assert gone(started)
        ports = {int(port) for port in re.findall(r"127\.0\.0\.1:([1-9]\d*)", stack.log)}
        assert len(ports) == PROGRAMS
        for port in ports:
            with socket.socket() as probe:
                assert probe.connect_ex(("127.0.0.1", port)) != 0


def small(folder: Path) -> Path:
    """Write a compose file of two simulators, ``first`` and ``second``; return its path."""
    port = {"first": 10170, "second": 10171}
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
        for name, published in port.items()
    }
    path = folder / "compose.yaml"
    path.write_text(yaml.safe_dump({"services": services}))
    return path


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Program]:
    """A stack of two simulators that is up."""
    flags = ["--free-ports", "--file", str(small(tmp_path)), "--folder", str(tmp_path / "stack")]
    with Program([STACK, *flags], tmp_path / "out.log") as stack:
        stack.wait_for_line(r"Everything is up\. Ctrl-C ends it\.")
        yield stack


def test_a_part_dies(two: Program) -> None:
    """If a part ends, one line names it and its log, and the other parts are stopped."""
    first, second = children(two)
    second.kill()
    assert two.process.wait(PATIENCE) == 1
    assert gone([first])
    (line,) = two.lines("stack: ")
    assert re.fullmatch(
        r"stack: second ended with status -9: .* \[.*/stack/logs/second\.log\]", line
    )


def test_killed(two: Program) -> None:
    """Even when it is killed, its parts do not outlive it."""
    started = children(two)
    assert len(started) == 2
    two.kill()
    eventually(lambda: gone(started), "the parts have ended")


def test_port_is_taken(tmp_path: Path) -> None:
    """If an address is in use, nothing is started, and the error says what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        path = small(tmp_path)
        # The second is to listen where the test listens; the first on any port.
        path.write_text(path.read_text().replace("10171", str(port)).replace(":10170:", ":0:"))
        with Program([STACK, "--file", str(path)], tmp_path / "out.log") as stack:
            assert stack.process.wait(PATIENCE) == 1
            said = (
                f"stack: 127.0.0.1:{port} cannot be had: Address already in use; end what listens"
                " there, or take any "
            )
            assert stack.log == said + "free ports: make stack STACK=--free-ports\n"


def notification(status: str) -> bytes:
    """Return what Alertmanager posts."""
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
def phone(tmp_path: Path) -> Iterator[tuple[Program, str]]:
    """The webhook and its address."""
    (tmp_path / "secret.md").write_text("secret")
    (tmp_path / "runbooks").mkdir()
    (tmp_path / "runbooks" / "Known.md").write_text("# Known")
    address = f"127.0.0.1:{free_port()}"
    addresses = f"http://{address}/  the pages\nhttp://pages.test/ a <host>\n"
    command = [sys.executable, PAGES, f"--listen={address}", f"--runbooks={tmp_path / 'runbooks'}"]
    with Program(command, tmp_path / "out.log", ADDRESSES=addresses) as program:
        program.wait_for_line("Pages and tickets")
        yield program, f"http://{address}"


def test_pages_and_tickets(phone: tuple[Program, str]) -> None:
    """A page, a ticket, and that one is resolved are a line each; the same again is none.

    On the page they are links, the newest first, without those that lead out of the demo.
    """
    program, url = phone
    notified = [
        ("/pager", "firing"),
        ("/pager", "firing"),
        ("/tickets", "firing"),
        ("/pager", "resolved"),
    ]
    for path, status in notified:
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


def test_the_ticket_that_the_page_promises() -> None:
    """The fault in demo-stack.md lasts long enough for its ticket."""
    page = (ROOT / "docs" / "demo-stack.md").read_text()
    (seconds,) = re.findall(r'\{"fault": "timeout", "seconds": (\d+)\}', page)
    settings = load(ROOT / "deploy" / "compose" / "values.yaml")
    (alert,) = (each for each in alerts(settings) if each.name.endswith("ImdsUnreachable"))
    (group,) = (each for each in groups(settings) if alert in each.alerts)
    late = parse_duration(group.interval) + parse_duration(settings.text("group.wait"))
    polls_and_scrapes = 10
    # Twice as late, for a machine that is slow.
    assert int(seconds) > parse_duration(alert.holds) + 2 * late + polls_and_scrapes


def complaints(stack: Program, folder: Path) -> tuple[int, list[str]]:
    """Return the exit status of doctor on the running stack, and the checks that are not ok."""
    prometheus = stack.wait_for_line(LISTENING + "/api/v1/alerts +Prometheus: ")[1]
    exporter = stack.wait_for_line(LISTENING + "/ +Status page of web-0")[1]
    success = "azure_scheduled_events_last_success_timestamp_seconds"
    watched = f"{success} > 0 and on (instance) count_over_time({success}[1m]) > 1"
    eventually(lambda: len(query(prometheus, watched)) == EXPORTERS, "all are scraped twice")
    [journal] = folder.glob("web-0/**/journal.sqlite")
    report = doctor(
        {
            "imds.endpoint": stack.wait_for_line(LISTENING + "/simulator/record +Simulator: ")[1],
            "web.listen-address": exporter.removeprefix("http://"),
            "journal.path": str(journal),
            "prometheus": prometheus,
            "alertmanager": stack.wait_for_line(LISTENING + "/api/v2/alerts +Alertmanager: ")[1],
        }
    )
    return report.status, [each["check"] for each in report.complaints]


def test_victoria_metrics(tmp_path: Path) -> None:
    """On VictoriaMetrics, doctor lists what the engine does not report and finds no fault, and the
    page is sent.
    """
    folder = tmp_path / "stack"
    flags = ["--free-ports", "--folder", str(folder), "--victoria"]
    with Program([STACK, *flags], tmp_path / "out.log", SPEED="0.001") as stack:
        # VictoriaMetrics does not say to which Alertmanager vmalert sends.
        assert complaints(stack, folder) == (0, ["alerting"])
        simulator = stack.wait_for_line(LISTENING + "/simulator/record +Simulator: ")[1]
        fetch(f"{simulator}/simulator/play", "POST", b'{"scenario": "story", "speed": 2}')
        stack.wait_for_line(r"pages +\| [\d:]{8} PAGE     Preempt: .*\bweb-4\b")
        assert stack.terminate() == 0
