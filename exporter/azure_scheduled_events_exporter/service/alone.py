"""Polls IMDS without a running exporter, for commands that watch events for a while."""

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

from azure_scheduled_events_exporter.config.settings import Config
from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.journal.disk.location import MEMORY

from .endpoint import with_endpoint
from .exporter import Exporter

_LOOK_SECONDS = 0.1  # how often the exporter is yielded


def poll_alone(
    config: Config, log: logging.Logger, *, expects_events: Callable[[], bool] = lambda: False
) -> Iterator[Exporter]:
    """Poll IMDS with a journal in memory, and yield the same exporter every 0.1 s.

    Read its newest snapshot at each step. It sends no spans and alerts, and stops when the
    iterator is closed.

    Args:
        config: the settings; the path of their journal has no effect.
        log: the logger.
        expects_events: returns whether events may be current that the new journal does not know:
            then an empty body is not believed at once.

    Raises:
        ExporterError: polling has ended by an internal error, or the endpoint cannot be discovered.
    """
    exporter = Exporter(
        with_endpoint(replace(config, journal_path=MEMORY), log),
        log,
        reports=False,
        expects_events=expects_events,
    )
    failed = threading.Event()
    exporter.failed = failed.set
    exporter.start()
    try:
        while not failed.wait(_LOOK_SECONDS):
            yield exporter
        raise ExporterError(
            "polling has ended by an internal error, which is logged above: start this command"
            " again"
        )
    finally:
        exporter.stop()
