"""OpenTelemetry's own variables: whether tracing is on, and which values could not work.

They are often set for every program of a fleet, so none of them stops the exporter: what cannot
work is warned of. The variables are arguments; only whether a file exists is looked up. Must not
import OpenTelemetry, which reads the variables itself.

Source: https://opentelemetry.io/docs/specs/otel/protocol/exporter/
"""

import math
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from azure_scheduled_events_exporter.http_client.address import checked

TRACES_PATH = "/v1/traces"
"""What the address of a collector ends with, for traces."""

_PROTOCOL = "http/protobuf"
_LONGEST_TIMEOUT = 3600.0  # seconds; a larger number was meant as milliseconds
_EXPORTERS = ("otlp", "otlp_proto_http", "none")
_COMPRESSIONS = ("none", "gzip", "deflate")
_SAMPLERS = (
    "always_on",
    "always_off",
    "parentbased_always_on",
    "parentbased_always_off",
    "traceidratio",
    "parentbased_traceidratio",
)
_CONTEXTS = ("contextvars_context",)
_LENGTHS = ("OTEL_SPAN_EVENT_COUNT_LIMIT", "OTEL_SPAN_LINK_COUNT_LIMIT")
"""Limits that OpenTelemetry's SDK gives to a Python deque as its greatest length.

A deque refuses a length over ``sys.maxsize``.
"""
_HEADER = re.compile(r"[!#-'*+\-.0-9A-Z^-z|~]+[ \t]*=[ \t]*[ !#-+\--:<-\[\]-~]*")
"""One entry of a header list, as OpenTelemetry's SDK takes it; it leaves out all others.

A name as HTTP has it, ``=``, and printable ASCII without quotation marks, commas, semicolons and
backslashes.
"""


