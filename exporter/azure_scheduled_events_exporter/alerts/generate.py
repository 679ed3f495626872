"""What is generated from the table of alerts: ``alerts/generated/``, and files of the Helm chart.

Reads and writes no file.
"""

from collections.abc import Callable, Mapping
from functools import partial

from .formats.alertmanager import (
    alertmanager_config,
    fragment,
    kube_prometheus_stack_values,
)
from .formats.azure_monitor import ama_metrics_config, azure_monitor_rules
from .formats.azure_remote_write import prometheus_remote_write
from .formats.grafana import grafana_rules
from .formats.prometheus import prometheus_rule_resource, prometheus_rules
from .formats.receivers import TEMPLATES
from .formats.reference import exporter_values_file, reference, values_file
from .formats.scrape import (
    DISCOVERIES,
    OF_VMS,
    additional_scrape_config,
    scrape_config_resource,
    scrape_example,
)
from .settings import Settings
from .settings_table import RESERVED_LABELS

# What makes the text of each file, by its path below ``alerts/generated/``.
GENERATED: Mapping[str, Callable[[Settings], str]] = {
    "prometheus/prometheus-rules.yml": prometheus_rules,
    "kubernetes/prometheus-rule.yaml": prometheus_rule_resource,
    "grafana/alert-rules.yaml": grafana_rules,
    "azure-monitor/rule-groups.json": azure_monitor_rules,
    "azure-monitor/ama-metrics-prometheus-config.yaml": ama_metrics_config,
    "azure-monitor/prometheus-remote-write.yml": prometheus_remote_write,
    "alertmanager/alertmanager.yml": alertmanager_config,
    "alertmanager/fragment.yml": fragment,
    "alertmanager/kube-prometheus-stack-values.yaml": kube_prometheus_stack_values,
    "exporter/values.yaml": exporter_values_file,
    "alertmanager/templates/azure-scheduled-events.tmpl": lambda _: TEMPLATES,
    "values.yaml": values_file,
    "README.md": reference,
    **{
        f"prometheus/prometheus-{name}-sd.yml": partial(scrape_example, name)
        for name in DISCOVERIES
    },
    **{
        f"kubernetes/scrape-config-{name}.yaml": partial(scrape_config_resource, name)
        for name in OF_VMS
    },
    **{
        f"kubernetes/additional-scrape-config-{name}.yaml": partial(additional_scrape_config, name)
        for name in OF_VMS
    },
}


def chart_files(settings: Settings) -> dict[str, str]:
    """Return the files of the Helm chart that come from the alerts, by name."""
    # These rules have the default severities. The chart's templates put a user's own words in their
    # place, and a user's labels in the place of the word KEPT_LABELS.
    default_severities = Settings({**settings.values, "severities": ""})
    with_kept = Settings({**default_severities.values, "labels.keep": "KEPT_LABELS\n"})
    return {
        "prometheus-rules.yml": prometheus_rules(default_severities),
        "prometheus-rules-keep.yml": prometheus_rules(with_kept),
        "alerts-values.yaml": exporter_values_file(settings),
        "reserved-labels.txt": f"{RESERVED_LABELS}\n",
    }


def render(settings: Settings) -> dict[str, str]:
    """Return the text of every file below ``alerts/generated/``, by its path there."""
    return {path: text_of(settings) for path, text_of in GENERATED.items()}
