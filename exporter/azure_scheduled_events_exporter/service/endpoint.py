"""Finds the address of the metadata service: the configured one, or the one that DHCP names.

Must not send HTTP requests: its callers see whether the service answers.
"""

import logging
import threading
from dataclasses import replace

from azure_scheduled_events_exporter.config.parsers import DISCOVER
from azure_scheduled_events_exporter.config.settings import Config
from azure_scheduled_events_exporter.imds.dhcp import Exchange
from azure_scheduled_events_exporter.imds.discovery import discover
from azure_scheduled_events_exporter.logs import facts

NOT_REACHED = (
    "on an Azure VM, run 'azure-scheduled-events-exporter doctor'; elsewhere, try"
    " 'azure-scheduled-events-exporter demo', or set --imds.endpoint to that of"
    " 'azure-scheduled-events-exporter simulate'"
)
"""The hint if the metadata service cannot be reached.

On an Azure VM, a firewall may be the cause, or a Guest Proxy Agent that does not run.
"""

SHORT_SEARCH = Exchange(pauses=(0.0, 0.5), answer_seconds=2.0)
"""How to ask DHCP in commands whose result a person waits for: a server answers in milliseconds."""


def with_endpoint(config: Config, log: logging.Logger, exchange: Exchange | None = None) -> Config:
    """Return ``config`` with the address of the metadata service.

    If the settings say so, the address is discovered by DHCP.

    ``exchange`` says how often and how long DHCP is asked. With the default, a search without an
    answer takes three and a half minutes.

    Raises:
        ExporterError: the address cannot be discovered.
    """
    if config.imds_endpoint != DISCOVER:
        return config
    wait = threading.Event().wait  # the event is never set, so it always waits the whole time
    endpoint = discover(wait, log, exchange=exchange)
    log.info("metadata service discovered", extra=facts(endpoint=endpoint))
    return replace(config, imds_endpoint=endpoint)
