"""``python -m azure_scheduled_events_exporter`` is the command ``azure-scheduled-events-exporter``."""

import sys

from azure_scheduled_events_exporter.commands.cli import main

if __name__ == "__main__":
    sys.exit(main())
