"""What the answers of a collector mean for the spans: sent, rejected, or to be sent again."""

import socket
import time
from email.utils import formatdate

import pytest

from azure_scheduled_events_exporter.tracing.otlp import OtlpSender
from support.monitoring.collector import ACCEPT, HANG, Collector, Reply
from support.monitoring.span_delivery import CHILD, IDENTITY, ROOT, add, delivering
from support.programs import eventually
from support.servers.imds_peer import Peer

CLOCKS_DIFFER = 0.5
"""Seconds: a wait is measured by a monotonic clock, and requests by the wall clock."""


class TestAnswers:
    """What an answer means."""

    @pytest.mark.parametrize(
        "reply",
        [
            ACCEPT,
            Reply(body=b'{"partialSuccess":{}}'),
            Reply(body=b'{"partialSuccess":{"rejectedSpans":1e999}}'),
            Reply(body=b"ok"),
            Reply(201),
            Reply(202),
            Reply(204, {"Content-Type": "text/html"}, body=b""),
        ],
        ids=["protobuf", "JSON", "JSON with infinity", "text", "201", "202", "204"],
    )
    def test_acceptance(self, reply: Reply, collector: Collector) -> None:
        """Any 2xx means success, with any body but a web page: Fluent Bit answers 201. Nothing is
        sent again.
        """
        collector.answer(reply)
        with delivering(OtlpSender(collector.url)) as (journal, delivery):
            add(journal, delivery, ROOT, CHILD)
            eventually(lambda: delivery.exported == 2, "exported")
            assert journal.spans_queued() == 0
        assert delivery.failed == 0
        assert len(collector.received) == 1

    def test_grpc(self) -> None:
        """If the server speaks gRPC, the reason says so, and names the port that speaks HTTP."""
        settings = bytes.fromhex("00000604 00000000 00 0005 00004000")  # the frame of grpc-go

        def talk(connection: socket.socket, _: bytes) -> None:
            connection.sendall(settings)
            connection.shutdown(socket.SHUT_RDWR)

        peer = Peer(talk)
        try:
            reason = OtlpSender(peer.url).probe(5.0).reason
        finally:
            peer.end()
        assert "as gRPC does" in reason
        assert "4318" in reason

    def test_partial_success(self, collector: Collector, caplog: pytest.LogCaptureFixture) -> None:
        """Spans that a collector rejects within a 200 count as failed, and its reason is logged."""
        collector.answer(Reply(rejected=1))  # with the reason "no room"
        with delivering(OtlpSender(collector.url)) as (journal, delivery):
            add(journal, delivery, ROOT, CHILD)
            eventually(lambda: delivery.failed == 1, "counted")
            assert delivery.exported == 1
            assert journal.spans_queued() == 0
        assert "no room" in str(caplog.records[0].facts)  # type: ignore[attr-defined]

    @pytest.mark.parametrize("count", [b"1", b'"1"'], ids=["number", "text"])
    def test_partial_success_in_json(self, count: bytes, collector: Collector) -> None:
        """Rejected spans count as failed in JSON too, whose 64-bit numbers may be texts."""
        collector.answer(
            Reply(body=b'{"partialSuccess":{"rejectedSpans":%b,"errorMessage":"no room"}}' % count)
        )
        with delivering(OtlpSender(collector.url)) as (journal, delivery):
            add(journal, delivery, ROOT, CHILD)
            eventually(lambda: delivery.failed == 1, "counted")
            assert delivery.exported == 1

    @pytest.mark.parametrize("status", [400, 413, 422])
    def test_a_refusal(
        self, status: int, collector: Collector, caplog: pytest.LogCaptureFixture
    ) -> None:
        """An answer about the spans themselves is a refusal, counted as failed and logged once."""
        collector.answer(Reply(status))
        with delivering(OtlpSender(collector.url)) as (journal, delivery):
            add(journal, delivery, ROOT)
            eventually(lambda: delivery.failed == 1, "counted")
            add(journal, delivery, CHILD)
            eventually(lambda: delivery.failed == 2, "counted, too")
            assert journal.spans_queued() == 0
        assert delivery.exported == 0
        assert len(collector.received) == 2
        (record,) = caplog.records
        assert f"answered {status}" in str(record.facts)  # type: ignore[attr-defined]
        assert record.facts["refused"] == 1  # type: ignore[attr-defined]

    @pytest.mark.parametrize("status", [302, 307, 308, 401, 404, 429, 500, 502, 503, 504])
    def test_a_retry(self, status: int, collector: Collector) -> None:
        """If the cause may pass or be corrected, the spans are sent again: none is lost or counted
        as failed. No redirect is followed.
        """
        with Collector() as elsewhere:
            collector.answer(Reply(status, {"Location": elsewhere.url + "/v1/traces"}), ACCEPT)
            with delivering(OtlpSender(collector.url)) as (journal, delivery):
                add(journal, delivery, ROOT, CHILD)
                eventually(lambda: delivery.exported == 2, "exported")
            assert elsewhere.received == []
        assert delivery.failed == 0
        assert len(collector.spans()) == 2

    @pytest.mark.parametrize(
        "body",
        [
            b"Client sent an HTTP request to an HTTPS server.\n",
            b"<center>The plain HTTP request was sent to HTTPS port</center>",
        ],
        ids=["Go", "nginx"],
    )
    def test_a_port_with_tls(self, body: bytes, collector: Collector) -> None:
        """A 400 that asks for TLS is about the address: the spans are kept and sent again."""
        collector.answer(Reply(400, body=body), ACCEPT)
        with delivering(OtlpSender(collector.url)) as (journal, delivery):
            add(journal, delivery, ROOT)
            eventually(lambda: delivery.exported == 1, "exported")
        assert delivery.failed == 0

    @pytest.mark.parametrize(
        ("status", "headers"),
        [
            (200, {"Content-Type": "Text/HTML; charset=utf-8"}),
            (200, {"Content-Type": ""}),
            (203, {"Content-Type": "text/html"}),
        ],
    )
    def test_a_web_page(
        self,
        status: int,
        headers: dict[str, str],
        collector: Collector,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """A 2xx with a web page is no acceptance: the spans are kept and sent again, and the log
        says what answered.
        """
        page = Reply(status, headers, body=b"<!doctype html><title>Sign in</title>")
        collector.answer(page, ACCEPT)
        with delivering(OtlpSender(collector.url)) as (journal, delivery):
            add(journal, delivery, ROOT)
            eventually(lambda: delivery.exported == 1, "exported")
        assert len(collector.received) == 2
        assert delivery.failed == 0
        first = caplog.records[0]
        assert first.message == "spans cannot be delivered yet"
        reason = (
            f"{collector.url}/v1/traces answered {status} with a web page (text/html), so it is"
            " no collector"
        )
        assert first.facts["error"] == reason  # type: ignore[attr-defined]

    @staticmethod
    def _times_of_requests(retry_after: str, collector: Collector) -> tuple[float, float]:
        """Return when a span was sent that the collector refuses with ``Retry-After``, and when it
        was sent again.
        """
        collector.answer(Reply(429, {"Retry-After": retry_after}), ACCEPT)
        with delivering(OtlpSender(collector.url)) as (journal, delivery):
            add(journal, delivery, ROOT)
            eventually(lambda: delivery.exported == 1, "exported")
        refused, accepted = collector.received
        return refused.at, accepted.at

    def test_retry_after_seconds(self, collector: Collector) -> None:
        """A collector is left alone for as many seconds as it asks."""
        refused_at, sent_again_at = self._times_of_requests("3", collector)
        assert sent_again_at - refused_at > 3 - CLOCKS_DIFFER

    def test_retry_after_a_date(self, collector: Collector) -> None:
        """A collector is left alone until the date that it names."""
        date = int(time.time()) + 4
        _, sent_again_at = self._times_of_requests(formatdate(date, usegmt=True), collector)
        assert sent_again_at > date - CLOCKS_DIFFER

    @pytest.mark.parametrize(
        ("reply", "configured_seconds", "longest_seconds"),
        [(HANG, "3600", 0.5), (Reply(drips=True), "1", 3600.0)],
        ids=str,
    )
    def test_an_answer_without_end(
        self,
        reply: Reply,
        configured_seconds: str,
        longest_seconds: float,
        collector: Collector,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """An export has a time limit for the whole exchange: what OpenTelemetry's variable
        configures, but at most the longest time that the sender permits.
        """
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", configured_seconds)
        collector.answer(reply)
        began = time.monotonic()
        sender = OtlpSender(collector.url, longest=longest_seconds)
        result = sender.send([ROOT], IDENTITY, timeout=None)  # as configured
        took = time.monotonic() - began
        assert took < 8, "0.5 s or 1 s on a machine that is not busy"
        assert (result.is_final, result.reason) == (False, "no answer in time")
