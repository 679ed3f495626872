"""Sets up what pushes alerts, from the configuration; says which alerts a snapshot requires.

A running exporter imports this module only if there is an Alertmanager to push to.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from azure_scheduled_events_exporter.alertmanager.alert import Catalog, EventAlert, alert_of
from azure_scheduled_events_exporter.alertmanager.client import AlertmanagerClient
from azure_scheduled_events_exporter.alertmanager.outbox import Wanted
from azure_scheduled_events_exporter.alertmanager.push import AlertPush, Worker
from azure_scheduled_events_exporter.alerts.pushed import pushed_alerts
from azure_scheduled_events_exporter.alerts.settings import Settings, load
from azure_scheduled_events_exporter.config.settings import Config
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import named_by
from azure_scheduled_events_exporter.http_client import http_config
from azure_scheduled_events_exporter.snapshot.snapshot import Snapshot


def alert_push(
    config: Config,
    latest: Callable[[], Snapshot],
    clock: Callable[[], Timestamp],
    log: logging.Logger,
) -> AlertPush:
    """Return what pushes the alerts of the newest snapshot to the Alertmanagers in ``config``.

    ``clock`` returns the time by the clock of IMDS.

    Raises:
        ExporterError: a file cannot be read or is invalid.
    """
    catalog = check(config)
    labels = config.alertmanager_labels

    def look() -> Wanted | None:
        return wanted(latest(), catalog, labels, clock())

    clients = [
        AlertmanagerClient(url, config.alertmanager_http_config_file)
        for url in config.alertmanager_url
    ]
    return AlertPush([Worker(client, look, clock, log) for client in clients])


def wanted(
    snapshot: Snapshot, catalog: Catalog, labels: Mapping[str, str], now: Timestamp
) -> Wanted | None:
    """Return the alerts of this VM's events: those that fire, and those whose events have ended.

    Events that only the journal knows do not fire: a document has yet to show whether they go on.
    ``snapshot.shown`` is without them.

    Args:
        snapshot: what the exporter knows.
        catalog: the alerts.
        labels: what is added to the labels of each alert.
        now: the time by the clock of IMDS; an ended event has the seconds since its end.

    Returns:
        None if the last poll has not read a document: nothing is to be pushed then.
    """
    has_read_document = snapshot.polls.up or snapshot.polls.partial
    if not has_read_document:
        return None

    def alert_for(life: Lifecycle) -> EventAlert | None:
        """Return the alert of an event; None if events of its kind have none."""
        return alert_of(life, life.kind, snapshot.identity, catalog, labels)

    firing = []
    for life in filter(_is_mine, snapshot.shown.values()):
        alert = alert_for(life)
        if alert is not None:
            firing.append(alert)
    ended = []
    for life in filter(_is_mine, snapshot.ended):
        alert = alert_for(life)
        if alert is not None and life.ended_at is not None:
            ended.append((alert, now.since(life.ended_at)))
    return Wanted(firing, ended)


def _is_mine(life: Lifecycle) -> bool:
    """Return whether an event is one of this VM."""
    return life.is_mine


def check(config: Config) -> Catalog:
    """Check the files about pushed alerts that ``config`` names; return the alerts.

    These are the alerts that could be pushed, with the settings of ``--alerts.values``.

    Raises:
        ExporterError: a file cannot be read or is invalid.
    """
    if config.alertmanager_http_config_file is not None:
        with named_by("--alertmanager.http-config.file"):
            http_config.load(Path(config.alertmanager_http_config_file))
    settings = Settings()
    if config.alerts_values is not None:
        with named_by("--alerts.values"):
            settings = load(Path(config.alerts_values))
    return pushed_alerts(settings)
