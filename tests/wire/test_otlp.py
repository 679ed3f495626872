"""OTLP over real HTTP: what a collector receives, what its answers mean, and which variables hold."""

import logging
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from email.utils import formatdate

import pytest

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.lifecycle import Lifecycles
from azure_scheduled_events_exporter.core.spans import SpanFacts
from azure_scheduled_events_exporter.core.statistics import Statistics
from azure_scheduled_events_exporter.journal.journal import Journal
from azure_scheduled_events_exporter.journal.store import Entry
from azure_scheduled_events_exporter.tracing.delivery import ExportResult, SpanDelivery
from azure_scheduled_events_exporter.tracing.otlp import OtlpSender
from support.monitoring.collector import ACCEPT, HANG, Collector, Reply
from support.programs import PATIENCE, eventually

LOG = logging.getLogger("tests.otlp")
TRACE = "c7061bacafdc4513b24baa5f13a16123"
IDENTITY = Instance(
    vm_name="vmss_0",
    vm_id="02aab8a4-74ef-476e-8182-f6d2ba4166a6",
    scale_set="vmss",
    location="westeurope",
    zone="1",
    fault_domain="0",
    resource_group="production",
    subscription_id="8d10da13-8125-4ba9-a717-bf7490507b3d",
    vm_size="Standard_D4s_v5",
    priority="Regular",
    resource_id="/subscriptions/8d10da13/resourceGroups/production/providers/Microsoft.Compute/virtualMachines/vmss_0",
    host_name="vmss000000",
)
ROOT = SpanFacts(
    TRACE,
    "1111111111111111",
    "",
    "scheduled_event",
    1_700_000_000.25,
    1_700_000_901.5,
    {
        "azure.scheduled_event.id": "C7061BAC-AFDC-4513-B24B-AA5F13A16123",
        "azure.scheduled_event.resources": ("vmss_0", "vmss_1"),
        "azure.scheduled_event.notice_seconds": 900.0,
        "azure.scheduled_event.description": "Überholung, 日本",
    },
)
CHILD = SpanFacts(TRACE, "2222222222222222", "1111111111111111", "detected", 1_700_000_000.25, 1_700_000_000.25)


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without settings for OpenTelemetry or a proxy; each test sets its own."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector that accepts everything by default."""
    with Collector() as running:
        yield running


def send(collector: Collector, *spans: SpanFacts, identity: Instance | None = IDENTITY) -> ExportResult:
    """Send spans to ``collector``, and return what became of them."""
    return OtlpSender(collector.url).send(spans, identity, 5.0)


@contextmanager
def delivering(sender: OtlpSender) -> Iterator[tuple[Journal, SpanDelivery]]:
    """Deliver from a journal in memory until the end."""
    journal = Journal(None, 90 * 86400.0, LOG)
    delivery = SpanDelivery(journal, sender, LOG)
    delivery.identity = IDENTITY
    thread = threading.Thread(target=delivery.run, daemon=True)
    thread.start()
    yield journal, delivery
    delivery.stop([], 1.0)
    thread.join(5.0)
    journal.close()


def add(journal: Journal, delivery: SpanDelivery, *spans: SpanFacts) -> None:
    """Journal spans and say so, as a poll does."""
    journal.record(Entry(spans=spans), Statistics(), Lifecycles())
    delivery.wake()


