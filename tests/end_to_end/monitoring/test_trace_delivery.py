"""What keeps spans from a collector: settings with which nothing can be sent, limits, and answers without an end."""

import subprocess
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.core.spans import trace_id
from azure_scheduled_events_exporter.simulator import Simulator
from support.events.gate import Nameless, Treatment
from support.monitoring.collector import ACCEPT, Collector, Reply
from support.programs import COMMAND, PATIENCE, Exporter, environment, eventually

Start = Callable[..., Exporter]
POLL = ("--poll.interval", "300ms", "--instance.name", "vmss_0")
EVENTS = 76


@pytest.fixture
def imds() -> Iterator[Simulator]:
    """A simulated IMDS without events until some are placed."""
    with Simulator() as running:
        running.set_document([])
        yield running


def event(number: int) -> dict[str, object]:
    """Return one of many events."""
    return {
        "EventId": f"602D9444-D2CD-49C7-8624-{number:012X}",
        "EventStatus": "Scheduled",
        "EventType": "Reboot",
        "ResourceType": "VirtualMachine",
        "Resources": ["vmss_0"],
        "NotBefore": formatdate(time.time() + 900, usegmt=True),
        "Description": "",
        "EventSource": "Platform",
        "DurationInSeconds": -1,
    }


class _NamedLater(Nameless):
    """An IMDS that answers the VM's name from the second question on."""

    def take(self, method: str, path: str, body: bytes) -> Treatment:
        """Refuse the first question for the name."""
        treated = super().take(method, path, body)
        self.named = self.named or "/metadata/instance" in path
        return treated


def test_spans_after_a_restart_name_their_vm(imds: Simulator, start_exporter: Start, tmp_path: Path) -> None:
    """Spans that waited over a restart name their VM, also if IMDS answers its name some seconds later."""
    with Collector(Reply(503)) as collector, _NamedLater(imds.url) as gate:
        flags = ("--otlp.endpoint", collector.url, "--poll.interval", "300ms", "--journal.path", str(tmp_path))
        exporter = start_exporter(imds.url, *flags)
        exporter.wait_for_line("this VM's name is known")
        imds.set_document([event(0)])
        exporter.shows("the span", lambda scrape: scrape.value("spans_queued") == 1)
        exporter.kill()
        collector.answer(ACCEPT)
        start_exporter(gate.url, *flags)
        eventually(lambda: collector.accepted, "the span")
        assert gate.named
        assert [span.resource.get("azure.vm.name") for span in collector.accepted] == ["vmss_0"]


@pytest.mark.parametrize(
    ("variable", "value", "complaint"),
    [
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "0", "OTEL_EXPORTER_OTLP_TIMEOUT: '0' is not a number of seconds"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "token=\u20ac", "OTEL_EXPORTER_OTLP_HEADERS: holds a character"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "grpc://127.0.0.1:9", "OTEL_EXPORTER_OTLP_ENDPOINT: "),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://[::1", "OTEL_EXPORTER_OTLP_ENDPOINT: "),
    ],
)
def test_what_can_never_be_sent(variable: str, value: str, complaint: str, imds: Simulator, tmp_path: Path) -> None:
    """With settings with which nothing could ever be sent, ``run`` ends at the start with a line that says so."""
    settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", variable: value}
    done = subprocess.run(
        [
            *(COMMAND, "run", "--imds.endpoint", imds.url, "--web.listen-address", "127.0.0.1:0"),
            *("--journal.path", str(tmp_path / "state")),
        ],
        check=False,
        capture_output=True,
        text=True,
        env=environment(**settings),
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert complaint in done.stderr
    assert "\u20ac" not in done.stderr


def test_a_collector_with_a_limit(imds: Simulator, start_exporter: Start) -> None:
    """Spans of a batch that is too large for the collector arrive in smaller ones, and none is refused."""
    with Collector() as collector:
        collector.limit = 5
        exporter = start_exporter(imds.url, *POLL, "--otlp.endpoint", collector.url)
        imds.set_document([event(number) for number in range(EVENTS)])
        eventually(lambda: len(collector.spans()) == EVENTS, "every span")
        exporter.shows("them", lambda scrape: scrape.value("spans_total", outcome="exported") == EVENTS)
        assert exporter.scrape().value("spans_total", outcome="failed") == 0


def test_a_collector_that_drips_its_answer(imds: Simulator, start_exporter: Start) -> None:
    """An answer that comes byte by byte is given up after the timeout, and the spans are sent again."""
    with Collector(Reply(drips=True), ACCEPT) as collector:
        exporter = start_exporter(imds.url, *POLL, "--otlp.endpoint", collector.url, OTEL_EXPORTER_OTLP_TIMEOUT="1")
        imds.set_document([event(0)])
        collector.wait_for("detected", trace_id=trace_id(str(event(0)["EventId"])))
        exporter.shows("it", lambda scrape: scrape.value("spans_total", outcome="exported") == 1)
        assert exporter.scrape().value("spans_total", outcome="failed") == 0
