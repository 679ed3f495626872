"""Checks of the OpenTelemetry collector: an empty export, sent with the exporter's own settings."""

from typing import Final

from azure_scheduled_events_exporter.errors import ExporterError, without_password
from azure_scheduled_events_exporter.http_client.failures import WEB_PAGE
from azure_scheduled_events_exporter.tracing.delivery import otlp_sender
from azure_scheduled_events_exporter.tracing.variables import is_on, turned_off_by

from .finding import Findings, note, ok, warning, wrong
from .subject import Subject

_TIMEOUT: Final = 10.0


def examine(subject: Subject) -> Findings:
    """Yield the findings about tracing: whether the collector accepts an export."""
    endpoint, environment = subject.config.otlp_endpoint, subject.environment
    try:
        if not is_on(endpoint, environment):
            variable = turned_off_by(environment)
            if endpoint and variable:
                what = (
                    "Tracing is off, although --otlp.endpoint is set: the environment has"
                    f" {variable}."
                )
                yield warning(
                    "otlp", what, "Remove the variable, or the endpoint if you want no traces."
                )
            else:
                why = f"{variable} is set" if variable else "--otlp.endpoint is not set"
                yield note("otlp", f"The exporter sends no traces: {why}.")
            return
        sender = otlp_sender(endpoint)
    except ExporterError as error:
        yield wrong("otlp", f"Tracing cannot start: {error}.", "Correct the OTEL_* variables.")
        return
    names = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    where = without_password(
        endpoint or next(environment[name] for name in names if environment.get(name, "").strip())
    )
    why = sender.probe(_TIMEOUT).reason
    if why:
        yield wrong(
            "otlp", f"The collector at {where} does not accept spans: {why}.", _hint(where, why)
        )
    else:
        yield ok("otlp", f"The collector at {where} accepts an empty export.")


def _hint(where: str, why: str) -> str:
    if ":4317" in where:
        return "Port 4317 speaks gRPC; this exporter speaks OTLP over HTTP, on port 4318."
    if "answered 401" in why or "answered 403" in why:
        return "Set the collector's token: OTEL_EXPORTER_OTLP_HEADERS='authorization=Bearer TOKEN'."
    if WEB_PAGE in why:
        return (
            "Correct --otlp.endpoint, or let this VM pass the proxy or sign-in page that answers"
            " there."
        )
    if "answered 404" in why:
        return "Give the base address, such as http://HOST:4318; /v1/traces is added to it."
    return (
        "Start the collector, correct --otlp.endpoint, and let the unit and the firewalls reach it"
        " (IPAddressAllow=)."
    )
