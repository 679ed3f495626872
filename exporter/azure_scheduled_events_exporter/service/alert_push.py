"""Sets up what pushes alerts, from the configuration.

Imported only if there is an Alertmanager to push to.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from azure_scheduled_events_exporter import assets
from azure_scheduled_events_exporter.alertmanager.alert import Catalog, alert_of, parse_catalog
from azure_scheduled_events_exporter.alertmanager.client import AlertmanagerClient
from azure_scheduled_events_exporter.alertmanager.outbox import Wanted
from azure_scheduled_events_exporter.alertmanager.push import AlertPush, Worker
from azure_scheduled_events_exporter.config.settings import Config
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import ExporterError, named_by
from azure_scheduled_events_exporter.http_client import http_config
from azure_scheduled_events_exporter.snapshot.snapshot import Snapshot

GENERATED = ("exporter", "pushed-alerts.json")


def alert_push(
    config: Config,
    latest: Callable[[], Snapshot],
    clock: Callable[[], Timestamp],
    imds_time: Callable[[], float | None],
    log: logging.Logger,
) -> AlertPush:
    """Return what pushes the alerts of the newest snapshot to the Alertmanagers in ``config``.

    ``imds_time`` is the time by IMDS' clock, if it has told.

    Raises:
        ExporterError: a file cannot be read or is invalid.
    """
    catalog, labels = check(config), config.alertmanager_labels

    def look() -> Wanted | None:
        return wanted(latest(), catalog, labels, clock())

    def time() -> float:
        return imds_time() or clock().wall

    clients = [
        AlertmanagerClient(url, config.alertmanager_http_config_file)
        for url in config.alertmanager_url
    ]
    return AlertPush([Worker(client, look, clock, time, log) for client in clients])


def wanted(
    snapshot: Snapshot, catalog: Catalog, labels: Mapping[str, str], now: Timestamp
) -> Wanted | None:
    """Return the alerts of this VM's events in ``snapshot``; None unless the last poll has read a document.

    Events that only the journal knows are left out until a document has shown whether they go on.
    """
    if not (snapshot.polls.up or snapshot.polls.partial):
        return None
    mine = [life for life in snapshot.shown.values() if life.is_mine]
    firing = [alert_of(life, life.kind, snapshot.identity, catalog, labels) for life in mine]
    ended = [
        (alert, now.since(life.ended_at))
        for life in snapshot.ended
        if life.is_mine and life.ended_at
        if (alert := alert_of(life, life.kind, snapshot.identity, catalog, labels))
    ]
    return Wanted([alert for alert in firing if alert], ended)


def check(config: Config) -> Catalog:
    """Check the files for pushed alerts that ``config`` names; return the texts and labels of each alert.

    Raises:
        ExporterError: a file cannot be read or is invalid.
    """
    if config.alertmanager_http_config_file is not None:
        with named_by("--alertmanager.http-config.file"):
            http_config.load(Path(config.alertmanager_http_config_file))
    with named_by("--alerts.values"):
        return parse_catalog(_catalog_text(config.alerts_values))


def _catalog_text(values: str | None) -> str:
    if values is None:
        path = assets.folder("alerts").joinpath(*GENERATED)
        try:
            return path.read_text("utf-8")
        except OSError as error:
            raise ExporterError(f"{path}: cannot be read: {error.strerror or error}") from None
    # Only who pushes alerts in words of their own needs the table of alerts.
    from azure_scheduled_events_exporter.alerts.formats import prometheus  # noqa: PLC0415
    from azure_scheduled_events_exporter.alerts.settings import load  # noqa: PLC0415

    return prometheus.pushed_alerts(load(Path(values)))
