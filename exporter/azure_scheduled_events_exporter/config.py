"""The configuration: one table of settings, and one frozen result.

A flag overrides its environment variable, the variable overrides the configuration file, and the file overrides the
default. The error for an invalid value names the setting and where it was set.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from azure_scheduled_events_exporter.approval.policy import BUILT_IN, Policy
from azure_scheduled_events_exporter.core.document import API_VERSIONS
from azure_scheduled_events_exporter.core.event_types import hidden_by
from azure_scheduled_events_exporter.core.observation import WATCHED_WITHIN_SECONDS
from azure_scheduled_events_exporter.http_server.listen_address import ListenAddress, parse_listen_address

from .errors import UsageError, closest, without_password
from .logs import FORMATS, LEVELS
from .times import format_duration, parse_duration

ENVIRONMENT_PREFIX = "AZURE_SCHEDULED_EVENTS_"
CONFIG_FILE_FLAG = "config.file"
ENV_FILE_FLAG = "env-file"
DISCOVER = "discover"
# Kubernetes adds variables of every Service to every pod; a Service with the exporter's name would look like settings.
_NOT_OURS = "AZURE_SCHEDULED_EVENTS_EXPORTER_"
_LABEL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_OWN_LABELS = frozenset({"alertname", "event_id", "event_type", "event_status", "severity"})
_PLAIN_HOST = re.compile(r"[0-9A-Za-z_-][0-9A-Za-z._-]*(:\d*)?", re.ASCII)  # with or without a port


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
    def field(self) -> str:
        """Its field of :class:`Config`."""
        return re.sub("[.-]", "_", self.flag)


def environment_name(flag: str) -> str:
    """Return the environment variable of ``flag``."""
    return ENVIRONMENT_PREFIX + re.sub("[.-]", "_", flag).upper()


def resolve(
    flags: Mapping[str, str], environment: Mapping[str, str], places: Mapping[str, str] | None = None
) -> Config:
    """Return the configuration that ``flags`` (by name, without dashes), ``environment`` and the file give.

    Raises:
        UsageError: a value is invalid, or a key of the file is unknown.
    """
    values: dict[str, Any] = {}
    for setting, text, place in written(flags, environment, places):
        try:
            values[setting.field] = setting.parse(text)
        except ValueError as error:
            raise UsageError(f"{place or setting.flag}: {error}") from None
    values["journal_path"] = values["journal_path"] or state_folder(environment)
    return Config(**values)


def written(
    flags: Mapping[str, str], environment: Mapping[str, str], places: Mapping[str, str] | None = None
) -> Iterator[tuple[Setting, str, str]]:
    """Yield every setting with its text and the place where it is set; the place of a default is ``""``.

    ``places`` has the origin of those variables of ``environment`` that are not variables of this process.

    Raises:
        UsageError: the file cannot be read, or has an unknown key.
    """
    file = flags.get(CONFIG_FILE_FLAG) or environment.get(environment_name(CONFIG_FILE_FLAG))
    from_file = _read_file(Path(file)) if file else {}
    for setting in SETTINGS:
        if setting.flag in flags:
            yield setting, flags[setting.flag], f"--{setting.flag}"
        elif setting.environment in environment:
            place = (places or {}).get(setting.environment) or f"environment variable {setting.environment}"
            yield setting, environment[setting.environment], place
        elif setting.flag in from_file:
            text, line = from_file[setting.flag]
            yield setting, text, f"{file}:{line}: {setting.flag}"
        else:
            yield setting, setting.default, ""


def parse_assignments(flag: str, texts: Iterable[str]) -> dict[str, str]:
    """Return what a repeatable flag of the form NAME=VALUE sets; the last value of a name wins.

    Raises:
        UsageError: a text has no ``=``.
    """
    chosen: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"{flag}: '{text}' is not a setting: write NAME=VALUE")
        chosen[name] = value
    return chosen


def unknown_variables(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the variables with the exporter's prefix that are not settings, each with the likeliest intended name."""
    known = [environment_name(CONFIG_FILE_FLAG), environment_name(ENV_FILE_FLAG)]
    known += [setting.environment for setting in SETTINGS]
    for name in sorted(environment):
        if name.startswith(ENVIRONMENT_PREFIX) and not name.startswith(_NOT_OURS) and name not in known:
            yield name, closest(name, known) or ""


def _read_file(path: Path) -> Mapping[str, tuple[str, int]]:
    """Return every setting of the file by its flag, from ``imds.timeout: 5s`` or ``imds: {timeout: 5s}``."""
    from . import yaml_file  # noqa: PLC0415 - most run by flags alone, and its library takes 1.3 MiB

    found = yaml_file.load(path).flat()
    known = [setting.flag for setting in SETTINGS]
    for key, (_, line) in found.items():
        if key not in known:
            meant = closest(key, known)
            hint = f"did you mean '{meant}'?" if meant else f"known are {', '.join(known)}"
            raise UsageError(f"{path}:{line}: unknown key '{key}': {hint}")
    return found


