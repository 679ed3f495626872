"""The command ``check-config``: validates the configuration.

It prints the effective settings, where each is set, and what the web configuration does.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from azure_scheduled_events_exporter.config.flags import oversights, written_flags
from azure_scheduled_events_exporter.config.resolution import resolve, texts_and_places
from azure_scheduled_events_exporter.config.settings import Config, Setting, warnings
from azure_scheduled_events_exporter.doctor.settings import check_named
from azure_scheduled_events_exporter.errors import UsageError, without_password
from azure_scheduled_events_exporter.http_server.web_config import load
from azure_scheduled_events_exporter.tracing.loading import otlp_sender
from azure_scheduled_events_exporter.tracing.variables import (
    doubts,
    is_on,
    is_wanted,
    obstacles,
)

from .settings import take_environment


def run(parsed: argparse.Namespace) -> int:
    """Print every setting with its value and place; return the exit status.

    Raises:
        ExporterError: a setting is invalid, or the exporter could not use a file that one names.
    """
    places = take_environment(parsed)
    flags = written_flags(parsed)
    environment = os.environ
    config = resolve(flags, environment, places)
    check_named(config)
    for setting, text, place in texts_and_places(flags, environment, places):
        print(f"{setting.flag}: {_shown(setting, text, config)}   [{place or 'default'}]")
    if config.web_config_file is not None:
        print(f"web configuration: {load(Path(config.web_config_file)).summary}")
    for warning in (
        *oversights(parsed, environment),
        *warnings(config),
        *_of_tracing(config.otlp_endpoint, environment),
    ):
        print(f"warning: {warning}", file=sys.stderr)
    return 0


def _shown(setting: Setting, text: str, config: Config) -> str:
    """Return what a person reads as the value of a setting, whose text is ``text``."""
    if text and setting.metavar.startswith("URL"):
        return without_password(text)
    if not text and setting.flag == "journal.path":
        return config.journal_path  # its default depends on user and platform
    return text or "(none)"


def _of_tracing(endpoint: str | None, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield warnings about OpenTelemetry's variables, if there is a collector; sends nothing."""
    if not is_wanted(endpoint, environment):
        return
    yield from obstacles(environment)
    yield from doubts(environment)
    can_trace = is_on(endpoint, environment)  # False if there are obstacles and no --otlp.endpoint
    if can_trace:
        try:
            otlp_sender(endpoint)  # refuses what OpenTelemetry refuses
        except UsageError as error:
            yield str(error)
            can_trace = False
    if not can_trace:
        yield "tracing is off: OpenTelemetry's variables cannot be used"
