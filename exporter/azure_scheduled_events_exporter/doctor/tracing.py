"""Checks whether the OpenTelemetry collector accepts an empty export.

It is sent with the exporter's own settings: the collector is the one that ``--otlp.endpoint`` or an
OTEL_* variable names. So ``doctor`` has no flag of its own for it, as it has for Prometheus.
"""

from collections.abc import Mapping
from typing import Final

from azure_scheduled_events_exporter.errors import UsageError, without_password
from azure_scheduled_events_exporter.http_client.failures import CERTIFICATE_REFUSED
from azure_scheduled_events_exporter.http_client.web_page import WEB_PAGE
from azure_scheduled_events_exporter.tracing.export import NO_FILE, WANTS_TLS
from azure_scheduled_events_exporter.tracing.loading import otlp_sender
from azure_scheduled_events_exporter.tracing.variables import (
    is_wanted,
    missing_files,
    obstacles,
    turned_off_by,
)

from .api import advice_behind_proxy
from .finding import Finding, Findings, note, ok, warning, wrong
from .subject import Subject

_TIMEOUT: Final = 10.0  # seconds
_NOT_GRPC: Final = "Port 4317 speaks gRPC; this exporter speaks OTLP over HTTP, on port 4318."
_NOT_ALLOWED: Final = (
    "Set the collector's token: OTEL_EXPORTER_OTLP_HEADERS='authorization=Bearer TOKEN'."
)
_NO_ANSWER: Final = (
    "Start the collector, correct --otlp.endpoint, and let the unit and the firewalls reach it"
    " (IPAddressAllow=)."
)
_NAME_THE_CA: Final = (
    "Name a file with the collector's CA certificate in OTEL_EXPORTER_OTLP_CERTIFICATE, or write"
    " the host name of its certificate in the address."
)
_PERHAPS_TLS: Final = (
    "Write https:// in the address if the collector has TLS: many servers close a connection that"
    " begins without it. Otherwise read the log of the collector."
)
_CLOSED: Final = ("Connection reset", "Remote end closed connection")
"""Words of the reason if the server closed the connection without an answer."""
_HINTS: Final = {
    "HTTP/2": _NOT_GRPC,
    WANTS_TLS: "Write https:// in the address.",
    "answered 401": _NOT_ALLOWED,
    "answered 403": _NOT_ALLOWED,
    CERTIFICATE_REFUSED: _NAME_THE_CA,
    "[X509": _NAME_THE_CA,  # OpenSSL's words about a file without a certificate
    WEB_PAGE: (
        "Correct --otlp.endpoint, or let this VM pass the proxy or sign-in page that answers there."
    ),
    "answered 404": "Give the base address, such as http://HOST:4318; /v1/traces is added to it.",
    "answered ": "The cause is unknown here. Read the log of the collector.",
}
"""What to do, by words of the reason why nothing can be sent.

The first of these words that are in the reason decide, so general words come last.
"""


def examine(subject: Subject) -> Findings:
    """Yield the findings about tracing: whether the collector accepts an export."""
    endpoint = subject.config.otlp_endpoint
    environment = subject.environment
    if not is_wanted(endpoint, environment):
        yield _off(endpoint, turned_off_by(environment))
        return
    try:
        why = _reason_of_failure(endpoint, environment)
    except UsageError as error:
        hint = "Correct the OTEL_* variables, or name the collector with --otlp.endpoint."
        yield warning("otlp", f"Tracing is off: {error}.", hint)
        return
    where = _address(endpoint, environment)
    if why:
        sentence = f"Spans cannot be sent to the collector at {where}: {why}."
        yield wrong("otlp", sentence, _hint(where, why, environment))
    else:
        yield ok("otlp", f"The collector at {where} accepts an empty export.")


def _reason_of_failure(endpoint: str | None, environment: Mapping[str, str]) -> str:
    """Send an empty export; return why it failed, ``""`` if the collector has accepted it.

    Raises:
        UsageError: with these settings, the exporter would not send anything.
    """
    if not endpoint:  # with the flag, the exporter sends in spite of odd variables
        found = obstacles(environment)
        if found:
            raise UsageError("; ".join(found))
    return otlp_sender(endpoint).probe(_TIMEOUT).reason


def _address(endpoint: str | None, environment: Mapping[str, str]) -> str:
    """Return the address of the collector, without a password.

    It is that of the flag, else of a variable. One of them is set, otherwise tracing is off.
    """
    names = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    named = [environment[name] for name in names if environment.get(name, "").strip()]
    return without_password(endpoint or named[0])


def _off(endpoint: str | None, variable: str) -> Finding:
    """Return the finding if tracing is off.

    ``variable`` is the assignment that turns it off; ``""`` if tracing is off only because no
    address of a collector is set.
    """
    if endpoint and variable:
        sentence = (
            f"Tracing is off, although --otlp.endpoint is set: the environment has {variable}."
        )
        hint = "Remove the variable, or the endpoint if you want no traces."
        return warning("otlp", sentence, hint)
    why = f"{variable} is set" if variable else "--otlp.endpoint is not set"
    return note("otlp", f"The exporter sends no traces: {why}.")


def _hint(where: str, why: str, environment: Mapping[str, str]) -> str:
    """Return what to do if nothing can be sent to ``where`` for the reason ``why``."""
    if NO_FILE in why:
        variables = ", ".join(missing_files(environment))
        return f"Correct the path in {variables}, or put the file there."
    if ":4317" in where:
        return _NOT_GRPC
    if where.startswith("http://") and any(words in why for words in _CLOSED):
        return advice_behind_proxy(where, _PERHAPS_TLS)
    known = (hint for words, hint in _HINTS.items() if words in why)
    return advice_behind_proxy(where, next(known, _NO_ANSWER))