class TestWire:
    """The content of a request."""

    def test_ids_parents_times_and_attributes(self, collector: Collector) -> None:
        """A span arrives as it is in the journal: ids, parent, times to the nanosecond, attributes by their types."""
        assert send(collector, ROOT, CHILD) == ExportResult(settled=True)
        (request,) = collector.received
        assert request.path == "/v1/traces"
        assert request.headers["content-type"] == "application/x-protobuf"
        root, child = request.spans
        assert (root.trace_id, root.span_id, root.parent_id) == (TRACE, "1" * 16, "")
        assert (child.trace_id, child.span_id, child.parent_id) == (TRACE, "2" * 16, "1" * 16)
        assert (root.name, child.name) == ("scheduled_event", "detected")
        assert (root.start, root.end) == (1_700_000_000_250_000_000, 1_700_000_901_500_000_000)
        assert child.start == child.end == root.start
        assert root.attributes == {
            "azure.scheduled_event.id": "C7061BAC-AFDC-4513-B24B-AA5F13A16123",
            "azure.scheduled_event.resources": ["vmss_0", "vmss_1"],
            "azure.scheduled_event.notice_seconds": 900.0,
            "azure.scheduled_event.description": "Überholung, 日本",
        }

    def test_times_of_any_fraction(self, collector: Collector) -> None:
        """A time is off by less than the microsecond that a clock's float can hold."""
        starts = [1_700_000_000 + number / 7 for number in range(20)]
        send(collector, *(replace(CHILD, span_id=f"{n + 1:016x}", start=s, end=s + 0.1) for n, s in enumerate(starts)))
        told = sorted(span.start for span in collector.accepted)
        assert all(abs(ns / 1e9 - start) < 1e-6 for ns, start in zip(told, starts, strict=True))

    def test_the_vm_is_the_resource(self, collector: Collector) -> None:
        """The resource names the VM, with the attributes of OpenTelemetry's conventions."""
        send(collector, ROOT)
        (span,) = collector.accepted
        resource = dict(span.resource)
        sdk = {name: resource.pop(name) for name in list(resource) if name.startswith("telemetry.sdk.")}
        assert sdk["telemetry.sdk.language"] == "python"
        resource.pop("service.instance.id", "")  # newer SDKs add one of each process
        assert resource == {
            "service.name": "azure-scheduled-events-exporter",
            "service.version": __version__,
            "cloud.provider": "azure",
            "cloud.platform": resource["cloud.platform"],
            "cloud.region": "westeurope",
            "cloud.availability_zone": "1",
            "cloud.account.id": "8d10da13-8125-4ba9-a717-bf7490507b3d",
            "cloud.resource_id": IDENTITY.resource_id,
            "host.id": "02aab8a4-74ef-476e-8182-f6d2ba4166a6",
            "host.name": "vmss000000",
            "host.type": "Standard_D4s_v5",
            "azure.vm.name": "vmss_0",
            "azure.vm.scaleset.name": "vmss",
        }
        assert resource["cloud.platform"] in {"azure.vm", "azure_vm"}, "as the installed conventions spell it"

    def test_what_the_vm_does_not_know_is_absent(self, collector: Collector) -> None:
        """An unknown zone is no empty attribute; before the VM is known, its attributes are missing altogether."""
        send(collector, ROOT, identity=Instance("vmss_0"))
        assert collector.accepted[-1].resource["azure.vm.name"] == "vmss_0"
        assert "cloud.availability_zone" not in collector.accepted[-1].resource
        send(collector, ROOT, identity=None)
        assert "azure.vm.name" not in collector.accepted[-1].resource
        assert collector.accepted[-1].resource["cloud.provider"] == "azure"

    def test_a_vm_that_is_known_later(self, collector: Collector) -> None:
        """Spans sent after the VM learned who it is say so."""
        sender = OtlpSender(collector.url)
        sender.send([ROOT], None, 5.0)
        sender.send([CHILD], IDENTITY, 5.0)
        assert [span.resource.get("host.id") for span in collector.accepted] == [None, IDENTITY.vm_id]

    @pytest.mark.parametrize("suffix", ["", "/", "/v1/traces"])
    def test_an_endpoint_with_or_without_its_path(self, suffix: str, collector: Collector) -> None:
        """--otlp.endpoint takes the base address, and the full one that people copy."""
        OtlpSender(collector.url + suffix).send([ROOT], IDENTITY, 5.0)
        assert [request.path for request in collector.received] == ["/v1/traces"]


