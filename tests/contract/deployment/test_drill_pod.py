"""The pod of docs/drill.md that tests the whole way in a cluster."""

import argparse
import re
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]  # ships no types
import pytest
import yaml

from azure_scheduled_events_exporter.alerts import Settings
from azure_scheduled_events_exporter.commands.drill import command as drill
from support.deployment.charts import Manifest, only
from support.deployment.operator_types import validator
from support.paths import ROOT


@pytest.fixture(scope="module")
def documented() -> tuple[Any, Any]:
    """The pod, and the PodMonitor that finds it."""
    page = (ROOT / "docs" / "drill.md").read_text()
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    pod, monitor = yaml.safe_load_all(block)
    return pod, monitor


def test_cluster_takes_it(documented: tuple[Any, Any]) -> None:
    """Kubernetes and the operator take the objects, and the drill takes its arguments."""
    pod, monitor = documented
    kubernetes_validate.validate(pod, "1.31", strict=True)
    validator("PodMonitor").validate(monitor)
    (container,) = pod["spec"]["containers"]
    command, *flags = container["args"]
    parser = argparse.ArgumentParser()
    drill.add_arguments(parser)
    address = vars(parser.parse_args(flags))["exporter.listen-address"]
    (port,) = container["ports"]
    assert command == "drill"
    assert address.port == port["containerPort"]


def test_prometheus_finds_it(
    documented: tuple[Any, Any], charts: dict[str, list[Manifest]]
) -> None:
    """The PodMonitor finds the pod under a job that the rules know, and the chart's DaemonSet does
    not take it for one of its own.
    """
    pod, monitor = documented
    labels = pod["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    (port,) = pod["spec"]["containers"][0]["ports"]
    assert endpoint["port"] == port["name"]
    (job,) = endpoint["relabelings"]
    assert job["targetLabel"] == "job"
    assert re.fullmatch(Settings().text("job"), job["replacement"])
    for manifests in charts.values():
        own = only(manifests, "DaemonSet")["spec"]["selector"]["matchLabels"]
        assert not own.items() <= labels.items()
