"""What keeps spans from a collector: settings with which nothing can be sent, limits, and answers without an end."""

import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.simulator import Simulator
from support.events.gate import Nameless, Treatment
from support.events.imds_bodies import entry
from support.monitoring.collector import ACCEPT, Collector, Reply
from support.programs import Exporter, eventually

Start = Callable[..., Exporter]


@pytest.fixture
def imds() -> Iterator[Simulator]:
    """A simulated IMDS without events until some are placed."""
    with Simulator() as running:
        running.set_document([])
        yield running


def event(number: int) -> dict[str, object]:
    """Return one of many events."""
    due = formatdate(time.time() + 900, usegmt=True)
    return entry(EventId=f"602D9444-D2CD-49C7-8624-{number:012X}", Resources=["vmss_0"], NotBefore=due)


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
