"""The examples of scraping: what Prometheus and its operator are given, as it is exported."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from azure_scheduled_events_exporter.alerts import Settings, render, resolve
from azure_scheduled_events_exporter.alerts.formats.scrape import DISCOVERIES, OF_VMS
from support.deployment.operator_types import validator
from support.paths import ROOT
from support.programs import debian

GENERATED = ROOT / "alerts" / "generated"
CHECKED_BY_DEBIAN = [name for name in DISCOVERIES if name != "kubernetes"]
"""Debian's promtool is built without discovery in Kubernetes."""


KEYS = {"azure": "azureSDConfigs", "file": "fileSDConfigs", "static": "staticConfigs"}
"""The key of a ScrapeConfig under which each discovery stands."""


def load(name: str) -> Any:
    """Return a generated file's data."""
    return yaml.safe_load((GENERATED / name).read_text())


def check(file: Path) -> None:
    """Let promtool check a configuration."""
    command = [debian("promtool"), "check", "config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", CHECKED_BY_DEBIAN)
def test_prometheus_takes_it(name: str, tmp_path: Path) -> None:
    """Prometheus takes each whole configuration as it is, with the rules beside it."""
    shutil.copytree(GENERATED / "prometheus", tmp_path / "prometheus")
    check(tmp_path / "prometheus" / f"prometheus-{name}-sd.yml")


def test_discovery_in_kubernetes() -> None:
    """The job of pods differs from the others only in its discovery and relabeling."""
    (pods,) = load("prometheus/prometheus-kubernetes-sd.yml")["scrape_configs"]
    (file,) = load("prometheus/prometheus-file-sd.yml")["scrape_configs"]
    assert pods.pop("kubernetes_sd_configs") == [{"role": "pod"}]
    assert pods.pop("relabel_configs")
    assert file.pop("file_sd_configs")
    assert pods == file
    assert (pods["scrape_interval"], pods["scrape_timeout"]) == ("5s", "5s")


def test_additional_scrape_configs(tmp_path: Path) -> None:
    """The items of all files can be appended to one list: Prometheus, which refuses two jobs of the
    same name, takes them together. The rules know each job by its name.
    """
    jobs = [
        job for name in OF_VMS for job in load(f"kubernetes/additional-scrape-config-{name}.yaml")
    ]
    assert all(re.fullmatch(Settings().text("job"), job["job_name"]) for job in jobs)
    file = tmp_path / "prometheus.yml"
    file.write_text(yaml.safe_dump({"scrape_configs": jobs}))
    check(file)


def test_names_of_scrape_configs() -> None:
    """ScrapeConfigs of several discoveries can be applied side by side, and set a job that the
    rules know.
    """
    resources = [load(f"kubernetes/scrape-config-{name}.yaml") for name in OF_VMS]
    names = [resource["metadata"]["name"] for resource in resources]
    assert len(set(names)) == len(OF_VMS)
    for name, resource in zip(names, resources, strict=True):
        first_relabeling, *_ = resource["spec"]["relabelings"]
        assert first_relabeling == {"targetLabel": "job", "replacement": name}
        assert re.fullmatch(Settings().text("job"), name)


@pytest.mark.parametrize("name", OF_VMS)
def test_operator_takes_it(name: str) -> None:
    """A ScrapeConfig is what the operator's own types say, without an unknown key."""
    resource = load(f"kubernetes/scrape-config-{name}.yaml")
    operator = validator("ScrapeConfig")
    operator.validate(resource)
    with pytest.raises(jsonschema.ValidationError):
        operator.validate({**resource, "spec": {**resource["spec"], "unknown": 1}})
    assert len(resource["spec"][KEYS[name]]) == 1


def test_operator_takes_a_resource_group() -> None:
    """The operator knows the key by which a ScrapeConfig reads one resource group alone."""
    resource = load("kubernetes/scrape-config-azure.yaml")
    (azure,) = resource["spec"]["azureSDConfigs"]
    azure["resourceGroup"] = "web"
    validator("ScrapeConfig").validate(resource)


@pytest.mark.parametrize("name", ["prometheus-rule", *(f"scrape-config-{each}" for each in OF_VMS)])
def test_labels_of_objects(name: str) -> None:
    """With ``labels.metadata``, an object has a label of the team's own, by which the operator's
    selectors find it.
    """
    settings = resolve({"labels.metadata": "release=monitoring"})
    text = render(settings)[f"kubernetes/{name}.yaml"]
    assert yaml.safe_load(text)["metadata"]["labels"]["release"] == "monitoring"
