"""OpenTelemetry's own variables: which have effect, and what takes precedence over them."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from azure_scheduled_events_exporter.tracing.export import ExportOutcome, ExportResult
from azure_scheduled_events_exporter.tracing.otlp import OtlpSender
from support.monitoring.collector import Collector
from support.monitoring.span_delivery import CHILD, IDENTITY, ROOT, send


class TestVariables:
    """OpenTelemetry's own settings have effect."""

    def send_with(
        self, collector: Collector, monkeypatch: pytest.MonkeyPatch, variables: Mapping[str, str]
    ) -> None:
        """Send a trace with ``variables`` as the only settings; URL stands for the collector's."""
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
        self,
        variables: dict[str, str],
        path: str,
        collector: Collector,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The base address gets the path of traces, the address for traces is used unchanged and
        takes precedence.
        """
        self.send_with(collector, monkeypatch, variables)
        assert [request.path for request in collector.received] == [path]

    def test_the_flag_wins(self, collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
        """--otlp.endpoint takes precedence over the variables."""
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:1/v1/traces")
        by_flag = OtlpSender(collector.url).send([ROOT], IDENTITY, 5.0)
        assert by_flag == ExportResult(ExportOutcome.ACCEPTED)

    @pytest.mark.parametrize(
        "name", ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"]
    )
    def test_headers(
        self, name: str, collector: Collector, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A collector that wants a token gets it."""
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "URL",
            name: "authorization=Bearer%20abc,x-tenant=7",
        }
        self.send_with(collector, monkeypatch, variables)
        (request,) = collector.received
        assert request.headers["authorization"] == "Bearer abc"
        assert request.headers["x-tenant"] == "7"

    def test_a_variable_for_metrics(
        self, collector: Collector, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A variable for metrics, which other programs may send, does not stop our traces."""
        monkeypatch.setenv("OTEL_PYTHON_METER_PROVIDER", "that_of_others")
        assert send(collector, ROOT) == ExportResult(ExportOutcome.ACCEPTED)

    def test_a_header_that_cannot_be_sent(
        self, collector: Collector, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The spans are kept until somebody corrects the header, whose value nobody shows."""
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=sesame%0aseed")
        result = send(collector, ROOT)
        assert result.outcome is ExportOutcome.LATER
        assert "a header of the request has a character" in result.reason
        assert "sesame" not in result.reason

    @pytest.mark.parametrize("timeout", ["soon", "0", "10000"])
    def test_a_time_limit_of_others(
        self, timeout: str, collector: Collector, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A time limit that is set for other programs, and that cannot be used here (no number, no
        time, or 10 s in milliseconds), is set aside if ``--otlp.endpoint`` names the collector.
        """
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", timeout)
        assert send(collector, ROOT) == ExportResult(ExportOutcome.ACCEPTED)

    @pytest.mark.parametrize("sampler", ["traceidratio", "parentbased_traceidratio"])
    def test_a_sampler_keeps_traces_whole(
        self, sampler: str, collector: Collector, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of about half of the traces all spans arrive, of the others none: roots and children of
        other VMs alike.
        """
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
        monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
        # A sampler decides by the last 64 bits of the id. Multiples of 2**64 divided by the golden
        # ratio are spread evenly there.
        spread = 0x9E3779B97F4A7C15
        traces = [f"{number:016x}{number * spread % 2**64:016x}" for number in range(1, 51)]
        send(
            collector,
            *(replace(span, trace_id=trace) for trace in traces for span in (ROOT, CHILD)),
        )
        spans = [(span.trace_id, span.name) for span in collector.accepted]
        kept = {trace for trace, _ in spans}
        assert 10 < len(kept) < 40, "of 50"
        assert len(spans) == 2 * len(kept), "the root and the child of each"
