"""The table of settings: name, default, parser and help of each; and all as one result.

To add a setting, add a field to :class:`Config`. Must not look for values, which
``config.resolution`` does.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from math import inf
from typing import Any

from azure_scheduled_events_exporter.core.event_types import API_VERSION, hidden_by
from azure_scheduled_events_exporter.core.kinds import SHORT_FREEZE_SECONDS
from azure_scheduled_events_exporter.core.observation_context import WATCHED_WITHIN_SECONDS
from azure_scheduled_events_exporter.http_server.listen_address import (
    ListenAddress,
    parse_listen_address,
)
from azure_scheduled_events_exporter.imds.api_versions import AUTO
from azure_scheduled_events_exporter.logs import FORMATS
from azure_scheduled_events_exporter.times import format_duration

from . import parsers
from .parsers import DISCOVER

CONFIG_FILE_FLAG = "config.file"
"""The flag that names the configuration file."""

ENV_FILE_FLAG = "env-file"
"""The flag that names a file of environment variables."""

ENVIRONMENT_PREFIX = "AZURE_SCHEDULED_EVENTS_"
"""How the environment variables of all settings begin."""


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


def _setting(
    flag: str,
    default: str,
    parse: Callable[[str], Any],
    metavar: str,
    help: str,  # noqa: A002 - argparse's name
) -> Any:
    """Return a field of :class:`Config` that carries its row of the table."""
    return field(metadata={"setting": Setting(flag, default, parse, metavar, help)})


@dataclass(frozen=True, slots=True)
class Config:
    """All settings, validated, and the table of them. Durations are in seconds."""

    imds_endpoint: str = _setting(
        "imds.endpoint",
        "http://169.254.169.254",
        parsers.endpoint,
        "URL",
        f"Base address of the metadata service (IMDS). '{DISCOVER}' finds it by DHCP option 245.",
    )
    imds_api_version: str = _setting(
        "imds.api-version",
        API_VERSION,
        parsers.api_version,
        "VERSION",
        f"Version of the Scheduled Events API: a date, or '{AUTO}' for the newest that this IMDS"
        " answers.",
    )
    imds_timeout: float = _setting(
        "imds.timeout",
        "10s",
        parsers.duration(0.001, 3600, "more than 0, at most 1h"),
        "DURATION",
        "Time limit of a whole request, at most 1h. Before the first answer, it limits only the"
        " connection: a request may take 130s, because it may enable Scheduled Events.",
    )
    poll_interval: float = _setting(
        "poll.interval",
        "1s",
        parsers.duration(
            0.01, 43200, "from 10ms (busy) to 12h (after 24h Azure stops sending events)"
        ),
        "DURATION",
        "Time between polls, 10ms to 12h. Missed polls are skipped. Polls are at least 275ms apart,"
        " because IMDS answers five requests a second to a VM. After a 429 the time doubles, but"
        " not beyond 5s.",
    )
    instance_name: str | None = _setting(
        "instance.name",
        "",
        parsers.printable_text("VM name"),
        "NAME",
        "Name of this VM as it appears in Resources. If unset, it is read from IMDS.",
    )
    freeze_harmless_below: float = _setting(
        "freeze.harmless-below",
        format_duration(SHORT_FREEZE_SECONDS),
        parsers.duration(0, 3600, "from 0s (no Freeze is harmless) to 1h"),
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
        "web.telemetry-path", "/metrics", parsers.url_path, "PATH", "Path of the metrics."
    )
    web_config_file: str | None = _setting(
        "web.config.file",
        "",
        parsers.printable_text("path"),
        "FILE",
        "TLS and basic authentication, in the format of the Prometheus exporter-toolkit. Reloaded"
        " when it changes.",
    )
    journal_path: str = _setting(
        "journal.path",
        "",
        parsers.journal_path,
        "PATH",
        "Folder or file of the journal, which keeps events across restarts. 'memory' keeps none.",
    )
    journal_retention: float = _setting(
        "journal.retention",
        "90d",
        parsers.duration(0.001, inf, "more than 0"),
        "DURATION",
        "How long ended events stay in the journal.",
    )
    approval_policy: str = _setting(
        "approval.policy",
        "off",
        parsers.approval_policy,
        "POLICY",
        "Events to approve: off, documented, documented-all, or the path of a policy file.",
    )
    otlp_endpoint: str | None = _setting(
        "otlp.endpoint",
        "",
        parsers.collector,
        "URL",
        "OpenTelemetry collector (OTLP over HTTP) that receives traces.",
    )
    tracing_scope: str = _setting(
        "tracing.scope",
        "self",
        parsers.choice("self", "all"),
        "SCOPE",
        "Events to trace: self (events of this VM) or all.",
    )
    alertmanager_url: tuple[str, ...] = _setting(
        "alertmanager.url",
        "",
        parsers.alertmanagers,
        "URL[,URL]",
        "Alertmanager to push alerts of this VM's events to without waiting for a scrape. Several"
        " with commas.",
    )
    alertmanager_labels: Mapping[str, str] = _setting(
        "alertmanager.labels",
        "",
        parsers.labels,
        "NAME=VALUE[,...]",
        "Labels to add to pushed alerts: those that your Prometheus adds as external_labels.",
    )
    alertmanager_http_config_file: str | None = _setting(
        "alertmanager.http-config.file",
        "",
        parsers.printable_text("path"),
        "FILE",
        "Users, tokens and TLS towards Alertmanager, in the format of Prometheus' HTTP client"
        " configuration.",
    )
    alerts_values: str | None = _setting(
        "alerts.values",
        "",
        parsers.printable_text("path"),
        "FILE",
        "Values file that your alert rules were rendered with, so that pushed alerts have the same"
        " severities.",
    )
    process_user: str | None = _setting(
        "process.user",
        "",
        parsers.printable_text("user"),
        "USER",
        "User to switch to when started as root. If unset, the process stays uid 0 but drops most"
        " capabilities.",
    )
    log_level: str = _setting(
        "log.level",
        "info",
        parsers.log_level,
        "LEVEL",
        "Minimum severity to log: debug, info, warning or error.",
    )
    log_format: str = _setting(
        "log.format", "logfmt", parsers.choice(*FORMATS), "FORMAT", "Log format: logfmt or json."
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
