"""Checks the whole chain in order, from this machine to Grafana.

Decides only the order, and turns an exception in a part into a finding, so that the report always reaches its end.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from azure_scheduled_events_exporter.errors import one_line, without_password

from .api import Api
from .finding import Findings, skipped, wrong
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
    for title, check, what, findings in _parts(subject, servers):
        yield title, _to_the_end(check, what, findings)


def _parts(subject: Subject, servers: Servers) -> Iterator[tuple[str, str, str, Findings]]:
    """Yield each part's title, the check to which an exception belongs, the part's name in a sentence, its findings."""
    yield "This machine", "settings", "This machine", machine.examine(subject)
    yield "Metadata service", "imds-reachable", "The metadata service", metadata_service.examine(subject)
    yield "Journal", "journal-readable", "The journal", journal.examine(subject)
    yield (
        "Exporter",
        "exporter",
        f"The exporter at {servers.exporter.shown}",
        exporter.examine(subject, servers.exporter),
    )
    yield "Traces", "otlp", "The collector", tracing.examine(subject)
    for title, given in (
        ("Prometheus", servers.prometheus),
        ("Alertmanager", servers.alertmanager),
        ("Grafana", servers.grafana),
    ):
        if not given:
            flag = f"--{title.lower()}"
            finding = skipped(f"{flag[2:]}-reachable", f"Not checked: no {flag} is given.")
            yield title, finding.check, title, iter([finding])
    for api in servers.prometheus:
        yield "Prometheus", "prometheus-reachable", f"Prometheus at {api.shown}", prometheus.examine(subject, api)
    for api in servers.alertmanager:
        what = f"Alertmanager at {api.shown}"
        yield "Alertmanager", "alertmanager-reachable", what, alertmanager.examine(subject, api)
    for api in servers.grafana:
        yield "Grafana", "grafana-reachable", f"Grafana at {api.shown}", grafana.examine(api)


def _to_the_end(check: str, what: str, findings: Findings) -> Findings:
    """Yield the findings; if an exception ends them, also one about it."""
    try:
        yield from findings
    except Exception as error:  # noqa: BLE001 - of an answer that nobody foresaw, anything may come
        reason = without_password(one_line(f"{type(error).__name__}: {error}"))
        yield wrong(
            check,
            f"{what} answers in another form than this version knows, so its other checks are missing ({reason}).",
            "Correct the address if another program answers there; otherwise report it, with both versions.",
            "doctor.md#checks",
        )
