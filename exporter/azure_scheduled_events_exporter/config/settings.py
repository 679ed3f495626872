"""The table of settings: the name, default, help and valid values of each, and all of them as one frozen result.

To add a setting, add a row to ``SETTINGS`` and a field to :class:`Config`. Must not know where a value comes from
(``config.resolution``).
"""

import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from azure_scheduled_events_exporter.approval.policy import BUILT_IN, Policy
from azure_scheduled_events_exporter.core.event_types import API_VERSION, hidden_by
from azure_scheduled_events_exporter.core.observation import WATCHED_WITHIN_SECONDS
from azure_scheduled_events_exporter.http_client.address import checked
from azure_scheduled_events_exporter.http_server.listen_address import ListenAddress, parse_listen_address
from azure_scheduled_events_exporter.imds.api_versions import AUTO
from azure_scheduled_events_exporter.logs import FORMATS, LEVELS
from azure_scheduled_events_exporter.times import format_duration, parse_duration

ENVIRONMENT_PREFIX = "AZURE_SCHEDULED_EVENTS_"
DISCOVER = "discover"
_LABEL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_OWN_LABELS = frozenset({"alertname", "event_id", "event_type", "event_status", "severity"})


@dataclass(frozen=True, slots=True)
class Config:
    """All settings, validated. Durations are in seconds."""

    imds_endpoint: str
    imds_api_version: str
    imds_timeout: float
    poll_interval: float
    instance_name: str | None
    web_listen_address: ListenAddress
    web_telemetry_path: str
    web_config_file: str | None
    journal_path: str
    journal_retention: float
    approval_policy: Policy
    otlp_endpoint: str | None
    tracing_scope: str
    alertmanager_url: tuple[str, ...]
    alertmanager_labels: Mapping[str, str]
    alertmanager_http_config_file: str | None
    alerts_values: str | None
    process_user: str
    log_level: str
    log_format: str


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table.

    Attributes:
        flag: its name; also a key of the configuration file.
        default: as a user would write it; ``""`` for none.
        parse: checks and converts; a ValueError's message says what is wrong.
        help: one sentence.
        metavar: the placeholder of the value in help.
    """

    flag: str
    default: str
    parse: Callable[[str], Any]
    help: str
    metavar: str

    @property
    def environment(self) -> str:
        """Its environment variable."""
        return environment_name(self.flag)

    @property
    def is_address(self) -> bool:
        """Whether its value is a URL, which may contain a password."""
        return self.metavar.startswith("URL")

    @property
    def field(self) -> str:
        """Its field of :class:`Config`."""
        return re.sub("[.-]", "_", self.flag)


def environment_name(flag: str) -> str:
    """Return the environment variable of ``flag``."""
    return ENVIRONMENT_PREFIX + re.sub("[.-]", "_", flag).upper()


def _endpoint(text: str) -> str:
    if text == DISCOVER:
        return text
    text = text.rstrip("/")
    parts = checked(text, "a base address", f"http://HOST[:PORT], or '{DISCOVER}'", secure=False)
    before, metadata, _ = f"{parts.path}/".partition("/metadata/")
    if metadata:
        base = f"{parts.scheme}://{parts.netloc}{before}"
        raise ValueError(f"{text!r} has a path that the exporter adds itself: write {base}")
    return text


def _api_version(text: str) -> str:
    try:
        is_date = re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII) and date.fromisoformat(text)
    except ValueError:
        is_date = None
    if text != AUTO and not is_date:
        raise ValueError(f"{text!r} is not an api-version: write a date such as {API_VERSION}, or '{AUTO}'")
    return text


def _positive_duration(text: str) -> float:
    seconds = parse_duration(text)
    if seconds <= 0:
        raise ValueError(f"{text!r} is too short: it must be more than 0")
    return seconds


def _timeout(text: str) -> float:
    seconds = _positive_duration(text)
    if seconds > 3600:  # noqa: PLR2004 - the message says it
        raise ValueError(f"{text!r} is too long: 1h at most")
    return seconds


def _interval(text: str) -> float:
    seconds = parse_duration(text)
    if not 0.01 <= seconds <= 86400 / 2:  # noqa: PLR2004 - the message says why
        raise ValueError(f"{text!r} is out of range: from 10ms (busy) to 12h (after 24h Azure stops sending events)")
    return seconds


def _choice(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"{text!r} is none of {', '.join(choices)}")
        return text

    return parse


def _log_level(text: str) -> str:
    return _choice(*LEVELS)("warning" if text == "warn" else text)  # Prometheus' name for it


def _collector(text: str) -> str | None:
    if text:
        checked(text, "a collector", "http://HOST:4318, or https (HTTP, not gRPC)")
    return text or None


def _alertmanagers(text: str) -> tuple[str, ...]:
    urls = [each.strip().rstrip("/") for each in text.split(",") if each.strip()]
    for url in urls:
        checked(url, "an Alertmanager", "http://HOST:9093, or https; several with commas")
    return tuple(dict.fromkeys(urls))  # one that is named twice would get every alert twice


def _labels(text: str) -> Mapping[str, str]:
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
            raise ValueError(f"the value of label {name!r} contains control characters or invalid text")
        labels[name] = value
    return labels


def _optional(text: str) -> str | None:
    return _file(text) or None


def _file(text: str) -> str:
    if "\0" in text:
        raise ValueError(f"{text!r} is not a path: it contains a NUL character")
    return text


def _journal(text: str) -> str:
    with suppress(OSError):  # what cannot be reached now may be later
        mode = Path(_file(text)).stat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # SQLite would wait for a pipe's other end
            raise ValueError(f"{text}: is a pipe or a device: name a regular file or a folder")
    return _file(text)


def _user(text: str, what: str = "user") -> str:
    if not text.isprintable():
        raise ValueError(f"{text!r} is not a {what}: it contains control characters or invalid text")
    return text


def _name(text: str) -> str | None:
    # The name is part of every scrape, and one character that UTF-8 cannot encode would break them all.
    return _user(text, "VM name") or None


def _path(text: str) -> str:
    if not text.startswith("/") or not text.isprintable() or any(c in text for c in " ?#%"):
        raise ValueError(f"{text!r} is not a valid path: it must begin with / and contain no spaces, '?', '#' or '%'")
    if text == "/":
        raise ValueError("'/' is the status page: choose another path")
    if text.startswith(("/-/", "/api/")):
        raise ValueError(f"{text!r} is reserved: choose a path outside /-/ and /api/")
    return text


def _policy(text: str) -> Policy:
    text = text or "off"
    if text in BUILT_IN:
        return BUILT_IN[text]
    if Path(text).name == text and not Path(text).suffix and not os.path.exists(text):  # noqa: PTH110 - Path.exists raises for a name that is too long
        raise ValueError(f"{text!r} is neither {', '.join(BUILT_IN)} nor a file in this folder")
    from azure_scheduled_events_exporter.approval.policy_file import load  # noqa: PLC0415 - YAML takes 1.3 MiB

    return load(Path(text))


def _one_of(names: Sequence[str]) -> str:
    return " or ".join([", ".join(names[:-1]), names[-1]])


SETTINGS = (
    Setting(
        "imds.endpoint",
        "http://169.254.169.254",
        _endpoint,
        f"Base address of the metadata service (IMDS). '{DISCOVER}' finds it by DHCP option 245.",
        "URL",
    ),
    Setting(
        "imds.api-version",
        API_VERSION,
        _api_version,
        f"Version of the Scheduled Events API: a date, or '{AUTO}' for the newest that this IMDS answers.",
        "VERSION",
    ),
    Setting(
        "imds.timeout",
        "10s",
        _timeout,
        "Time limit of a whole request, at most 1h. Until the first answer, requests wait up to 130s, because they may "
        "enable Scheduled Events; only the connection has this limit then, too.",
        "DURATION",
    ),
    Setting(
        "poll.interval",
        "1s",
        _interval,
        "Time between polls, 10ms to 12h. Missed polls are skipped. Polls are at least 275ms apart, because IMDS "
        "answers five requests a second to a VM. After a 429 the time doubles, but not beyond 5s.",
        "DURATION",
    ),
    Setting(
        "instance.name",
        "",
        _name,
        "Name of this VM as it appears in Resources. If unset, it is read from IMDS.",
        "NAME",
    ),
    Setting("web.listen-address", ":10169", parse_listen_address, "Address to serve metrics on.", "[HOST]:PORT"),
    Setting("web.telemetry-path", "/metrics", _path, "Path of the metrics.", "PATH"),
    Setting(
        "web.config.file",
        "",
        _optional,
        "TLS and basic authentication, in the format of the Prometheus exporter-toolkit. Reloaded when it changes.",
        "FILE",
    ),
    Setting(
        "journal.path",
        "",
        _journal,
        "Folder or file of the journal, which keeps events across restarts. 'memory' keeps none.",
        "PATH",
    ),
    Setting("journal.retention", "90d", _positive_duration, "How long ended events stay in the journal.", "DURATION"),
    Setting(
        "approval.policy",
        "off",
        _policy,
        f"Events to approve: {', '.join(BUILT_IN)}, or the path of a policy file.",
        "POLICY",
    ),
    Setting("otlp.endpoint", "", _collector, "OpenTelemetry collector (OTLP over HTTP) that receives traces.", "URL"),
    Setting(
        "tracing.scope",
        "self",
        _choice("self", "all"),
        "Events to trace: self (events of this VM) or all.",
        "SCOPE",
    ),
    Setting(
        "alertmanager.url",
        "",
        _alertmanagers,
        "Alertmanager to push alerts of this VM's events to without waiting for a scrape. Several with commas.",
        "URL[,URL]",
    ),
    Setting(
        "alertmanager.labels",
        "",
        _labels,
        "Labels to add to pushed alerts: those that your Prometheus adds as external_labels.",
        "NAME=VALUE[,...]",
    ),
    Setting(
        "alertmanager.http-config.file",
        "",
        _optional,
        "Users, tokens and TLS towards Alertmanager, in the format of Prometheus' HTTP client configuration.",
        "FILE",
    ),
    Setting(
        "alerts.values",
        "",
        _optional,
        "Values file that your alert rules were rendered with, so that pushed alerts have the same severities.",
        "FILE",
    ),
    Setting(
        "process.user",
        "",
        _user,
        "User to switch to when started as root. If unset, the process stays uid 0 but drops most capabilities.",
        "USER",
    ),
    Setting("log.level", "info", _log_level, f"Minimum severity to log: {_one_of(LEVELS)}.", "LEVEL"),
    Setting("log.format", "logfmt", _choice(*FORMATS), f"Log format: {_one_of(FORMATS)}.", "FORMAT"),
)


_LATE_SECONDS = 10.0
"""By how much a poll may be late, for example because the one before got no answer within its time limit."""


def warnings(config: Config) -> list[str]:
    """Return warnings about valid settings that hide events."""
    found = []
    hidden = hidden_by(config.imds_api_version)
    if hidden:
        names = " and ".join(hidden)
        found.append(f"--imds.api-version {config.imds_api_version} does not show events of type {names}")
    longest = WATCHED_WITHIN_SECONDS - _LATE_SECONDS
    if config.poll_interval > longest:
        given, apart = format_duration(config.poll_interval), format_duration(WATCHED_WITHIN_SECONDS)
        found.append(
            f"--poll.interval {given} is longer than {format_duration(longest)}: "
            f"an event that leaves between two documents more than {apart} apart is 'lost'"
        )
    return found
