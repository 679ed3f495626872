"""Sets up the delivery of spans, from the configuration, and runs it in a thread.

``tracing`` knows how spans are sent, this module when the first ones may be. Nothing here stops the
exporter: OpenTelemetry's variables may be meant for other programs, and spans wait in the journal.
"""

import logging
import os
from collections.abc import Callable
from dataclasses import replace

from azure_scheduled_events_exporter.config.settings import Config
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.journal.journal import Journal
from azure_scheduled_events_exporter.logs import facts
from azure_scheduled_events_exporter.tracing.delivery import SpanDelivery
from azure_scheduled_events_exporter.tracing.loading import otlp_sender
from azure_scheduled_events_exporter.tracing.variables import (
    doubts,
    is_on,
    is_wanted,
    obstacles,
)

from .identification import Identification

_NAMED_SPANS_SECONDS = 5.0
"""How long the first spans wait for this VM's name, in seconds.

A span that was sent without it is never corrected. Just after a reboot, IMDS may fail for some
seconds. With ``--instance.name``, spans only wait until IMDS was asked once.
"""

_AGAIN_SECONDS = 60.0  # after an internal error of the delivery


def span_delivery(
    config: Config, journal: Journal, identification: Identification, log: logging.Logger
) -> SpanDelivery | None:
    """Return what delivers the spans in ``journal``; None if tracing is off.

    Variables of OpenTelemetry that cannot be used are logged.
    """
    endpoint = config.otlp_endpoint
    if not is_wanted(endpoint, os.environ):
        return None
    unusable = "unusable OpenTelemetry variable"
    for doubt in (*obstacles(os.environ), *doubts(os.environ)):
        log.warning(unusable, extra=facts(error=doubt))
    if is_on(endpoint, os.environ):
        try:
            sender = otlp_sender(endpoint)
        except UsageError as error:
            log.warning(unusable, extra=facts(error=str(error)))
        else:
            return SpanDelivery(journal, sender, lambda: _traced_instance(identification), log)
    log.warning("tracing is off: OpenTelemetry's variables cannot be used")
    return None


def deliver_spans(
    delivery: SpanDelivery,
    identification: Identification,
    wait: Callable[[float], bool],
    log: logging.Logger,
) -> None:
    """Deliver spans until ``delivery`` is stopped, or ``wait`` says that the process is to end.

    An internal error of the delivery is logged, and the delivery starts again a minute later.
    """
    # Spans from before a restart wait for the name too, because they belong to this VM.
    may_begin = identification.complete
    if identification.given is not None:  # the name is known: see _NAMED_SPANS_SECONDS
        may_begin = identification.asked
    may_begin.wait(_NAMED_SPANS_SECONDS)
    while True:
        try:
            delivery.run()
        except Exception:
            log.exception("span delivery failed; retrying", extra=facts(seconds=_AGAIN_SECONDS))
        else:  # it was stopped
            return
        if wait(_AGAIN_SECONDS):
            return


def _traced_instance(identification: Identification) -> Instance | None:
    """Return this VM as its spans show it: ``--instance.name`` overrides the name in IMDS."""
    found = identification.identity
    name = identification.given
    if name is None:
        return found
    if found is None:
        return Instance(name)
    return replace(found, vm_name=name)
