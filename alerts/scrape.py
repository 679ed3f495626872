"""Examples of how Prometheus finds and scrapes the exporters, each a whole configuration that promtool accepts."""

from typing import Any

from azure_scheduled_events_exporter.times import format_duration

from .settings import Settings
from .yaml_text import to_yaml

_JOB = "azure-scheduled-events-exporter"
_PORT = 10169
_LONGEST_SCRAPE = 10.0  # seconds, as Prometheus ships: a target that hangs is down no later than one that refuses


def scrape_examples(settings: Settings) -> dict[str, str]:
    """Return the examples by file name."""
    return {
        "prometheus-azure-sd.yml": to_yaml(
            _config(settings, _azure()),
            "Finds every VM of a subscription that carries the tag azure_scheduled_events=true.",
            "Azure allows 12,000 reads an hour, and this reads once for each VM and refresh: docs/fleet.md, Discovery.",
            "From 3.4, Prometheus may need client_id for a system-assigned identity too: docs/fleet.md, Shards.",
        ),
        "prometheus-file-sd.yml": to_yaml(
            _config(settings, {"file_sd_configs": [{"files": ["targets/*.json"], "refresh_interval": "1m"}]}),
            'Reads the targets from files such as [{"targets": ["10.0.0.4:10169"], "labels": {"team": "search"}}].',
        ),
        "prometheus-kubernetes-sd.yml": to_yaml(
            kubernetes_scrape(settings),
            "Finds the exporter's pods, one on every node; with the Prometheus operator use its PodMonitor instead.",
        ),
    }


def kubernetes_scrape(settings: Settings) -> dict[str, Any]:
    """Return the configuration that finds the exporter's pods."""
    return _config(settings, _kubernetes())


def _config(settings: Settings, discovery: dict[str, Any]) -> dict[str, Any]:
    """The intervals that make a page come in time: a VM that is evicted has 30 seconds or less."""
    interval = settings.duration("scrape.interval")
    timeout = format_duration(min(settings.seconds("scrape.interval"), _LONGEST_SCRAPE))
    return {
        "global": {"scrape_interval": "30s", "evaluation_interval": "30s"},
        "rule_files": ["prometheus-rules.yml"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": ["127.0.0.1:9093"]}]}]},
        "scrape_configs": [
            {
                "job_name": _JOB,
                "scrape_interval": interval,
                "scrape_timeout": timeout,
                **discovery,
            }
        ],
    }


def _azure() -> dict[str, Any]:
    tag = "__meta_azure_machine_tag_azure_scheduled_events"
    return {
        "azure_sd_configs": [
            {
                "subscription_id": "00000000-0000-0000-0000-000000000000",
                "authentication_method": "ManagedIdentity",
                "port": _PORT,
                "refresh_interval": "5m",
            }
        ],
        "relabel_configs": [
            {"source_labels": [tag], "regex": "true", "action": "keep"},
            {"source_labels": ["__meta_azure_machine_name"], "target_label": "vm"},
        ],
    }


def _kubernetes() -> dict[str, Any]:
    name = "__meta_kubernetes_pod_label_app_kubernetes_io_name"
    return {
        "kubernetes_sd_configs": [{"role": "pod"}],
        "relabel_configs": [
            {"source_labels": [name], "regex": _JOB, "action": "keep"},
            {"source_labels": ["__meta_kubernetes_pod_container_port_name"], "regex": "metrics", "action": "keep"},
            {"source_labels": ["__meta_kubernetes_pod_node_name"], "target_label": "node"},
        ],
    }
