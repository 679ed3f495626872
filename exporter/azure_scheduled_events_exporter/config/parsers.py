"""Parsers of settings: each checks a text and returns its value.

A text that is no value raises ValueError, whose message says what is wrong and what to write. Must
not know which setting a text belongs to, or read a file that it names.
"""

import re
from collections.abc import Callable, Mapping
from datetime import date

from azure_scheduled_events_exporter.core.event_types import API_VERSION
from azure_scheduled_events_exporter.http_client.address import checked
from azure_scheduled_events_exporter.imds.api_versions import AUTO
from azure_scheduled_events_exporter.logs import LEVELS
from azure_scheduled_events_exporter.times import parse_duration

DISCOVER = "discover"
"""The address of IMDS that means: find it by DHCP."""

_LABEL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
"""The names that Prometheus permits."""

_OWN_LABELS = frozenset({"alertname", "event_id", "event_type", "event_status", "severity"})
"""Labels of pushed alerts that ``--alertmanager.labels`` must not replace."""


def endpoint(text: str) -> str:
    """Check the base address of IMDS, or ``discover``; return it without slashes at its end."""
    if text == DISCOVER:
        return text
    text = text.rstrip("/")
    # IMDS has neither https nor users.
    checked(text, "a base address", f"http://HOST[:PORT], or '{DISCOVER}'", secure=False)
    base, metadata, _ = f"{text}/".partition("/metadata/")  # also a text that ends with /metadata
    if metadata:  # it is in the text, because other programs' settings have it
        raise ValueError(f"{text!r} has a path that the exporter adds itself: write {base}")
    return text


def api_version(text: str) -> str:
    """Check an api-version: a date, or ``auto``."""
    if text != AUTO and not _is_date(text):
        raise ValueError(
            f"{text!r} is not an api-version: write a date such as {API_VERSION}, or '{AUTO}'"
        )
    return text


def _is_date(text: str) -> bool:
    """Return whether ``text`` is a date of the form 2020-07-01, not 20200701."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def duration(least: float, most: float, allowed: str) -> Callable[[str], float]:
    """Return the parser of a duration from ``least`` to ``most`` seconds.

    ``allowed`` is that range in words, for the error.
    """

    def parse(text: str) -> float:
        seconds = parse_duration(text)
        if not least <= seconds <= most:
            raise ValueError(f"{text!r} is out of range: {allowed}")
        return seconds

    return parse


def choice(*choices: str) -> Callable[[str], str]:
    """Return the parser of a text that must be one of ``choices``."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"{text!r} is none of {', '.join(choices)}")
        return text

    return parse


def log_level(text: str) -> str:
    """Check a level of the log; ``warn`` is the same as ``warning``."""
    if text == "warn":  # Prometheus' name for it
        text = "warning"
    return choice(*LEVELS)(text)


def collector(text: str) -> str | None:
    """Check the address of an OpenTelemetry collector; return None for an empty one."""
    if text:
        checked(text, "a collector", "http://HOST:4318, or https (HTTP, not gRPC)")
    return text or None


def alertmanagers(text: str) -> tuple[str, ...]:
    """Return the addresses between commas, without slashes at their ends."""
    urls = [each.strip().rstrip("/") for each in text.split(",") if each.strip()]
    write = "http://HOST:9093, or https; several with commas, and %2C for one in a password"
    for number, url in enumerate(urls, start=1):
        try:
            checked(url, "that of an Alertmanager", write)
        except ValueError as error:
            raise ValueError(f"address {number} {error}") from None
    return tuple(dict.fromkeys(urls))  # one that is named twice would get every alert twice


def labels(text: str) -> Mapping[str, str]:
    """Return labels of alerts by name, from NAME=VALUE between commas."""
    found: dict[str, str] = {}
    parts = [part.strip() for part in text.split(",") if part.strip()]
    for number, each in enumerate(parts, start=1):
        name, equals, value = each.partition("=")
        if not equals or not _LABEL_NAME.fullmatch(name):
            raise ValueError(
                f"number {number} is not a label: write NAME=VALUE, several with commas, and only"
                " letters, digits and _ in a name"
            )
        if name in _OWN_LABELS or name.startswith("__"):
            raise ValueError(f"{name!r} is a label that alerts have already: choose another name")
        if name in found:
            raise ValueError(f"label {name!r} appears twice: keep one")
        if not value.isprintable():
            raise ValueError(
                f"the value of label {name!r} contains control characters or invalid text"
            )
        found[name] = value
    return found


def printable_text(what: str) -> Callable[[str], str | None]:
    """Return the parser of a printable text, which is None if it is empty."""

    def parse(text: str) -> str | None:
        # A text may become a label of a metric, and there one character that UTF-8 cannot encode
        # would break every scrape.
        if not text.isprintable():
            raise ValueError(
                f"{text!r} is not a {what}: it contains control characters or invalid text"
            )
        return text or None

    return parse


def journal_path(text: str) -> str:
    """Check the name only: the disk may hang, and the journal's own thread opens it."""
    return printable_text("path")(text) or ""


def url_path(text: str) -> str:
    """Check a path of the web server."""
    if not text.startswith("/") or not text.isprintable() or any(c in text for c in " ?#%"):
        raise ValueError(
            f"{text!r} is not a valid path: it must begin with / and contain no spaces, '?', '#'"
            " or '%'"
        )
    if text == "/" or text.startswith(("/-/", "/api/")):
        raise ValueError(
            f"{text!r} is reserved: choose a path other than / and outside /-/ and /api/"
        )
    return text


def approval_policy(text: str) -> str:
    """Check the characters only: ``approval.policy_reload`` knows the names and reads the file."""
    return printable_text("policy")(text) or "off"
