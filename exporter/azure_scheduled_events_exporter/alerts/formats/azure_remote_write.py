"""Renders the configuration of a Prometheus that writes to an Azure Monitor workspace."""

from azure_scheduled_events_exporter import DOCUMENTATION
from azure_scheduled_events_exporter.alerts.settings import Settings

from .scrape import TAGGED_VMS, scrape_job
from .yaml_text import to_yaml

_URL = (
    "https://WORKSPACE.REGION.metrics.ingest.monitor.azure.com"
    "/dataCollectionRules/dcr-00000000000000000000000000000000"
    "/streams/Microsoft-PrometheusMetrics/api/v1/write?api-version=2023-04-24"
)
_CLIENT = {"client_id": "00000000-0000-0000-0000-000000000000"}  # to be replaced by the reader


def prometheus_remote_write(settings: Settings) -> str:
    """Return the whole configuration, for users to fill in: it scrapes VMs, and has no rules.

    Source: https://learn.microsoft.com/azure/azure-monitor/metrics/prometheus-remote-write-virtual-machines
    """
    job = scrape_job("azure", settings)
    job["azure_sd_configs"] = [{**each, **_CLIENT} for each in job["azure_sd_configs"]]
    target = {
        "url": _URL,
        "queue_config": {"batch_send_deadline": "1s"},
        "azuread": {"cloud": "AzurePublic", "managed_identity": _CLIENT},
    }
    config = {
        "global": {"scrape_interval": "30s"},
        "scrape_configs": [job],
        "remote_write": [target],
    }
    return to_yaml(
        config,
        "For a Prometheus 2.45 or newer on a VM that writes to an Azure Monitor workspace. The",
        "workspace evaluates the rules: this file has none.",
        "url: the whole metrics ingestion endpoint on the workspace's overview in the portal.",
        "client_id: in both places, that of a user-assigned identity of this VM with the role",
        "Monitoring Metrics Publisher on the data collection rule of the workspace, and Reader on",
        "the VMs. With a system-assigned identity, remove both, if your version can do without:",
        f"{DOCUMENTATION}fleet.md#shards",
        "batch_send_deadline: the workspace evaluates what has arrived, and samples would wait for",
        "up to 5 s.",
        *TAGGED_VMS,
    )
