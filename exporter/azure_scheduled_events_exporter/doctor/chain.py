"""Checks the whole chain in order, from this machine to Grafana. Decides only the order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .api import Api
from .finding import Findings
from .local import exporter, journal, machine, metadata_service, tracing
from .monitoring import alertmanager, grafana, prometheus
from .subject import Subject


@dataclass(frozen=True, slots=True)
class Servers:
    """The servers to check beyond this machine."""

    exporter: Api
    prometheus: Sequence[Api] = ()
    alertmanager: Sequence[Api] = ()
    grafana: Sequence[Api] = ()


def examine(subject: Subject, servers: Servers) -> Iterator[tuple[str, Findings]]:
    """Yield each part of the chain with its findings; consume all findings of one part before the next."""
    yield "This machine", machine.examine(subject)
    yield "Metadata service", metadata_service.examine(subject)
    yield "Journal", journal.examine(subject)
    yield "Exporter", exporter.examine(subject, servers.exporter)
    yield "Traces", tracing.examine(subject)
    for api in servers.prometheus:
        yield "Prometheus", prometheus.examine(subject, api)
    for api in servers.alertmanager:
        yield "Alertmanager", alertmanager.examine(subject, api)
    for api in servers.grafana:
        yield "Grafana", grafana.examine(api)
