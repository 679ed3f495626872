"""OpenTelemetry's own variables: whether tracing is on, and which values could not work. Pure.

Must not import OpenTelemetry, which reads the variables itself.

Source: https://opentelemetry.io/docs/specs/otel/protocol/exporter/
"""

import math
import os
import re
from collections.abc import Mapping
from urllib.parse import unquote

from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.http_client.address import checked

_PROTOCOL = "http/protobuf"
_LONGEST_TIMEOUT = 3600.0
_EXPORTERS = ("otlp", "otlp_proto_http", "none")
_COMPRESSIONS = ("none", "gzip", "deflate")
_SAMPLERS = (
    *("always_on", "always_off", "parentbased_always_on", "parentbased_always_off"),
    *("traceidratio", "parentbased_traceidratio"),
)
_HEADER = re.compile(r"[!#-'*+\-.0-9A-Z^-z|~]+[ \t]*=[ \t]*[ !#-+\--:<-\[\]-~]*")
"""One entry of a header list, as OpenTelemetry's SDK takes it; it leaves out all others."""


def turned_off_by(environment: Mapping[str, str]) -> str:
    """Return the OpenTelemetry variable that turns tracing off, with its value; ``""`` if none does."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return "OTEL_SDK_DISABLED=true"
    if environment.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none":
        return "OTEL_TRACES_EXPORTER=none"
    return ""


def is_on(endpoint: str | None, environment: Mapping[str, str]) -> bool:
    """Return whether a collector is configured, by the flag or by OpenTelemetry's own variables.

    Raises:
        UsageError: there is one, but with these variables nothing could be sent.
    """
    if turned_off_by(environment) or not (endpoint or _variable("ENDPOINT", environment)[1]):
        return False
    _check_protocol(environment)
    _check_endpoint(endpoint, environment)
    _check_timeout(environment)
    _check_headers(environment)
    return True


def _variable(name: str, environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the effective variable and its value: the one for traces wins, and an empty one counts as unset."""
    names = (f"OTEL_EXPORTER_OTLP_TRACES_{name}", f"OTEL_EXPORTER_OTLP_{name}")
    return next(
        ((each, text) for each in names if (text := environment.get(each, "").strip())),
        (names[1], ""),
    )


def _check_protocol(environment: Mapping[str, str]) -> None:
    """Refuse other protocols than the one that the exporter uses."""
    name, protocol = _variable("PROTOCOL", environment)
    if protocol and protocol.lower() != _PROTOCOL:
        raise UsageError(
            f"environment variable {name}: {protocol!r} is not supported: unset it or set it to"
            f" {_PROTOCOL}, and use the collector's port for that in the endpoint, usually 4318"
        )


def _check_endpoint(endpoint: str | None, environment: Mapping[str, str]) -> None:
    name, address = (
        ("--otlp.endpoint", endpoint) if endpoint else _variable("ENDPOINT", environment)
    )
    where = name if endpoint else f"environment variable {name}"
    try:
        checked(address, "an address of a collector", "http://HOST:4318 or https://HOST:PORT")
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None


def _check_timeout(environment: Mapping[str, str]) -> None:
    name, timeout = _variable("TIMEOUT", environment)
    try:
        seconds = float(timeout or 1)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise UsageError(
            f"environment variable {name}: {timeout!r} is not a number of seconds above 0, such"
            " as 10"
        )
    if seconds > _LONGEST_TIMEOUT:  # OpenTelemetry's specification has milliseconds
        raise UsageError(
            f"environment variable {name}: {timeout!r} is too long: OpenTelemetry's Python SDK"
            " reads seconds, write 10"
        )


def _check_headers(environment: Mapping[str, str]) -> None:
    """Refuse headers that are not printable ASCII.

    Their values are secrets, so a message names the variable only.
    """
    name, headers = _variable("HEADERS", environment)
    text = unquote(headers)
    if not (text.isascii() and text.isprintable()):
        raise UsageError(
            f"environment variable {name}: has a character outside printable ASCII: write headers"
            " in ASCII"
        )
    for number, entry in enumerate(filter(None, map(str.strip, headers.split(","))), 1):
        if not _HEADER.fullmatch(entry):
            raise UsageError(
                f"environment variable {name}: entry {number} is not NAME=VALUE, so it would not be"
                " sent: separate entries with commas, and write other special characters of a"
                " value as %XX"
            )


def doubts(environment: Mapping[str, str]) -> list[str]:
    """Return warnings about variables that have no effect here or in OpenTelemetry's SDK, and about missing files."""
    exporter = environment.get("OTEL_TRACES_EXPORTER", "")
    variables = (
        (
            "OTEL_TRACES_EXPORTER",
            exporter,
            _EXPORTERS,
            "spans go to the OTLP endpoint all the same",
        ),
        (
            "OTEL_TRACES_SAMPLER",
            environment.get("OTEL_TRACES_SAMPLER", ""),
            _SAMPLERS,
            "every trace is sampled",
        ),
        (*_variable("COMPRESSION", environment), _COMPRESSIONS, "requests are not compressed"),
    )
    found = [
        f"environment variable {name}: {value!r} is none of {', '.join(known)}, so {result}"
        for name, value, known, result in variables
        if value.strip() and value.strip().lower() not in known
    ]
    found += [
        f"environment variable {name} has no effect: only traces are sent over OTLP"
        for name in ("OTEL_METRICS_EXPORTER", "OTEL_LOGS_EXPORTER")
        if environment.get(name, "").strip().lower() not in {"", "none"}
    ]
    found += [
        f"environment variable {name} has no effect: spans wait in the journal, and in no batch"
        " processor"
        for name, value in sorted(environment.items())
        if name.startswith("OTEL_BSP_") and value.strip()
    ]
    files = (
        _variable(name, environment) for name in ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY")
    )
    missing = ((name, file) for name, file in files if file and not os.path.exists(file))  # noqa: PTH110 - any text
    return [
        *found,
        *(f"environment variable {name}: there is no file {file}" for name, file in missing),
    ]
