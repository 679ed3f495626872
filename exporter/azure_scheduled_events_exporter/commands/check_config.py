"""The command ``check-config``: validates the configuration and prints the effective settings and where each is set."""

import argparse
import os
import sys

from azure_scheduled_events_exporter.config.flags import oversights, written_flags
from azure_scheduled_events_exporter.config.resolution import resolve, written
from azure_scheduled_events_exporter.config.settings import warnings
from azure_scheduled_events_exporter.doctor.settings import check_named
from azure_scheduled_events_exporter.errors import without_password
from azure_scheduled_events_exporter.tracing.delivery import otlp_sender
from azure_scheduled_events_exporter.tracing.variables import doubts, is_on

from .settings import take_environment


def run(parsed: argparse.Namespace) -> int:
    """Print every setting with its value and place; return the exit status.

    Raises:
        UsageError: a setting is invalid.
    """
    places = take_environment(parsed)
    flags, environment = written_flags(parsed), os.environ
    config = resolve(flags, environment, places)
    check_named(config)
    traced = is_on(config.otlp_endpoint, environment)
    if traced:
        otlp_sender(config.otlp_endpoint)  # refuses what OpenTelemetry refuses; sends nothing
    for setting, text, place in written(flags, environment, places):
        value = text or (config.journal_path if setting.flag == "journal.path" else "(none)")
        shown = without_password(value) if setting.metavar.startswith("URL") else value
        print(f"{setting.flag}: {shown}   [{place or 'default'}]")
    for warning in (
        *oversights(parsed, environment),
        *warnings(config),
        *(doubts(environment) if traced else ()),
    ):
        print(f"warning: {warning}", file=sys.stderr)
    return 0
