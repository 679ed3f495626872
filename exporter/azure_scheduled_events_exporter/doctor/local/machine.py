"""Checks this machine: the exporter's configuration, its user, and environment variables that interfere."""

from pathlib import Path

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.config import unknown_variables
from azure_scheduled_events_exporter.doctor.finding import Finding, Findings, note, ok, wrong
from azure_scheduled_events_exporter.doctor.subject import Subject
from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.http_server.web_config import load
from azure_scheduled_events_exporter.service import alert_push
from azure_scheduled_events_exporter.service.privileges import account


def examine(subject: Subject) -> Findings:
    """Yield the findings about configuration, user and environment."""
    read = f", with the environment of {', '.join(subject.files)}" if subject.files else ""
    yield ok("settings", f"Version {__version__}; the settings are valid{read}.")
    for check in (_unknown_variables, _user, _web_config, _pushed_alerts):
        yield check(subject)


def _unknown_variables(subject: Subject) -> Finding:
    found = list(unknown_variables(subject.environment))
    if not found:
        return ok("variables", "No environment variable is misspelled.")
    names = ", ".join(f"{name} (did you mean {meant}?)" if meant else name for name, meant in found)
    return wrong(
        "variables",
        f"The exporter ignores these environment variables: {names}.",
        "Correct or remove them, then restart the exporter.",
        "systemd.md#settings",
    )


def _user(subject: Subject) -> Finding:
    user = subject.config.process_user
    if not user:
        return ok("user", "The exporter keeps the user that starts it.")
    try:
        account(user)
    except ExporterError as error:
        return wrong("user", f"The exporter cannot start: {error}.", "Correct --process.user.", "systemd.md#settings")
    return ok("user", f"The exporter becomes user {user}.")


def _web_config(subject: Subject) -> Finding:
    if subject.config.web_config_file is None:
        return note("web-config", "The port is served without TLS and passwords: no --web.config.file is set.")
    try:
        load(Path(subject.config.web_config_file))
    except ExporterError as error:
        return wrong(
            "web-config",
            f"The web configuration cannot be used: {error}.",
            "Correct the file; if only the exporter's user may read it, run doctor as root.",
            "web-config.md",
        )
    return ok("web-config", f"The web configuration {subject.config.web_config_file} is valid.")


def _pushed_alerts(subject: Subject) -> Finding:
    if not subject.config.alertmanager_url:
        return note("pushed-alerts", "The exporter pushes no alerts: no --alertmanager.url is set.")
    try:
        alert_push.check(subject.config)
    except ExporterError as error:
        return wrong(
            "pushed-alerts",
            f"The exporter cannot start, because it is to push alerts: {error}.",
            "Correct the file; if only the exporter's user may read it, run doctor as root.",
            "push-alerts.md#settings",
        )
    return ok("pushed-alerts", "The alerts that the exporter pushes, and its credentials for Alertmanager, are valid.")
