"""Checks the whole chain in order, from this machine to Grafana.

Decides only the order, and turns an exception in a part into a finding, so that the report always
reaches its end.
"""

from collections.abc import Iterator

from azure_scheduled_events_exporter.errors import ExporterError, one_line, without_password
from azure_scheduled_events_exporter.http_client.web_page import WEB_PAGE

from . import (
    alertmanager,
    exporter,
    grafana,
    journal,
    metadata_service,
    prometheus,
    settings,
    tracing,
)
from .api import WrongAnswerError
from .finding import Findings, skipped, wrong
from .subject import Subject


def examine(subject: Subject) -> Iterator[tuple[str, Findings]]:
    """Yield each part of the chain with its findings; consume those of a part before the next."""
    parts = [
        ("This machine", "settings", "", settings.examine(subject)),
        ("Metadata service", "imds-reachable", "", metadata_service.examine(subject)),
        ("Journal", "journal-content", "", journal.examine(subject)),
        ("Exporter", "exporter", subject.exporter.shown, exporter.examine(subject)),
        ("Traces", "otlp", "", tracing.examine(subject)),
    ]
    for title, apis, check in (
        ("Prometheus", subject.prometheus, prometheus.examine),
        ("Alertmanager", subject.alertmanager, alertmanager.examine),
        ("Grafana", subject.grafana, grafana.examine),
    ):
        name = f"{title.lower()}-reachable"
        parts += [(title, name, api.shown, check(subject, api)) for api in apis]
        if not apis:
            missing = skipped(name, f"Not checked: no --{title.lower()} is given.")
            parts.append((title, name, "", iter([missing])))
    for title, check_name, address, findings in parts:
        yield title, _to_the_end(title, check_name, address, findings)


def _to_the_end(title: str, check: str, address: str, findings: Findings) -> Findings:
    """Yield the findings; if an exception ends them, also one about it."""
    what = f"{title} at {address}" if address else title
    flag = f"--{title.lower()}"
    try:
        yield from findings
    except ExporterError as error:
        hint = f"Start it, or correct the address: {flag} URL."
        if WEB_PAGE in str(error):
            hint = (
                f"Correct {flag}, or let this machine pass the proxy or sign-in page that answers"
                " there."
            )
        if isinstance(error, WrongAnswerError) and error.status in {401, 403}:
            hint = f"Name a user in the address, or credentials in {flag}.http-config.file."
        yield wrong(check, f"{what} cannot be asked: {error}.", hint)
    except Exception as error:  # noqa: BLE001 - of an answer that nobody foresaw, anything may come
        reason = without_password(one_line(f"{type(error).__name__}: {error}"))
        sentence = (
            f"{what} answers in another form than this version knows, so its other checks are"
            f" missing ({reason})."
        )
        hint = (
            "Correct the address if another program answers there; otherwise report it, with both"
            " versions."
        )
        yield wrong(check, sentence, hint)
