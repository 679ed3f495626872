"""The table of settings: name, default, help and valid values of each; and all as one result.

To add a setting, add a field to :class:`Config`. Must not look for values, which
``config.resolution`` does.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import date
from math import inf
from typing import Any

from azure_scheduled_events_exporter.core.event_types import API_VERSION, hidden_by
from azure_scheduled_events_exporter.core.kinds import SHORT_FREEZE_SECONDS
from azure_scheduled_events_exporter.core.observation import WATCHED_WITHIN_SECONDS
from azure_scheduled_events_exporter.http_client.address import checked
from azure_scheduled_events_exporter.http_server.listen_address import (
    ListenAddress,
    parse_listen_address,
)
from azure_scheduled_events_exporter.imds.api_versions import AUTO
from azure_scheduled_events_exporter.logs import FORMATS, LEVELS
from azure_scheduled_events_exporter.times import format_duration, parse_duration

CONFIG_FILE_FLAG = "config.file"
ENV_FILE_FLAG = "env-file"
ENVIRONMENT_PREFIX = "AZURE_SCHEDULED_EVENTS_"
DISCOVER = "discover"
_LABEL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_OWN_LABELS = frozenset({"alertname", "event_id", "event_type", "event_status", "severity"})
"""Labels of pushed alerts that ``--alertmanager.labels`` must not replace."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table.

    Attributes:
        flag: its name; also a key of the configuration file.
        default: as a user would write it; ``""`` for none.
        parse: checks and converts; a ValueError's message says what is wrong.
        metavar: the placeholder of the value in help.
        help: one sentence.
    """

    flag: str
    default: str
    parse: Callable[[str], Any]
    metavar: str
    help: str

    @property
    def environment(self) -> str:
        """Its environment variable."""
        return environment_name(self.flag)

    @property
    def field(self) -> str:
        """Its field of :class:`Config`."""
        return re.sub("[.-]", "_", self.flag)


def environment_name(flag: str) -> str:
    """Return the environment variable of ``flag``."""
    return ENVIRONMENT_PREFIX + re.sub("[.-]", "_", flag).upper()


def _endpoint(text: str) -> str:
    """Check the base address of IMDS, and return it without slashes at its end."""
    if text == DISCOVER:
        return text
    text = text.rstrip("/")
    checked(text, "a base address", f"http://HOST[:PORT], or '{DISCOVER}'", secure=False)
    base, metadata, _ = f"{text}/".partition("/metadata/")
    if metadata:  # it is in the text, because other programs' settings have it
        raise ValueError(f"{text!r} has a path that the exporter adds itself: write {base}")
    return text


def _api_version(text: str) -> str:
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


def _duration(least: float, most: float, allowed: str) -> Callable[[str], float]:
    """Return the parser of a duration from ``least`` to ``most`` seconds.

    ``allowed`` is that range in words, for the error.
    """

    def parse(text: str) -> float:
        seconds = parse_duration(text)
        if not least <= seconds <= most:
            raise ValueError(f"{text!r} is out of range: {allowed}")
        return seconds

    return parse


def _choice(*choices: str) -> Callable[[str], str]:
    """Return the parser of a text that must be one of ``choices``."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"{text!r} is none of {', '.join(choices)}")
        return text

    return parse


def _log_level(text: str) -> str:
    """Check a level of the log; ``warn`` is the same as ``warning``."""
    return _choice(*LEVELS)("warning" if text == "warn" else text)  # Prometheus' name for it


def _collector(text: str) -> str | None:
    """Check the address of an OpenTelemetry collector; return None for an empty one."""
    if text:
        checked(text, "a collector", "http://HOST:4318, or https (HTTP, not gRPC)")
    return text or None


def _alertmanagers(text: str) -> tuple[str, ...]:
    """Return the addresses between commas, without slashes at their ends."""
    urls = [each.strip().rstrip("/") for each in text.split(",") if each.strip()]
    for url in urls:
        checked(
            url, "the address of an Alertmanager", "http://HOST:9093, or https; several with commas"
        )
    return tuple(dict.fromkeys(urls))  # one that is named twice would get every alert twice


