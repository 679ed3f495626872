"""Azure VM maintenance, evictions and host failures as Prometheus metrics and OpenTelemetry traces."""

__version__ = "0.1.0"
