"""Runs the command line for ``python -m azure_scheduled_events_exporter``."""

import sys

from azure_scheduled_events_exporter.commands.cli import main

if __name__ == "__main__":
    sys.exit(main())
