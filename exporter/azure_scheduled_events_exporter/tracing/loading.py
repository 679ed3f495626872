"""Loads OpenTelemetry and makes the sender of spans, if tracing is on.

Without tracing, nothing imports OpenTelemetry, which takes half a second and 5 to 6 MiB of memory.
"""

import logging
import os
from typing import TYPE_CHECKING

from azure_scheduled_events_exporter.errors import UsageError

from .variables import length_obstacle

if TYPE_CHECKING:
    from .otlp import OtlpSender


def otlp_sender(endpoint: str | None) -> "OtlpSender":
    """Return the sender for ``endpoint`` or the ``OTEL_*`` variables.

    Loads OpenTelemetry, which takes half a second.

    Raises:
        UsageError: OpenTelemetry refuses its variables.
    """
    obstacle = length_obstacle(os.environ)
    if obstacle:
        raise UsageError(obstacle)
    # While OpenTelemetry is imported, this logger would get a traceback if OTEL_PYTHON_CONTEXT is
    # wrong. The exporter warns of that variable itself (tracing.variables).
    logging.getLogger("opentelemetry.context").setLevel(logging.CRITICAL)
    try:
        # Within the try: OpenTelemetry reads some of its variables while it is imported.
        from .otlp import OtlpSender  # noqa: PLC0415

        return OtlpSender(endpoint)
    except ImportError:  # a broken installation, whatever the variables are
        raise
    except Exception as error:  # noqa: BLE001 - the SDK checks its variables in many ways
        raise UsageError(
            f"OpenTelemetry cannot use its settings (OTEL_* variables): {error}"
        ) from None
