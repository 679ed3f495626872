"""OTLP over real HTTP: what a collector receives."""

import pytest

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.tracing.export import ExportOutcome, ExportResult
from azure_scheduled_events_exporter.tracing.otlp import OtlpSender
from support.monitoring.collector import Collector
from support.monitoring.span_delivery import CHILD, IDENTITY, ROOT, TRACE, send


class TestWire:
    """The content of a request."""

    def test_ids_parents_times_and_attributes(self, collector: Collector) -> None:
        """A span arrives as it is in the journal: ids, parent, times to the nanosecond, attributes
        by their types.
        """
        assert send(collector, ROOT, CHILD) == ExportResult(ExportOutcome.ACCEPTED)
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

    def test_the_vm_is_the_resource(self, collector: Collector) -> None:
        """The resource names the VM, with the attributes of OpenTelemetry's conventions."""
        send(collector, ROOT)
        (span,) = collector.accepted
        resource = dict(span.resource)
        sdk = {
            name: resource.pop(name) for name in list(resource) if name.startswith("telemetry.sdk.")
        }
        assert sdk["telemetry.sdk.language"] == "python"
        resource.pop("service.instance.id", "")  # newer SDKs add one of each process
        platform = resource.pop("cloud.platform")
        assert platform in {"azure.vm", "azure_vm"}, "as the installed conventions spell it"
        assert resource == {
            "service.name": "azure-scheduled-events-exporter",
            "service.version": __version__,
            "cloud.provider": "azure",
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

    def test_a_vm_that_is_known_later(self, collector: Collector) -> None:
        """Spans that are sent before IMDS has told which VM this is do not name a VM; those that
        are sent afterwards do.
        """
        sender = OtlpSender(collector.url)
        sender.send([ROOT], identity=None, timeout=5.0)
        sender.send([CHILD], identity=IDENTITY, timeout=5.0)
        before, afterwards = collector.accepted
        assert "host.id" not in before.resource
        assert afterwards.resource["host.id"] == IDENTITY.vm_id

    @pytest.mark.parametrize("suffix", ["", "/", "/v1/traces"])
    def test_an_endpoint_with_or_without_its_path(self, suffix: str, collector: Collector) -> None:
        """--otlp.endpoint takes the base address, and the full one that people copy."""
        OtlpSender(collector.url + suffix).send([ROOT], IDENTITY, timeout=5.0)
        assert [request.path for request in collector.received] == ["/v1/traces"]
