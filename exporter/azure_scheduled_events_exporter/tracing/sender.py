"""Loads OpenTelemetry and returns the client of a collector.

Must not import OpenTelemetry until :func:`otlp_sender` is called: it takes half a second and 5 to 6 MiB of memory.
"""

from typing import TYPE_CHECKING

from azure_scheduled_events_exporter.errors import UsageError

if TYPE_CHECKING:
    from .otlp import OtlpSender


def otlp_sender(endpoint: str | None) -> "OtlpSender":
    """Return the sender for ``endpoint`` or for the ``OTEL_*`` variables.

    Raises:
        UsageError: OpenTelemetry refuses its variables.
    """
    try:
        from .otlp import OtlpSender  # noqa: PLC0415 - see above; it reads some variables while it is imported

        return OtlpSender(endpoint)
    except ImportError:  # a broken installation, whatever the variables are
        raise
    except Exception as error:  # noqa: BLE001 - the SDK checks its variables in many ways
        raise UsageError(f"OpenTelemetry cannot use its settings (OTEL_* variables): {error}") from None
