"""The flags of ``drill``: parses them, and starts the way that they choose."""

import argparse
from collections.abc import Mapping
from typing import Any, Final

from azure_scheduled_events_exporter.alertmanager.client import TIMEOUT_SECONDS, AlertmanagerClient
from azure_scheduled_events_exporter.commands.interruption import interruptible
from azure_scheduled_events_exporter.commands.settings import argument
from azure_scheduled_events_exporter.config.resolution import parse_assignments, resolve
from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.http_server.listen_address import parse_listen_address
from azure_scheduled_events_exporter.service import alert_push
from azure_scheduled_events_exporter.service.privileges import give_up
from azure_scheduled_events_exporter.times import parse_duration

from .stage import alert_of_story, story_of
from .team import Team
from .ways import Drill, inhibit

DESCRIPTION: Final = "Test your paging: raise an alert that is labeled as a drill and measure how long the page takes."

_HTTP_CONFIG: Final = "alertmanager.http-config.file"
_FLAGS: Final = (
    ("alertmanager", str, "URL", None, "Your Alertmanager, for example http://alerts:9093. Required."),
    (_HTTP_CONFIG, str, "FILE", None, "Credentials and TLS for it, as in Prometheus' HTTP client configuration."),
    ("alerts.values", str, "FILE", None, "Values file of your alert rules, to raise their alert and severity."),
    ("scenario", str, "NAME", "host-failure", "Scenario of the simulator."),
    ("timeout", parse_duration, "DURATION", "2m", "Time limit for the page."),
    (
        *("exporter.listen-address", parse_listen_address, "HOST:PORT", None),
        "Test the whole path: serve the metrics of a simulated VM on this address, for your Prometheus to scrape.",
    ),
    (
        *("wait", parse_duration, "DURATION", "30s"),
        "With --exporter.listen-address: time for Prometheus to find the target before the event.",
    ),
    (
        *("after", parse_duration, "DURATION", "10s"),
        "With --exporter.listen-address: time to serve the metrics after the event, for Prometheus.",
    ),
    (
        *("maintenance", str, "LABELS", None),
        "Test inhibition instead, of your own alert with these labels, such as alertname=InstanceDown,instance=HOST.",
    ),
)
_SWITCHES: Final = {
    "push": "Test pushed alerts: a simulated VM whose exporter pushes to your Alertmanager. No Prometheus.",
    "keep": "Do not end the event or resolve the alert. An alert that the drill posts resolves after 5 minutes.",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``drill`` to ``parser``."""
    for name, parse, metavar, default, text in _FLAGS:
        kind, required = argument(parse), name == "alertmanager"
        shown = f"{text} (default {default})" if default else text
        parser.add_argument(
            f"--{name}", dest=name, type=kind, metavar=metavar, default=default, required=required, help=shown
        )
    for name, text in _SWITCHES.items():
        parser.add_argument(f"--{name}", action="store_true", help=text)


def run(arguments: argparse.Namespace) -> int:
    """Run the drill; return the exit status.

    Raises:
        UsageError: a flag is invalid.
        ExporterError: Alertmanager cannot be reached, refuses the alert, or does not notify in time.
    """
    with interruptible():
        _run(vars(arguments))
    return 0


def _run(flags: Mapping[str, Any]) -> None:
    timeout, address = flags["timeout"], flags["exporter.listen-address"]
    story = story_of(flags["scenario"])
    settings = {name: flags[name] for name in (_HTTP_CONFIG, "alerts.values") if flags[name] is not None}
    settings["alertmanager.url"] = flags["alertmanager"]
    config = resolve(settings, {})
    catalog = alert_push.check(config)
    if len(config.alertmanager_url) > 1:
        raise UsageError("--alertmanager: give one address; a cluster tells all its members")
    if flags["push"] and address is not None:
        raise UsageError("--push and --exporter.listen-address cannot be used together")
    if address is not None:  # as an exporter that serves, and before the simulator has threads
        give_up(None, address.port, None)
    team = Team(AlertmanagerClient(flags["alertmanager"], flags[_HTTP_CONFIG], min(timeout, TIMEOUT_SECONDS)))
    with team.named():
        if flags["maintenance"] is not None:
            return inhibit(team, parse_assignments("--maintenance", flags["maintenance"].split(",")), timeout)
        team.sent()  # so that a wrong address is reported before anything starts
        drill = Drill(team, story, alert_of_story(story, catalog), timeout, keep=flags["keep"])
        if flags["push"]:
            return drill.push(settings)
        return drill.scrape(address, flags["wait"], flags["after"]) if address is not None else drill.post()