def _labels(text: str) -> Mapping[str, str]:
    """Return labels of alerts by name, from NAME=VALUE between commas."""
    labels: dict[str, str] = {}
    for each in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = each.partition("=")
        if not equals or not _LABEL_NAME.fullmatch(name):
            raise ValueError(f"{each!r} is not a label: write NAME=VALUE, several with commas")
        if name in _OWN_LABELS or name.startswith("__"):
            raise ValueError(f"{name!r} is a label that alerts have already: choose another name")
        if name in labels:
            raise ValueError(f"label {name!r} appears twice: keep one")
        if not value.isprintable():
            raise ValueError(
                f"the value of label {name!r} contains control characters or invalid text"
            )
        labels[name] = value
    return labels


def _text(what: str) -> Callable[[str], str | None]:
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


def _journal(text: str) -> str:
    """Check the name only: the disk may hang, and the journal's own thread opens it."""
    return _text("path")(text) or ""


def _path(text: str) -> str:
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


def _policy(text: str) -> str:
    """Check the characters only: ``approval.policy_reload`` knows the names and reads the file."""
    return _text("policy")(text) or "off"


def _setting(flag: str, default: str, parse: Callable[[str], Any], metavar: str, help: str) -> Any:  # noqa: A002 - a field
    """Return a field of :class:`Config` that carries its row of the table."""
    return field(metadata={"setting": Setting(flag, default, parse, metavar, help)})


