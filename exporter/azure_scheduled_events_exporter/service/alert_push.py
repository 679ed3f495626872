"""Sets up what pushes alerts, from the configuration.

Imported only if there is an Alertmanager to push to.
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

    def time() -> float:
        return clock().wall

    clients = [
        AlertmanagerClient(url, config.alertmanager_http_config_file)
        for url in config.alertmanager_url
    ]
    return AlertPush([Worker(client, look, clock, time, log) for client in clients])


def wanted(
    snapshot: Snapshot, catalog: Catalog, labels: Mapping[str, str], now: Timestamp
) -> Wanted | None:
    """Return the alerts of this VM's events in ``snapshot``, and how long ago the ended ones ended.

    None if the last poll has not read a document: nothing is to be pushed then.

    Events that only the journal knows are left out until a document has shown whether they go on.
    """
    if not (snapshot.polls.up or snapshot.polls.partial):
        return None

    def raised(life: Lifecycle) -> EventAlert | None:
        """Return the alert of an event; None if events of its kind raise none."""
        return alert_of(life, life.kind, snapshot.identity, catalog, labels)

    mine = [life for life in snapshot.shown.values() if life.is_mine]
    firing = [raised(life) for life in mine]
    ended = []
    for life in snapshot.ended:
        if not life.is_mine or life.ended_at is None:
            continue
        alert = raised(life)
        if alert is not None:
            ended.append((alert, now.since(life.ended_at)))
    return Wanted([alert for alert in firing if alert], ended)


def check(config: Config) -> Catalog:
    """Check the files for pushed alerts that ``config`` names; return these alerts.

    Raises:
        ExporterError: a file cannot be read or is invalid.
    """
    if config.alertmanager_http_config_file is not None:
        with named_by("--alertmanager.http-config.file"):
            http_config.load(Path(config.alertmanager_http_config_file))
    with named_by("--alerts.values"):
        values = config.alerts_values
        return pushed_alerts(Settings() if values is None else load(Path(values)))
