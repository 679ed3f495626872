"""The command ``check-config``: validates the configuration and prints the effective settings and where each is set."""

import argparse
import os
import sys

from azure_scheduled_events_exporter.config import resolve, unknown_variables, warnings, written
from azure_scheduled_events_exporter.config.flags import repeated_flags, written_flags
from azure_scheduled_events_exporter.doctor.settings import check_named
from azure_scheduled_events_exporter.errors import without_password
from azure_scheduled_events_exporter.tracing.sender import otlp_sender
from azure_scheduled_events_exporter.tracing.variables import doubts, is_on

from .settings import take_environment


def run(parsed: argparse.Namespace) -> int:
    """Print every setting with its value and place; return the exit status.

    Raises:
        UsageError: a setting is invalid.
    """
    for flag in repeated_flags(parsed):
        print(f"warning: {flag} is written more than once: its last value is used", file=sys.stderr)
    places = take_environment(parsed)
    flags, environment = written_flags(parsed), os.environ
    config = resolve(flags, environment, places)
    check_named(config)
    traced = is_on(config.otlp_endpoint, environment)
    if traced:
        otlp_sender(config.otlp_endpoint)  # refuses what OpenTelemetry refuses; sends nothing
    for setting, text, place in written(flags, environment, places):
        value = text or (config.journal_path if setting.flag == "journal.path" else "(none)")
        shown = without_password(value) if setting.is_address else value
        print(f"{setting.flag}: {shown}   [{place or 'default'}]")
    for warning in [*warnings(config), *(doubts(environment) if traced else [])]:
        print(f"warning: {warning}", file=sys.stderr)
    for name, meant in unknown_variables(environment):
        hint = f"did you mean {meant}?" if meant else "see --help"
        print(f"warning: unknown environment variable {name}: {hint}", file=sys.stderr)
    return 0