@dataclass(frozen=True, slots=True)
class Config:
    """All settings, validated, and the table of them. Durations are in seconds."""

    imds_endpoint: str = _setting(
        "imds.endpoint",
        "http://169.254.169.254",
        _endpoint,
        "URL",
        f"Base address of the metadata service (IMDS). '{DISCOVER}' finds it by DHCP option 245.",
    )
    imds_api_version: str = _setting(
        "imds.api-version",
        API_VERSION,
        _api_version,
        "VERSION",
        f"Version of the Scheduled Events API: a date, or '{AUTO}' for the newest that this IMDS"
        " answers.",
    )
    imds_timeout: float = _setting(
        "imds.timeout",
        "10s",
        _duration(0.001, 3600, "more than 0, at most 1h"),
        "DURATION",
        "Time limit of a whole request, at most 1h. Before the first answer, it limits only the"
        " connection: a request may take 130s, because it may enable Scheduled Events.",
    )
    poll_interval: float = _setting(
        "poll.interval",
        "1s",
        _duration(0.01, 43200, "from 10ms (busy) to 12h (after 24h Azure stops sending events)"),
        "DURATION",
        "Time between polls, 10ms to 12h. Missed polls are skipped. Polls are at least 275ms apart,"
        " because IMDS answers five requests a second to a VM. After a 429 the time doubles, but"
        " not beyond 5s.",
    )
    instance_name: str | None = _setting(
        "instance.name",
        "",
        _text("VM name"),
        "NAME",
        "Name of this VM as it appears in Resources. If unset, it is read from IMDS.",
    )
    freeze_harmless_below: float = _setting(
        "freeze.harmless-below",
        format_duration(SHORT_FREEZE_SECONDS),
        _duration(0, 3600, "from 0s (no Freeze is harmless) to 1h"),
        "DURATION",
        "A Freeze announced as shorter is harmless: it raises no alert, and a hook does not prepare"
        " for it. With 0s, only one that is announced with 0 seconds is harmless.",
    )
    web_listen_address: ListenAddress = _setting(  # noqa: RUF009 - a field
        "web.listen-address",
        ":10169",
        parse_listen_address,
        "[HOST]:PORT",
        "Address to serve metrics on.",
    )
    web_telemetry_path: str = _setting(
        "web.telemetry-path", "/metrics", _path, "PATH", "Path of the metrics."
    )
    web_config_file: str | None = _setting(
        "web.config.file",
        "",
        _text("path"),
        "FILE",
        "TLS and basic authentication, in the format of the Prometheus exporter-toolkit. Reloaded"
        " when it changes.",
    )
    journal_path: str = _setting(
        "journal.path",
        "",
        _journal,
        "PATH",
        "Folder or file of the journal, which keeps events across restarts. 'memory' keeps none.",
    )
    journal_retention: float = _setting(
        "journal.retention",
        "90d",
        _duration(0.001, inf, "more than 0"),
        "DURATION",
        "How long ended events stay in the journal.",
    )
    approval_policy: str = _setting(
        "approval.policy",
        "off",
        _policy,
        "POLICY",
        "Events to approve: off, documented, documented-all, or the path of a policy file.",
    )
    otlp_endpoint: str | None = _setting(
        "otlp.endpoint",
        "",
        _collector,
        "URL",
        "OpenTelemetry collector (OTLP over HTTP) that receives traces.",
    )
    tracing_scope: str = _setting(
        "tracing.scope",
        "self",
        _choice("self", "all"),
        "SCOPE",
        "Events to trace: self (events of this VM) or all.",
    )
    alertmanager_url: tuple[str, ...] = _setting(
        "alertmanager.url",
        "",
        _alertmanagers,
        "URL[,URL]",
        "Alertmanager to push alerts of this VM's events to without waiting for a scrape. Several"
        " with commas.",
    )
    alertmanager_labels: Mapping[str, str] = _setting(
        "alertmanager.labels",
        "",
        _labels,
        "NAME=VALUE[,...]",
        "Labels to add to pushed alerts: those that your Prometheus adds as external_labels.",
    )
    alertmanager_http_config_file: str | None = _setting(
        "alertmanager.http-config.file",
        "",
        _text("path"),
        "FILE",
        "Users, tokens and TLS towards Alertmanager, in the format of Prometheus' HTTP client"
        " configuration.",
    )
    alerts_values: str | None = _setting(
        "alerts.values",
        "",
        _text("path"),
        "FILE",
        "Values file that your alert rules were rendered with, so that pushed alerts have the same"
        " severities.",
    )
    process_user: str | None = _setting(
        "process.user",
        "",
        _text("user"),
        "USER",
        "User to switch to when started as root. If unset, the process stays uid 0 but drops most"
        " capabilities.",
    )
    log_level: str = _setting(
        "log.level",
        "info",
        _log_level,
        "LEVEL",
        "Minimum severity to log: debug, info, warning or error.",
    )
    log_format: str = _setting(
        "log.format", "logfmt", _choice(*FORMATS), "FORMAT", "Log format: logfmt or json."
    )


SETTINGS: tuple[Setting, ...] = tuple(each.metadata["setting"] for each in fields(Config))
"""The table, in the order of :class:`Config`."""

FLAGS = (CONFIG_FILE_FLAG, ENV_FILE_FLAG, *(setting.flag for setting in SETTINGS))
"""All flags, without dashes: those of the settings, and of the two files that have them."""

_LATE_SECONDS = 10.0
"""By how much a poll may be late, for example because the one before got no answer in time."""


def warnings(config: Config) -> list[str]:
    """Return warnings about valid settings that hide events."""
    found = []
    if hidden := " and ".join(hidden_by(config.imds_api_version)):
        found.append(
            f"--imds.api-version {config.imds_api_version} does not show events of type {hidden}"
        )
    longest = WATCHED_WITHIN_SECONDS - _LATE_SECONDS
    if config.poll_interval > longest:
        given = format_duration(config.poll_interval)
        apart = format_duration(WATCHED_WITHIN_SECONDS)
        found.append(
            f"--poll.interval {given} is longer than {format_duration(longest)}: "
            f"an event that leaves between two documents more than {apart} apart is 'lost'"
        )
    return found
