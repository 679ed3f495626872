"""How Prometheus finds and scrapes the exporters: example files for each discovery.

Each discovery has a whole configuration of Prometheus. A discovery of VMs has two more files, for a
Prometheus in a cluster that scrapes VMs outside: a job to append to its configuration, and a
ScrapeConfig of the Prometheus operator.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from azure_scheduled_events_exporter import DOCUMENTATION
from azure_scheduled_events_exporter.alerts.settings import Settings
from azure_scheduled_events_exporter.times import format_duration, parse_duration

from .yaml_text import to_yaml

_NAME = "azure-scheduled-events-exporter"
_DEFAULT_TIMEOUT = 10.0
"""Prometheus' own default of ``scrape_timeout``, in seconds.

Prometheus refuses a job whose timeout is longer than its interval.
Source: https://prometheus.io/docs/prometheus/latest/configuration/configuration/#scrape_config
"""
_SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"  # to be replaced by the reader
_PORT = 10169
_TARGETS = [f"10.0.0.4:{_PORT}"]  # an example, to be replaced too
_NAMES = (
    "The rules find every job whose name contains azure-scheduled-events (setting job). Each job",
    "needs a name of its own.",
)
"""The comments about the names of jobs."""
_MOUNTED_TARGETS = "/etc/prometheus/configmaps/azure-scheduled-events-targets/targets.json"


@dataclass(frozen=True, slots=True)
class Discovery:
    """One way in which Prometheus finds its targets.

    Attributes:
        job: its keys in a scrape job of Prometheus.
        resource: its keys in the ``spec`` of a ScrapeConfig. None for pods, for which the chart has
            a PodMonitor.
        notes: comments at the top of every file with this discovery.
        notes_in_cluster: more comments, in files for a Prometheus that runs in a cluster.
        job_in_cluster: what replaces keys of ``job`` in such a file.
    """

    job: Mapping[str, Any]
    resource: Mapping[str, Any] | None
    notes: tuple[str, ...]
    notes_in_cluster: tuple[str, ...] = ()
    job_in_cluster: Mapping[str, Any] = field(default_factory=dict)


TAGGED_VMS = (
    "Finds every VM of a subscription that carries the tag azure_scheduled_events=true.",
    "Azure allows 12,000 reads an hour. This reads once for each VM and refresh:",
    f"{DOCUMENTATION}fleet.md#discovery",
)
"""Comments about what Azure's discovery finds, without those about its identity."""
_AZURE = Discovery(
    job={
        "azure_sd_configs": [
            {
                "subscription_id": _SUBSCRIPTION,
                "authentication_method": "ManagedIdentity",
                "port": _PORT,
                "refresh_interval": "5m",
            }
        ],
        "relabel_configs": [
            {
                "source_labels": ["__meta_azure_machine_tag_azure_scheduled_events"],
                "regex": "true",
                "action": "keep",
            },
            {"source_labels": ["__meta_azure_machine_name"], "target_label": "vm"},
        ],
    },
    resource={
        "azureSDConfigs": [
            {
                "subscriptionID": _SUBSCRIPTION,
                "authenticationMethod": "ManagedIdentity",
                "port": _PORT,
                "refreshInterval": "5m",
            }
        ],
        "relabelings": [
            {
                "sourceLabels": ["__meta_azure_machine_tag_azure_scheduled_events"],
                "regex": "true",
                "action": "keep",
            },
            {"sourceLabels": ["__meta_azure_machine_name"], "targetLabel": "vm"},
        ],
    },
    notes=(
        *TAGGED_VMS,
        "The identity needs the role Reader on the subscription. To read one resource group alone,",
        "add resource_group (resourceGroup in a ScrapeConfig). Reader on the group is then enough.",
        "For a user-assigned identity, add client_id (clientID in a ScrapeConfig). Some versions",
        "also need that of a system-assigned one:",
        f"{DOCUMENTATION}fleet.md#shards",
    ),
    notes_in_cluster=(
        "On AKS, ManagedIdentity is an identity of the node pool. If there are several, name its",
        "client id. For workload identity, write SDK.",
    ),
)
_FILE = Discovery(
    job={"file_sd_configs": [{"files": ["targets/*.json"], "refresh_interval": "1m"}]},
    resource={
        "fileSDConfigs": [
            {
                "files": [_MOUNTED_TARGETS],
                "refreshInterval": "1m",
            }
        ]
    },
    notes=(
        "Reads the targets from files such as",
        '[{"targets": ["10.0.0.4:10169"], "labels": {"team": "search"}}].',
    ),
    notes_in_cluster=(
        "The file is the key targets.json of a ConfigMap azure-scheduled-events-targets, which the",
        "Prometheus object mounts if its list configMaps names it.",
    ),
    job_in_cluster={"file_sd_configs": [{"files": [_MOUNTED_TARGETS], "refresh_interval": "1m"}]},
)
_STATIC = Discovery(
    job={"static_configs": [{"targets": _TARGETS}]},
    resource={"staticConfigs": [{"targets": _TARGETS}]},
    notes=("Scrapes the addresses that it lists.",),
)
_KUBERNETES = Discovery(
    job={
        "kubernetes_sd_configs": [{"role": "pod"}],
        "relabel_configs": [
            {
                "source_labels": ["__meta_kubernetes_pod_label_app_kubernetes_io_name"],
                "regex": _NAME,
                "action": "keep",
            },
            {
                "source_labels": ["__meta_kubernetes_pod_container_port_name"],
                "regex": "metrics",
                "action": "keep",
            },
            {"source_labels": ["__meta_kubernetes_pod_node_name"], "target_label": "node"},
        ],
    },
    resource=None,
    notes=(
        "Finds the exporter's pods, one on every node. With the Prometheus operator, use the",
        "PodMonitor of the chart instead.",
    ),
)
DISCOVERIES: Mapping[str, Discovery] = {
    "azure": _AZURE,
    "file": _FILE,
    "static": _STATIC,
    "kubernetes": _KUBERNETES,
}
OF_VMS = tuple(name for name, each in DISCOVERIES.items() if each.resource is not None)
"""The discoveries of VMs outside a cluster: all but that of pods."""


