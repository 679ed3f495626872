"""Checks the settings, the files and the account that they name, and misspelled variables."""

from pathlib import Path

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.approval.policy_reload import load_policy
from azure_scheduled_events_exporter.config.resolution import unknown_variables
from azure_scheduled_events_exporter.config.settings import Config, warnings
from azure_scheduled_events_exporter.errors import ExporterError, named_by
from azure_scheduled_events_exporter.http_server.web_config import load
from azure_scheduled_events_exporter.service import alert_push
from azure_scheduled_events_exporter.service.privileges import account

from .finding import Findings, ok, warning, wrong
from .subject import Subject


def check_named(config: Config) -> None:
    """Look up the account and load the files that the settings name, as the exporter would.

    ``check-config`` calls this function too.

    Raises:
        ExporterError: the exporter could not start with one of them.
    """
    if config.process_user:
        account(config.process_user)
    load_policy(config.approval_policy)
    if config.web_config_file is not None:
        with named_by("--web.config.file"):
            load(Path(config.web_config_file))
    if config.alertmanager_url or config.alertmanager_http_config_file or config.alerts_values:
        alert_push.check(config)


def examine(subject: Subject) -> Findings:
    """Yield the findings about settings and environment."""
    try:
        check_named(subject.config)
        yield ok("settings", f"Version {__version__}; the settings are valid.")
    except ExporterError as error:
        hint = "Correct it; if only the exporter's user may read the file, run doctor as root."
        yield wrong("settings", f"The exporter cannot start: {error}.", hint)
    for doubt in warnings(subject.config):
        yield warning("settings", f"{doubt}.", "Change it, or leave it out.")
    found = []
    for name, meant in unknown_variables(subject.environment):
        if meant:
            found.append(f"{name} (did you mean {meant}?)")
        else:
            found.append(name)
    if found:
        hint = "Correct or remove them, then restart the exporter."
        yield wrong(
            "variables",
            f"The exporter ignores these environment variables: {', '.join(found)}.",
            hint,
        )
    else:
        yield ok("variables", "No environment variable is misspelled.")
