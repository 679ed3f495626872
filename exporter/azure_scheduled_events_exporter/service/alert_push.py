"""Sets up what pushes alerts, from the configuration. Imported only if there is an Alertmanager to push to."""

import logging
from collections.abc import Callable
from pathlib import Path

from azure_scheduled_events_exporter import assets
from azure_scheduled_events_exporter.alertmanager.catalog import Catalog, parse_catalog
from azure_scheduled_events_exporter.alertmanager.push import AlertPush
from azure_scheduled_events_exporter.alertmanager.scrapes import Scrapes
from azure_scheduled_events_exporter.alertmanager.sender import AlertmanagerClient
from azure_scheduled_events_exporter.config import Config
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import ExporterError, named_by
from azure_scheduled_events_exporter.journal.journal import Journal

GENERATED = ("exporter", "pushed-alerts.json")


def alert_push(
    config: Config, journal: Journal, scrapes: Scrapes, clock: Callable[[], Timestamp], log: logging.Logger
) -> AlertPush:
    """Return the sender that pushes alerts to the Alertmanagers in ``config``.

    Raises:
        ExporterError: a file cannot be read or is invalid.
    """
    catalog = check(config)
    clients = [AlertmanagerClient(url, config.alertmanager_http_config_file) for url in config.alertmanager_url]
    labels, remember = config.alertmanager_labels, journal.set_scrape_interval
    return AlertPush(clients, catalog, labels, scrapes, remember, clock, log)


def check(config: Config) -> Catalog:
    """Read the files that ``config`` names; return the alerts. Raises as :func:`alert_push` does."""
    if config.alertmanager_http_config_file is not None:
        from azure_scheduled_events_exporter.http_client import http_config  # noqa: PLC0415 - its library takes 1.3 MiB

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
    settings = assets.generator("settings").load(Path(values))
    return str(assets.generator("pushed").pushed_alerts(settings))
