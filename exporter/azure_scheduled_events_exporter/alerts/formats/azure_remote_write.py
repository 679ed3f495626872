"""A Prometheus that scrapes VMs and writes to an Azure Monitor workspace."""

from azure_scheduled_events_exporter.alerts.settings import Settings

from .scrape import DISCOVERIES, scrape_job
from .yaml_text import to_yaml

_URL = (
    "https://WORKSPACE.REGION.metrics.ingest.monitor.azure.com"
    "/dataCollectionRules/dcr-00000000000000000000000000000000"
    "/streams/Microsoft-PrometheusMetrics/api/v1/write?api-version=2023-04-24"
)


def prometheus_remote_write(settings: Settings) -> str:
    """Return the whole configuration.

    Source: https://learn.microsoft.com/azure/azure-monitor/metrics/prometheus-remote-write-virtual-machines
    """
    target = {
        "url": _URL,
        "azuread": {
            "cloud": "AzurePublic",
            "managed_identity": {"client_id": "00000000-0000-0000-0000-000000000000"},
        },
    }
    config = {
        "global": {"scrape_interval": "30s"},
        "scrape_configs": [scrape_job("azure", settings)],
        "remote_write": [target],
    }
    return to_yaml(
        config,
        "For a Prometheus 2.45 or newer on a VM that writes to an Azure Monitor workspace. The",
        "workspace evaluates the rules: this file has none.",
        "url: the whole metrics ingestion endpoint on the workspace's overview in the portal.",
        "client_id: of a user-assigned identity of this VM with the role Monitoring Metrics",
        "Publisher on the data collection rule of the workspace, and Reader on the VMs.",
        *DISCOVERIES["azure"].notes,
    )
