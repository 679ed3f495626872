"""Examples of how Prometheus finds and scrapes the exporters, each a whole configuration that promtool accepts."""

from collections.abc import Mapping
from typing import Any

from azure_scheduled_events_exporter.alerts.settings import Settings
from azure_scheduled_events_exporter.times import format_duration, parse_duration

from .yaml_text import to_yaml

_JOB = "azure-scheduled-events-exporter"
_LONGEST_SCRAPE = (
    10.0  # seconds, as Prometheus ships: a target that hangs is down no later than one that refuses
)
_AZURE = {
    "subscription_id": "00000000-0000-0000-0000-000000000000",
    "authentication_method": "ManagedIdentity",
    "port": 10169,
    "refresh_interval": "5m",
}


def _keep(label: str, regex: str) -> dict[str, Any]:
    return {"source_labels": [f"__meta_{label}"], "regex": regex, "action": "keep"}


def _copy(label: str, target: str) -> dict[str, Any]:
    return {"source_labels": [f"__meta_{label}"], "target_label": target}


DISCOVERIES: Mapping[str, tuple[Mapping[str, Any], tuple[str, ...]]] = {
    "azure": (
        {
            "azure_sd_configs": [_AZURE],
            "relabel_configs": [
                _keep("azure_machine_tag_azure_scheduled_events", "true"),
                _copy("azure_machine_name", "vm"),
            ],
        },
        (
            "Finds every VM of a subscription that carries the tag azure_scheduled_events=true.",
            (
                "Azure allows 12,000 reads an hour. This reads once for each VM and refresh:"
                " docs/fleet.md, Discovery."
            ),
            (
                "From 3.4, Prometheus may need client_id for a system-assigned identity too:"
                " docs/fleet.md, Shards."
            ),
        ),
    ),
    "file": (
        {"file_sd_configs": [{"files": ["targets/*.json"], "refresh_interval": "1m"}]},
        (
            (
                'Reads the targets from files such as [{"targets": ["10.0.0.4:10169"], "labels":'
                ' {"team": "search"}}].'
            ),
        ),
    ),
    "kubernetes": (
        {
            "kubernetes_sd_configs": [{"role": "pod"}],
            "relabel_configs": [
                _keep("kubernetes_pod_label_app_kubernetes_io_name", _JOB),
                _keep("kubernetes_pod_container_port_name", "metrics"),
                _copy("kubernetes_pod_node_name", "node"),
            ],
        },
        (
            (
                "Finds the exporter's pods, one on every node; with the Prometheus operator use its"
                " PodMonitor instead."
            ),
        ),
    ),
}
"""By name, how targets are found, and what to know about it."""


def scrape_example(name: str, settings: Settings) -> str:
    """Return the example of a discovery."""
    config = {
        "global": {"scrape_interval": "30s", "evaluation_interval": "30s"},
        "rule_files": ["prometheus-rules.yml"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": ["127.0.0.1:9093"]}]}]},
        "scrape_configs": [scrape_job(name, settings)],
    }
    return to_yaml(config, *DISCOVERIES[name][1])


def scrape_job(name: str, settings: Settings) -> dict[str, Any]:
    """Return the job alone.

    Its interval makes a page come in time: a VM that is evicted has 30 seconds or less.
    """
    seconds = parse_duration(settings.text("scrape.interval"))
    times = {"scrape_interval": seconds, "scrape_timeout": min(seconds, _LONGEST_SCRAPE)}
    return {
        "job_name": _JOB,
        **{key: format_duration(each) for key, each in times.items()},
        **DISCOVERIES[name][0],
    }
