"""Azure VM maintenance, evictions and host failures as Prometheus metrics and traces."""

from typing import Final

__version__ = "0.1.0"
DOCUMENTATION: Final = "https://github.com/azure-scheduled-events-exporter/azure-scheduled-events-exporter/blob/main/docs/"
"""The address of the pages in ``docs/``, which an installation does not have."""