def _endpoint(text: str) -> str:
    if text == DISCOVER:
        return text
    try:
        address = urlsplit(text)
        usable = address.scheme == "http" and address.hostname and address.port != 0 and address.username is None
        if usable and not _PLAIN_HOST.fullmatch(address.netloc):
            from .lean_requests import requests  # noqa: PLC0415 - few need it, and its memory

            requests.Request("GET", text).prepare()  # as the client of IMDS reads it
    except ValueError:
        usable = False
    if not usable or not text.isprintable() or any(c in text for c in " ?#\\"):
        raise ValueError(f"{text!r} is not a base address: write http://HOST[:PORT], or '{DISCOVER}'")
    return text.rstrip("/")


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


def _collector(text: str) -> str | None:
    try:
        address = urlsplit(text)
        usable = address.scheme in {"http", "https"} and address.hostname and address.port != 0 and text.isprintable()
    except ValueError:
        usable = False
    if text and not usable:
        raise ValueError(
            f"{without_password(text)!r} is not a collector: write http://HOST:4318, or https (HTTP, not gRPC)"
        )
    return text or None


def _alertmanagers(text: str) -> tuple[str, ...]:
    return tuple(_alertmanager(each.strip()) for each in text.split(",") if each.strip())


def _alertmanager(text: str) -> str:
    try:
        address = urlsplit(text)
        usable = address.scheme in {"http", "https"} and bool(address.hostname) and address.port != 0
    except ValueError:
        usable = False
    if not usable or not text.isprintable() or any(c in text for c in " ?#\\"):
        raise ValueError(
            f"{without_password(text)!r} is not an Alertmanager: write http://HOST:9093, or https; several with commas"
        )
    return text.rstrip("/")


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


def _name(text: str) -> str | None:
    # The name is part of every scrape, and one character that UTF-8 cannot encode would break them all.
    if not text.isprintable():
        raise ValueError(f"{text!r} is not a VM name: it contains control characters or invalid text")
    return text or None


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
    if Path(text).name == text and not Path(text).suffix and not Path(text).exists():
        raise ValueError(f"{text!r} is neither {', '.join(BUILT_IN)} nor a file in this folder")
    from azure_scheduled_events_exporter.approval.policy_file import load  # noqa: PLC0415 - as for the configuration file

    return load(Path(text))


def state_folder(environment: Mapping[str, str], platform: str = sys.platform) -> str:
    """Return the state folder for daemons: ``$STATE_DIRECTORY`` of systemd, else the usual one of the platform."""
    name = "azure-scheduled-events-exporter"
    if environment.get("STATE_DIRECTORY"):
        return environment["STATE_DIRECTORY"].split(":")[0]
    home = environment.get("HOME", "")
    if platform == "win32":
        return str(Path(environment.get("PROGRAMDATA", r"C:\ProgramData")) / name)
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return f"/var/lib/{name}"
    return str(Path(environment.get("XDG_STATE_HOME") or Path(home) / ".local" / "state") / name)


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
        API_VERSIONS[-1],
        _choice(*API_VERSIONS),
        f"Version of the Scheduled Events API: {_one_of(API_VERSIONS)}.",
        "VERSION",
    ),
    Setting(
        "imds.timeout",
        "10s",
        _timeout,
        "Time limit of a whole request, at most 1h. The first request waits up to 130s, because it may enable "
        "Scheduled Events.",
        "DURATION",
    ),
    Setting("poll.interval", "1s", _interval, "Time between polls, 10ms to 12h. Missed polls are skipped.", "DURATION"),
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
        _file,
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
        str,
        "User to switch to when started as root. If unset, the process stays uid 0 but drops most capabilities.",
        "USER",
    ),
    Setting("log.level", "info", _choice(*LEVELS), f"Minimum severity to log: {_one_of(LEVELS)}.", "LEVEL"),
    Setting("log.format", "logfmt", _choice(*FORMATS), f"Log format: {_one_of(FORMATS)}.", "FORMAT"),
)


def warnings(config: Config) -> list[str]:
    """Return warnings about valid settings that hide events."""
    found = []
    hidden = hidden_by(config.imds_api_version)
    if hidden:
        names = " and ".join(hidden)
        found.append(f"--imds.api-version {config.imds_api_version} does not show events of type {names}")
    if config.poll_interval > WATCHED_WITHIN_SECONDS:
        found.append(
            f"--poll.interval {format_duration(config.poll_interval)} is longer than "
            f"{format_duration(WATCHED_WITHIN_SECONDS)}: an event can start and end unseen, and is then 'lost'"
        )
    return found