def scrape_example(name: str, settings: Settings) -> str:
    """Return a whole configuration of Prometheus that scrapes by the discovery ``name``."""
    config = {
        "global": {"scrape_interval": "30s", "evaluation_interval": "30s"},
        "rule_files": ["prometheus-rules.yml"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": ["127.0.0.1:9093"]}]}]},
        "scrape_configs": [scrape_job(name, settings)],
    }
    return to_yaml(config, *DISCOVERIES[name].notes)


def additional_scrape_config(name: str, settings: Settings) -> str:
    """Return a list of one scrape job, for a Prometheus in a cluster that scrapes VMs outside.

    Its reader appends the item to a list of their own.
    """
    head = (
        "For VMs outside the cluster: append this item to the list",
        "prometheus.prometheusSpec.additionalScrapeConfigs of the values of kube-prometheus-stack,",
        "or to the Secret that the Prometheus object names in additionalScrapeConfigs.",
        "Helm replaces lists: a values file with this list alone would remove jobs of yours.",
        *_NAMES,
    )
    discovery = DISCOVERIES[name]
    job = {
        **scrape_job(name, settings),
        **discovery.job_in_cluster,
        "job_name": _name_in_cluster(name),
    }
    return to_yaml([job], *head, *discovery.notes, *discovery.notes_in_cluster)


def scrape_config_resource(name: str, settings: Settings) -> str:
    """Return the ScrapeConfig of the Prometheus operator, for one of ``OF_VMS``."""
    discovery = DISCOVERIES[name]
    interval = _interval(settings)
    of_discovery = discovery.resource or {}
    job = {"targetLabel": "job", "replacement": _name_in_cluster(name)}
    resource = {
        "apiVersion": "monitoring.coreos.com/v1alpha1",
        "kind": "ScrapeConfig",
        "metadata": {
            "name": _name_in_cluster(name),
            "labels": {"app.kubernetes.io/name": _NAME, **settings.pairs("labels.metadata")},
        },
        "spec": {
            "scrapeInterval": interval.every,
            "scrapeTimeout": interval.timeout,
            **of_discovery,
            # The operator's own key for this, jobName, needs version 0.75.
            "relabelings": [job, *of_discovery.get("relabelings", ())],
        },
    }
    head = (
        "For VMs outside the cluster, with the Prometheus operator 0.70 or newer. Its",
        "scrapeConfigSelector must match the labels: labels.metadata. Your own jobs stay.",
        *_NAMES,
    )
    return to_yaml(resource, *head, *discovery.notes, *discovery.notes_in_cluster)


def _name_in_cluster(name: str) -> str:
    """Return the name of the job of the discovery ``name``, beside jobs of other discoveries.

    Prometheus refuses two jobs of the same name, and Kubernetes keeps one object of a name.
    """
    return f"{_NAME}-{name}"


def scrape_job(name: str, settings: Settings) -> dict[str, Any]:
    """Return the scrape job of the discovery ``name``, as Prometheus' configuration has it."""
    interval = _interval(settings)
    return {
        "job_name": _NAME,
        "scrape_interval": interval.every,
        "scrape_timeout": interval.timeout,
        **DISCOVERIES[name].job,
    }


@dataclass(frozen=True, slots=True)
class _Interval:
    """Times of a scrape job, as Prometheus writes durations."""

    every: str
    timeout: str


def _interval(settings: Settings) -> _Interval:
    """Return the interval of the setting, and the timeout that goes with it.

    Each job names both. The defaults of Prometheus, such as one scrape a minute, could be too slow
    for an eviction, which has a notice of 30 seconds or less.
    """
    seconds = parse_duration(settings.text("scrape.interval"))
    timeout = min(seconds, _DEFAULT_TIMEOUT)
    return _Interval(format_duration(seconds), format_duration(timeout))