def turned_off_by(environment: Mapping[str, str]) -> str:
    """Return the OpenTelemetry variable that turns tracing off; ``""`` if none does."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return "OTEL_SDK_DISABLED=true"
    if environment.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none":
        return "OTEL_TRACES_EXPORTER=none"
    return ""


def is_wanted(endpoint: str | None, environment: Mapping[str, str]) -> bool:
    """Return whether there is a collector, by flag or variable, and nothing turns it off."""
    has_collector = endpoint or _variable("ENDPOINT", environment).text
    return bool(has_collector) and not turned_off_by(environment)


def is_on(endpoint: str | None, environment: Mapping[str, str]) -> bool:
    """Return whether spans are sent: to ``endpoint``, or by variables with which that can work."""
    if not is_wanted(endpoint, environment):
        return False
    return bool(endpoint) or not obstacles(environment)


def obstacles(environment: Mapping[str, str]) -> list[str]:
    """Return the reasons why spans cannot be sent with these variables; none if they can.

    The variables may be meant for other programs. So if ``--otlp.endpoint`` names the collector,
    spans are sent in spite of these reasons.
    """
    checks = (_protocol, _endpoint, timeout_obstacle, _headers)
    found = [check(environment) for check in checks]
    return [obstacle for obstacle in found if obstacle]


@dataclass(frozen=True, slots=True)
class _Variable:
    """A variable that has effect, and its value; ``""`` if it is unset."""

    name: str
    text: str


def _variable(name: str, environment: Mapping[str, str]) -> _Variable:
    """Return the effective variable: the one for traces wins, and an empty one counts as unset."""
    general = f"OTEL_EXPORTER_OTLP_{name}"
    for each in (f"OTEL_EXPORTER_OTLP_TRACES_{name}", general):
        text = environment.get(each, "").strip()
        if text:
            return _Variable(each, text)
    return _Variable(general, "")


def _protocol(environment: Mapping[str, str]) -> str:
    """Return why the protocol cannot be used; ``""`` if it can."""
    found = _variable("PROTOCOL", environment)
    if found.text.lower() in {"", _PROTOCOL}:
        return ""
    return (
        f"environment variable {found.name}: {found.text!r} is not supported: unset it or set it to"
        f" {_PROTOCOL}, and use the collector's port for that in the endpoint, usually 4318"
    )


def _endpoint(environment: Mapping[str, str]) -> str:
    """Return why the address cannot be used; ``""`` if it can, or if there is none."""
    found = _variable("ENDPOINT", environment)
    if not found.text:
        return ""
    try:
        checked(found.text, "an address of a collector", "http://HOST:4318 or https://HOST:PORT")
    except ValueError as error:
        return f"environment variable {found.name}: {error}"
    return ""


def timeout_obstacle(environment: Mapping[str, str]) -> str:
    """Return why the time limit in these variables cannot be used; ``""`` if it can."""
    found = _variable("TIMEOUT", environment)
    try:
        seconds = float(found.text or "1")  # if it is unset: any valid number
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        return (
            f"environment variable {found.name}: {found.text!r} is not a number of seconds above 0,"
            " such as 10"
        )
    if seconds > _LONGEST_TIMEOUT:  # OpenTelemetry's specification counts in milliseconds
        return (
            f"environment variable {found.name}: {found.text!r} is too long: OpenTelemetry's Python"
            " SDK reads seconds, write 10"
        )
    return ""


def length_obstacle(environment: Mapping[str, str]) -> str:
    """Return which limit is too large for OpenTelemetry's SDK; ``""`` if none is.

    With such a limit, no span can be made, whatever the collector is. It is none of the
    :func:`obstacles`, with which spans are still sent to ``--otlp.endpoint``.
    """
    for name in _LENGTHS:
        text = environment.get(name, "").strip()
        # By the number of digits: int() refuses a text of thousands of them.
        if text.isdecimal() and len(text) >= len(str(sys.maxsize)):
            return f"environment variable {name}: {text!r} is too large: write 128, or unset it"
    return ""


def _headers(environment: Mapping[str, str]) -> str:
    """Return what is wrong with the headers; ``""`` if nothing is.

    The text has no values of headers, which are secrets.
    """
    found = _variable("HEADERS", environment)
    text = unquote(found.text)
    if not (text.isascii() and text.isprintable()):
        return (
            f"environment variable {found.name}: has a character outside printable ASCII: write"
            " headers in ASCII"
        )
    entries = [entry.strip() for entry in found.text.split(",")]
    for number, entry in enumerate(filter(None, entries), start=1):
        if not _HEADER.fullmatch(entry):
            return (
                f"environment variable {found.name}: entry {number} is not NAME=VALUE, so it would"
                " not be sent: separate entries with commas, and write other special characters of"
                " a value as %XX"
            )
    return ""


def doubts(environment: Mapping[str, str]) -> list[str]:
    """Return warnings about variables that do not do what they seem to do.

    They have no effect here or in OpenTelemetry's SDK, lead to another address than one would
    think, or name a file that does not exist.
    """
    return [
        *_unknown(environment),
        *_without_effect(environment),
        *_paths(environment),
        *_missing(environment),
    ]


def _unknown(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield warnings about values that OpenTelemetry's SDK does not know."""
    compression = _variable("COMPRESSION", environment)
    rows = (
        ("OTEL_TRACES_EXPORTER", _EXPORTERS, "spans go to the OTLP endpoint all the same"),
        ("OTEL_TRACES_SAMPLER", _SAMPLERS, "every trace is sampled"),
        (compression.name, _COMPRESSIONS, "requests are not compressed"),
        ("OTEL_PYTHON_CONTEXT", _CONTEXTS, "OpenTelemetry's default is used"),
    )
    for name, known, result in rows:
        value = environment.get(name, "")
        if value.strip() and value.strip().lower() not in known:
            yield (
                f"environment variable {name}: {value!r} is none of {', '.join(known)}, so {result}"
            )


def _without_effect(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield warnings about variables that nothing here reads."""
    for name in ("OTEL_METRICS_EXPORTER", "OTEL_LOGS_EXPORTER"):
        if environment.get(name, "").strip().lower() not in {"", "none"}:
            yield f"environment variable {name} has no effect: only traces are sent over OTLP"
    for name, value in sorted(environment.items()):
        if name.startswith("OTEL_BSP_") and value.strip():
            yield (
                f"environment variable {name} has no effect: spans wait in the journal, and in no"
                " batch processor"
            )


def _paths(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield warnings about the address that OpenTelemetry's SDK makes of a variable.

    It adds the path to the general variable, and nothing to the one for traces.
    """
    traces = environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "").strip()
    base = environment.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip()
    try:
        path = urlsplit(traces or base).path.rstrip("/")
    except ValueError:
        return  # no address: one of the obstacles
    if traces and not path:
        yield (
            "environment variable OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: nothing is added to it, so"
            f" spans go to {TRACES_PATH} only if you write that"
        )
    if base and not traces and path.endswith(TRACES_PATH):
        yield (
            f"environment variable OTEL_EXPORTER_OTLP_ENDPOINT: {TRACES_PATH} is added to it, so"
            " leave it out"
        )


def _missing(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield warnings about files that do not exist."""
    for name, path in missing_files(environment).items():
        yield f"environment variable {name}: there is no file {path}"


def missing_files(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the files that do not exist, by the variables that name them."""
    missing = {}
    for name in ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"):
        found = _variable(name, environment)
        if found.text and not os.path.exists(found.text):  # noqa: PTH110 - any text
            missing[found.name] = found.text
    return missing
