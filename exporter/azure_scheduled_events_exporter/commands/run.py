"""The command ``run``: polls the metadata service and serves metrics until a signal stops it."""

import argparse
import os

from azure_scheduled_events_exporter import logs
from azure_scheduled_events_exporter.config.flags import oversights
from azure_scheduled_events_exporter.service.ending import Ending

from .settings import config_of


def run(parsed: argparse.Namespace) -> int:
    """Serve and poll; return the exit status. Raises ExporterError: it cannot start."""
    ending = Ending()
    with ending.on_signals():  # before anything that takes time, when a signal may come already
        # The import takes a third of a second.
        from azure_scheduled_events_exporter.service import daemon  # noqa: PLC0415

        config = config_of(parsed)
        log = logs.set_up(config.log_level, config.log_format)
        for text in oversights(parsed, os.environ):
            log.warning(text)
        return daemon.run(config, log, ending=ending)
