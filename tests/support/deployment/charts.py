"""The Helm chart as Helm renders it, for tests."""

import subprocess
from pathlib import Path
from typing import Any

import yaml

from support.paths import DATA, ROOT
from support.programs import PATIENCE, debian

CHART = ROOT / "deploy" / "helm" / "azure-scheduled-events-exporter"
VALUES = DATA / "chart_values"
NAMES = sorted(path.stem for path in VALUES.glob("*.yaml"))
Manifest = dict[str, Any]


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Helm, as scripts/tools has put it there; it talks to no cluster."""
    return subprocess.run(
        [debian("helm"), *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def rendered(values: Path) -> list[Manifest]:
    """Return what the chart makes of one file of values."""
    done = helm(
        "template",
        "events",
        str(CHART),
        "--namespace",
        "watch",
        "--values",
        str(values),
    )
    assert done.returncode == 0, done.stderr
    return [manifest for manifest in yaml.safe_load_all(done.stdout) if manifest]


def values_of(name: str) -> dict[str, Any]:
    """Return a file of values with the chart's defaults below it, as far as one level deep."""
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    for key, value in yaml.safe_load((VALUES / f"{name}.yaml").read_text()).items():
        both_maps = isinstance(value, dict) and isinstance(defaults[key], dict)
        defaults[key] = {**defaults[key], **value} if both_maps else value
    return dict(defaults)


def of_kind(manifests: list[Manifest], kind: str) -> list[Manifest]:
    """Return the manifests of one kind."""
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def only(manifests: list[Manifest], kind: str) -> Manifest:
    """Return the one manifest of its kind that is no dashboard."""
    found = [
        each
        for each in of_kind(manifests, kind)
        if "grafana_dashboard" not in each["metadata"]["labels"]
    ]
    assert len(found) == 1
    return found[0]


def pod(manifests: list[Manifest]) -> Manifest:
    """Return the specification of the pods."""
    spec: Manifest = only(manifests, "DaemonSet")["spec"]["template"]["spec"]
    return spec


def container(manifests: list[Manifest]) -> Manifest:
    """Return the container of the exporter."""
    (found,) = pod(manifests)["containers"]
    assert found["name"] == "exporter"
    result: Manifest = found
    return result
