"""Checks the whole chain in order, from this machine to Grafana.

Decides only the order, and turns an exception in a part into a finding, so that the report always
reaches its end.
"""

from collections.abc import Iterator
from dataclasses import dataclass

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
from .api import Api, WrongAnswerError
from .finding import Findings, skipped, wrong
from .subject import Subject


@dataclass(frozen=True, slots=True)
class _Part:
    """One part of the chain.

    Attributes:
        title: its heading in the report.
        check: the check that a finding about an exception belongs to.
        findings: what its checks find; nothing is checked until they are read.
        api: the server that is asked, if it has a flag of its own.
    """

    title: str
    check: str
    findings: Findings
    api: Api | None = None


def examine(subject: Subject) -> Iterator[tuple[str, Findings]]:
    """Yield the title of each part of the chain with its findings.

    Read the findings of a part before you ask for the next part: checks store in ``subject`` what
    later ones need, such as this VM's name.
    """
    for part in _parts(subject):
        yield part.title, _to_the_end(part)


def _parts(subject: Subject) -> list[_Part]:
    parts = [
        _Part("This machine", "settings", settings.examine(subject)),
        _Part("Metadata service", "imds-reachable", metadata_service.examine(subject)),
        _Part("Journal", "journal-content", journal.examine(subject)),
        _Part("Exporter", "exporter", exporter.examine(subject), subject.exporter),
        _Part("Traces", "otlp", tracing.examine(subject)),
    ]
    for title, apis, examine_server in (
        ("Prometheus", subject.prometheus, prometheus.examine),
        ("Alertmanager", subject.alertmanager, alertmanager.examine),
        ("Grafana", subject.grafana, grafana.examine),
    ):
        check = f"{title.lower()}-reachable"
        parts += [_Part(title, check, examine_server(subject, api), api) for api in apis]
        if not apis:
            missing = skipped(check, f"Not checked: no --{title.lower()} is given.")
            parts.append(_Part(title, check, iter([missing])))
    return parts


def _to_the_end(part: _Part) -> Findings:
    """Yield the findings of ``part``; if an exception ends them, also one about the exception."""
    what = part.title
    if part.api:
        what = f"{part.title} at {part.api.shown}"
    try:
        yield from part.findings
    except ExporterError as error:
        # Parts without a flag of their own report such errors themselves.
        hint = _hint(error, f"--{part.title.lower()}")
        if part.api:
            hint = part.api.advice(hint)
        yield wrong(part.check, f"{what} cannot be asked: {error}.", hint)
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
        yield wrong(part.check, sentence, hint)


def _hint(error: ExporterError, flag: str) -> str:
    """Return what to do about a server, named by ``flag``, that gives no usable answer."""
    if isinstance(error, WrongAnswerError) and error.status in {401, 403}:
        return f"Name a user in the address, or credentials in {flag}.http-config.file."
    if WEB_PAGE in str(error):
        return (
            f"Correct {flag}, or let this machine pass the proxy or sign-in page that answers"
            " there."
        )
    return f"Start it, or correct the address: {flag} URL."