class TestVariables:
    """OpenTelemetry's own settings hold."""

    def sent(self, collector: Collector, monkeypatch: pytest.MonkeyPatch, variables: Mapping[str, str]) -> None:
        """Send a trace with ``variables`` as the only settings."""
        for name, value in variables.items():
            monkeypatch.setenv(name, value.replace("URL", collector.url))
        OtlpSender(None).send([ROOT, CHILD], IDENTITY, 5.0)

    @pytest.mark.parametrize(
        ("variables", "path"),
        [
            ({"OTEL_EXPORTER_OTLP_ENDPOINT": "URL"}, "/v1/traces"),
            ({"OTEL_EXPORTER_OTLP_ENDPOINT": "URL/tenant/"}, "/tenant/v1/traces"),
            ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "URL/as/it/is"}, "/as/it/is"),
            (
                {
                    "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1",
                    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "URL/v1/traces",
                },
                "/v1/traces",
            ),
        ],
    )
    def test_endpoint(
        self, variables: dict[str, str], path: str, collector: Collector, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The base address gets the path of traces, the address for traces is used unchanged and takes precedence."""
        self.sent(collector, monkeypatch, variables)
        assert [request.path for request in collector.received] == [path]

    def test_the_flag_wins(self, collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
        """--otlp.endpoint goes before the variables."""
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:1/v1/traces")
        assert send(collector, ROOT) == ExportResult(settled=True)

    @pytest.mark.parametrize("name", ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"])
    def test_headers(self, name: str, collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
        """A collector that wants a token gets it."""
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": "URL", name: "authorization=Bearer%20abc,x-tenant=7"}
        self.sent(collector, monkeypatch, variables)
        (request,) = collector.received
        assert request.headers["authorization"] == "Bearer abc"
        assert request.headers["x-tenant"] == "7"

    @pytest.mark.parametrize("name", ["gzip", "deflate", "none", "brotli"])
    def test_compression(self, name: str, collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
        """Requests are compressed as configured; an unknown compression means none."""
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": "URL", "OTEL_EXPORTER_OTLP_COMPRESSION": name}
        self.sent(collector, monkeypatch, variables)
        (request,) = collector.received
        assert request.headers.get("content-encoding") == (name if name in {"gzip", "deflate"} else None)
        assert len(request.spans) == 2

    def test_timeout(self, collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
        """A collector that hangs is given up after the time that is configured."""
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")
        collector.answer(HANG)
        began = time.monotonic()
        verdict = OtlpSender(collector.url).send([ROOT], IDENTITY, None)
        assert 0.4 < time.monotonic() - began < 8.0, "the default is 10 s"
        assert not verdict.settled
        assert "no answer" in verdict.reason

    def test_resource(self, collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
        """Resource attributes of an operator take precedence over those of the VM."""
        self.sent(
            collector,
            monkeypatch,
            {
                "OTEL_EXPORTER_OTLP_ENDPOINT": "URL",
                "OTEL_RESOURCE_ATTRIBUTES": "host.name=mine,service.name=loses,deployment.environment.name=drill",
                "OTEL_SERVICE_NAME": "wins",
            },
        )
        resource = collector.accepted[0].resource
        assert resource["host.name"] == "mine"
        assert resource["service.name"] == "wins"
        assert resource["deployment.environment.name"] == "drill"
        assert resource["host.id"] == IDENTITY.vm_id

    def test_a_sampler_that_wants_nothing(self, collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
        """With sampling off, no request is sent, no span is queued, and none is counted as exported."""
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
        with delivering(OtlpSender(collector.url)) as (journal, delivery):
            add(journal, delivery, ROOT, CHILD)
            eventually(lambda: journal.spans_queued() == 0, "nothing waits")
        assert collector.received == []
        assert (delivery.exported, delivery.failed) == (0, 0)

    @pytest.mark.parametrize("sampler", ["traceidratio", "parentbased_traceidratio"])
    def test_a_sampler_keeps_traces_whole(
        self, sampler: str, collector: Collector, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of half of the traces all spans arrive, of the other half none: roots and children of other VMs alike."""
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
        monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
        traces = [f"{number:016x}{(number * 0x9E3779B97F4A7C15) % 2**64:016x}" for number in range(1, 51)]
        send(collector, *(replace(span, trace_id=trace) for trace in traces for span in (ROOT, CHILD)))
        spans = [(span.trace_id, span.name) for span in collector.accepted]
        kept = {trace for trace, _ in spans}
        assert 10 < len(kept) < 40
        assert len(spans) == 2 * len(kept)


def trickle(listener: socket.socket, ending: threading.Event) -> None:
    """Answer one request with a byte every fifth of a second, until the client or the test has had enough."""
    client, _ = listener.accept()
    with client:
        client.recv(1 << 16)
        for byte in b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1000:
            if ending.wait(0.2):
                return
            try:
                client.sendall(bytes([byte]))
            except OSError:
                return


class TestAnswers:
    """What an answer means."""

    @pytest.mark.parametrize(
        "reply", [ACCEPT, Reply(body=b'{"partialSuccess":{}}'), Reply(body=b"ok")], ids=["protobuf", "JSON", "text"]
    )
    def test_200(self, reply: Reply, collector: Collector) -> None:
        """A plain 200 means success, with any body."""
        collector.answer(reply)
        with delivering(OtlpSender(collector.url)) as (journal, delivery):
            add(journal, delivery, ROOT, CHILD)
            eventually(lambda: delivery.exported == 2, "exported")
            assert journal.spans_queued() == 0
        assert delivery.failed == 0

    def test_partial_success(self, collector: Collector, caplog: pytest.LogCaptureFixture) -> None:
        """Spans that a collector rejects within a 200 count as failed, and its reason is logged."""
        collector.answer(Reply(rejected=1))
        with delivering(OtlpSender(collector.url)) as (journal, delivery):
            add(journal, delivery, ROOT, CHILD)
            eventually(lambda: delivery.failed == 1, "counted")
            assert delivery.exported == 1
            assert journal.spans_queued() == 0
        assert "no room" in str(caplog.records[0].facts)  # type: ignore[attr-defined]

    @pytest.mark.parametrize("status", [302, 307, 308, 400, 401, 404, 413, 500])
    def test_a_refusal(self, status: int, collector: Collector, caplog: pytest.LogCaptureFixture) -> None:
        """Any other answer is final: spans count as failed, are removed, logged once, and no redirect is followed."""
        with Collector() as elsewhere:
            collector.answer(Reply(status, {"Location": elsewhere.url + "/v1/traces"}))
            with delivering(OtlpSender(collector.url)) as (journal, delivery):
                for number, span in enumerate((ROOT, CHILD), 1):
                    add(journal, delivery, span)
                    eventually(lambda number=number: delivery.failed == number, "counted")  # type: ignore[misc]
                assert journal.spans_queued() == 0
            assert elsewhere.received == []
        assert delivery.exported == 0
        assert len(collector.received) == 2
        (record,) = caplog.records
        assert f"answered {status}" in str(record.facts)  # type: ignore[attr-defined]

    @pytest.mark.parametrize("status", [429, 502, 503, 504])
    def test_a_retry(self, status: int, collector: Collector) -> None:
        """What may pass is tried again, and nothing is lost or counted as failed."""
        collector.answer(Reply(status), ACCEPT)
        with delivering(OtlpSender(collector.url)) as (journal, delivery):
            add(journal, delivery, ROOT, CHILD)
            eventually(lambda: delivery.exported == 2, "exported")
        assert delivery.failed == 0
        assert len(collector.spans()) == 2

    @pytest.mark.parametrize("form", ["seconds", "date"])
    def test_retry_after(self, form: str, collector: Collector) -> None:
        """A collector is left alone for as long as it asks, in seconds or until a date."""
        asked = "3" if form == "seconds" else formatdate(time.time() + 4, usegmt=True)  # whole seconds: 3 at least
        collector.answer(Reply(429, {"Retry-After": asked}), ACCEPT)
        with delivering(OtlpSender(collector.url)) as (journal, delivery):
            add(journal, delivery, ROOT)
            eventually(lambda: delivery.exported == 1, "exported")
        first, second = collector.received
        assert second.at - first.at > 2.5

    @pytest.mark.parametrize("text", ["", "soon", "-5", "99999999999999999999", "Fri, 31 Feb 2033 00:00:00 GMT"])
    def test_retry_after_nonsense(self, text: str, collector: Collector) -> None:
        """A Retry-After that makes no sense never stops delivery for good."""
        collector.answer(Reply(503, {"Retry-After": text}))
        verdict = send(collector, ROOT)
        assert not verdict.settled
        assert 0 <= verdict.retry_after <= 300

    def test_nobody_there(self, collector: Collector) -> None:
        """Spans wait while connections are refused, and arrive once there is a collector."""
        collector.stop()
        with delivering(OtlpSender(collector.url)) as (journal, delivery):
            add(journal, delivery, ROOT)
            time.sleep(0.2)
            assert journal.spans_queued() == 1
            collector.start()
            add(journal, delivery, CHILD)
            eventually(lambda: delivery.exported == 2, "exported")
        assert delivery.failed == 0
        assert len(collector.spans()) == 2

    def test_a_hang(self, collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
        """A request that is never answered is given up and sent again."""
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")
        collector.answer(HANG, ACCEPT)
        with delivering(OtlpSender(collector.url)) as (journal, delivery):
            add(journal, delivery, ROOT)
            eventually(lambda: delivery.exported == 1, "exported")
        assert [request.reply for request in collector.received] == [HANG, ACCEPT]

    def test_the_end_with_a_hang(self, collector: Collector) -> None:
        """A collector that hangs holds up the end no longer than it may."""
        collector.answer(HANG)
        with delivering(OtlpSender(collector.url)) as (journal, delivery):
            add(journal, delivery, ROOT)
            eventually(lambda: collector.received, "the request")
            began = time.monotonic()
            delivery.stop([CHILD], 1.2)
            assert time.monotonic() - began < 9.0
            assert journal.spans_queued() == 1

    def test_a_limit(self, collector: Collector, caplog: pytest.LogCaptureFixture) -> None:
        """A batch that is too large for the collector is sent in smaller ones, and every span arrives."""
        collector.limit = 5
        spans = [replace(CHILD, span_id=f"{number:016x}") for number in range(1, 77)]
        with delivering(OtlpSender(collector.url)) as (journal, delivery):
            add(journal, delivery, *spans)
            eventually(lambda: delivery.exported == len(spans), "all exported")
        assert delivery.failed == 0
        assert len(collector.spans()) == len(spans)
        assert not caplog.records

    def test_one_span_too_large(self, collector: Collector) -> None:
        """A single span that is too large is rejected for good, and does not hold up the others."""
        collector.limit = 0
        with delivering(OtlpSender(collector.url)) as (journal, delivery):
            add(journal, delivery, ROOT, CHILD)
            eventually(lambda: delivery.failed == 2, "both rejected")
            assert journal.spans_queued() == 0

    def test_a_trickle(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A collector that sends its answer byte by byte is given up when the time for the whole exchange is over."""
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
        with socket.create_server(("127.0.0.1", 0)) as listener:
            ending = threading.Event()
            thread = threading.Thread(target=trickle, args=(listener, ending), daemon=True)
            thread.start()
            began = time.monotonic()
            result = OtlpSender(f"http://127.0.0.1:{listener.getsockname()[1]}").send([ROOT], IDENTITY, None)
            assert time.monotonic() - began < 8
            ending.set()
            thread.join(PATIENCE)
        assert not result.settled
        assert "no answer" in result.reason

    def test_a_mistake_here_settles_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Spans that could not be sent for a reason on this machine stay in the journal."""
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem")
        with delivering(OtlpSender("https://127.0.0.1:9")) as (journal, delivery):
            add(journal, delivery, ROOT)
            result = OtlpSender("https://127.0.0.1:9").send([ROOT], IDENTITY, 2.0)
            assert not result.settled
            assert journal.spans_queued() == 1
        assert delivery.failed == 0

    def test_odd_text(self, collector: Collector) -> None:
        """No text that IMDS can send keeps a span from its collector."""
        texts = ["", "\ufffd", "\U0010ffff", "a\nb\tc", "x" * 100_000, "\u202e"]
        spans = [
            replace(CHILD, span_id=f"{number:016x}", attributes={"azure.scheduled_event.description": text})
            for number, text in enumerate(texts, 1)
        ]
        assert send(collector, *spans) == ExportResult(settled=True)
        assert [span.attributes["azure.scheduled_event.description"] for span in collector.accepted] == texts
