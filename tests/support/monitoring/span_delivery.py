"""Spans of one event, the VM that sends them, and their delivery to a collector."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.spans import SpanFacts
from azure_scheduled_events_exporter.journal.journal import Journal
from azure_scheduled_events_exporter.tracing.delivery import SpanDelivery
from azure_scheduled_events_exporter.tracing.export import ExportResult
from azure_scheduled_events_exporter.tracing.otlp import OtlpSender
from support.events.journal_recorder import adopted
from support.monitoring.collector import Collector
from support.programs import PATIENCE

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
CHILD = SpanFacts(
    TRACE, "2222222222222222", "1111111111111111", "detected", 1_700_000_000.25, 1_700_000_000.25
)


def send(collector: Collector, *spans: SpanFacts) -> ExportResult:
    """Send spans to ``collector``, and return what became of them."""
    return OtlpSender(collector.url).send(spans, IDENTITY, 5.0)


@contextmanager
def delivering(sender: OtlpSender) -> Iterator[tuple[Journal, SpanDelivery]]:
    """Deliver from a journal in memory, until the end."""
    journal = adopted(None)
    delivery = SpanDelivery(journal, sender, lambda: IDENTITY, LOG)
    thread = threading.Thread(target=delivery.run, daemon=True)
    thread.start()
    yield journal, delivery
    delivery.stop([], 1.0)
    thread.join(PATIENCE)  # a thread that outlives its test logs into the next one
    journal.close()


def add(journal: Journal, delivery: SpanDelivery, *spans: SpanFacts) -> None:
    """Journal spans and say so, as a poll does."""
    journal.record(spans=spans)
    delivery.wake()
