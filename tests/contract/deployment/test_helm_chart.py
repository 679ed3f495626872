"""The Helm chart: what Helm makes of it is what Kubernetes, the Prometheus operator and the
exporter take.
"""

import json
from pathlib import Path

import jsonschema
import kubernetes_validate  # type: ignore[import-untyped]  # ships no types
import pytest
import yaml

from support.commands import command as run_command
from support.deployment.charts import (
    NAMES,
    Manifest,
    container,
    helm,
    of_kind,
    only,
    pod,
    values_of,
)
from support.deployment.operator_types import validator
from support.paths import ROOT

KUBERNETES = ("1.25", "1.31", "1.37")
"""The oldest version that the chart permits, one between, and the newest."""
ETC = "/etc/azure-scheduled-events-exporter"
ANNOTATIONS_MOST = 256 << 10  # bytes: kubectl apply keeps a copy of what it applies in one


@pytest.mark.parametrize("name", NAMES)
def test_kubernetes_takes_it(charts: dict[str, list[Manifest]], name: str) -> None:
    """Every manifest is what Kubernetes' own schema says, without an unknown key, in old and new
    versions.
    """
    kinds = set()
    for manifest in charts[name]:
        if "monitoring.coreos.com" in manifest["apiVersion"]:
            continue
        kinds.add(manifest["kind"])
        for version in KUBERNETES:
            assert kubernetes_validate.validate(manifest, version, strict=True) == version
    assert {"ConfigMap", "DaemonSet"} <= kinds


def test_names_are_its_own(charts: dict[str, list[Manifest]]) -> None:
    """No two manifests have the same name, all stand in a namespace, and every reference leads to
    one of them.
    """
    for manifests in charts.values():
        names = [
            (each["kind"], each["metadata"]["namespace"], each["metadata"]["name"])
            for each in manifests
        ]
        assert len(set(names)) == len(names)
        there = {name for kind, _, name in names if kind == "ConfigMap"}
        used = {
            volume["configMap"]["name"]
            for volume in pod(manifests)["volumes"]
            if "configMap" in volume
        }
        assert used - there <= {"ca"}, "a ConfigMap of the user's, which values name"
        accounts = {name for kind, _, name in names if kind == "ServiceAccount"} or {"default"}
        assert pod(manifests)["serviceAccountName"] in accounts


def test_prometheus_operator_takes_it(charts: dict[str, list[Manifest]]) -> None:
    """PodMonitor and PrometheusRule conform to the operator's own types, without an unknown
    key.
    """
    checked = []
    for manifests in charts.values():
        for kind in ("PodMonitor", "PrometheusRule"):
            operator = validator(kind)
            for manifest in of_kind(manifests, kind):
                # Azure's managed Prometheus takes the operator's resources under an API group of
                # its own.
                operator.validate({**manifest, "apiVersion": "monitoring.coreos.com/v1"})
                with pytest.raises(jsonschema.ValidationError):
                    operator.validate({**manifest, "spec": {**manifest["spec"], "unknown": 1}})
                checked.append(kind)
    # Three of the files of values enable a PodMonitor, and one the rules.
    assert sorted(checked) == [*["PodMonitor"] * 3, "PrometheusRule"]


def test_operator_gets_the_rules(charts: dict[str, list[Manifest]]) -> None:
    """The PrometheusRule holds exactly the generated rules, with no template of theirs expanded."""
    rules = yaml.safe_load(
        (ROOT / "alerts" / "generated" / "kubernetes" / "prometheus-rule.yaml").read_text()
    )
    assert only(charts["everything"], "PrometheusRule")["spec"] == rules["spec"]


def test_an_exported_chart_has_the_exported_rules(tmp_path: Path) -> None:
    """``assets export --values`` gives its chart the rules and settings that it writes beside it,
    labels to keep included.
    """
    values = tmp_path / "values.yaml"
    values.write_text("labels.keep: [team]\n")
    folder = tmp_path / "rendered"
    assert run_command("assets", "export", str(folder), "--values", str(values)).returncode == 0
    rules = (folder / "alerts/prometheus/prometheus-rules.yml").read_text()
    assert "by (event_id, event_type, team)" in rules
    chart = folder / "helm" / "azure-scheduled-events-exporter"
    done = helm("template", "events", str(chart), "--set", "prometheusRule.enabled=true")
    manifests = [each for each in yaml.safe_load_all(done.stdout) if each]
    assert only(manifests, "PrometheusRule")["spec"] == yaml.safe_load(rules)
    settings = (chart / "files/alerts-values.yaml").read_text()
    assert settings == (folder / "alerts/exporter/values.yaml").read_text()


def test_scrapes_find_the_pods(charts: dict[str, list[Manifest]]) -> None:
    """The PodMonitor, and the shipped scrape configuration, select the pods and their port every 5
    s, as their job.
    """
    for name in ("everything", "pod-network"):
        labels = only(charts[name], "DaemonSet")["spec"]["template"]["metadata"]["labels"]
        spec = only(charts[name], "PodMonitor")["spec"]
        assert spec["selector"]["matchLabels"].items() <= labels.items()
        assert spec["namespaceSelector"]["matchNames"] == ["watch"]
        (endpoint,) = spec["podMetricsEndpoints"]
        (port,) = container(charts[name])["ports"]
        assert (endpoint["port"], endpoint["interval"]) == (port["name"], "5s")
        assert {"targetLabel": "job", "replacement": "azure-scheduled-events-exporter"} in endpoint[
            "relabelings"
        ]
        example = yaml.safe_load(
            (
                ROOT / "alerts" / "generated" / "prometheus" / "prometheus-kubernetes-sd.yml"
            ).read_text()
        )
        kept = {
            rule["source_labels"][0]: rule["regex"]
            for rule in example["scrape_configs"][0]["relabel_configs"]
            if rule.get("action") == "keep"
        }
        assert kept == {
            "__meta_kubernetes_pod_label_app_kubernetes_io_name": labels["app.kubernetes.io/name"],
            "__meta_kubernetes_pod_container_port_name": port["name"],
        }
    often = only(charts["large-user"], "PodMonitor")["spec"]["podMetricsEndpoints"][0]
    assert (often["interval"], often["scrapeTimeout"]) == ("2s", "2s"), (
        "the operator refuses a longer time limit"
    )
    everything = only(charts["everything"], "PodMonitor")["spec"]["podMetricsEndpoints"][0]
    assert (everything["path"], everything["scheme"]) == ("/events", "https")


def test_grafana_gets_the_dashboards(charts: dict[str, list[Manifest]]) -> None:
    """Each dashboard is a ConfigMap that Grafana's sidecar finds, the generated one, and fits
    kubectl apply.
    """
    maps = [
        each
        for each in of_kind(charts["defaults"], "ConfigMap")
        if "grafana_dashboard" in each["metadata"]["labels"]
    ]
    held = {name: text for each in maps for name, text in each["data"].items()}
    made = {path.name: path.read_text() for path in (ROOT / "dashboards" / "json").glob("*.json")}
    assert {name: json.loads(text) for name, text in held.items()} == {
        name: json.loads(text) for name, text in made.items()
    }
    for each in maps:
        assert each["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert len(json.dumps(each)) < ANNOTATIONS_MOST
    assert not [
        each
        for each in of_kind(charts["memory"], "ConfigMap")
        if "grafana_dashboard" in each["metadata"]["labels"]
    ]


@pytest.mark.parametrize("name", NAMES)
def test_the_exporter_takes_its_configuration(
    charts: dict[str, list[Manifest]], name: str, tmp_path: Path
) -> None:
    """The exporter accepts the container's arguments, variables and files, and its effective
    settings are those of the values.
    """
    manifests = charts[name]
    values = values_of(name)

    def here(text: str) -> str:
        """Replace the folders of the container by that of the test."""
        for folder in ("config", "web", "alertmanager"):
            text = text.replace(f"{ETC}/{folder}", str(tmp_path))
        return text

    for file, text in only(manifests, "ConfigMap")["data"].items():
        (tmp_path / file).write_text(here(text))
    # In the user's Secret.
    (tmp_path / "web-config.yml").write_text("http_server_config: {http2: false}\n")
    (tmp_path / "http-config.yml").write_text("basic_auth: {username: vm, password: test}\n")
    env = {
        each["name"]: here(each["value"]) for each in container(manifests)["env"] if "value" in each
    }
    command, *flags = container(manifests)["args"]
    assert command == "run"
    done = run_command("check-config", *flags, **env)
    assert (done.returncode, done.stderr) == (0, "")
    shown = dict(line.partition("   [")[0].split(": ", 1) for line in done.stdout.splitlines())
    places = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert shown["web.listen-address"] == f":{values['port']}"
    folder = (
        "memory"
        if values["journal"]["type"] == "memory"
        else "/var/lib/azure-scheduled-events-exporter"
    )
    assert shown["journal.path"] == folder
    web = str(tmp_path / "web-config.yml") if values["web"]["secretName"] else "(none)"
    assert shown["web.config.file"] == web
    # A flag counts for more than the file.
    given = {
        flag: text
        for flag, text in values["config"].items()
        if not any(flag in each for each in flags)
    }
    assert given.items() <= shown.items()
    if values["approvalPolicy"]:
        assert shown["approval.policy"] == str(tmp_path / "policy.yaml")
        assert yaml.safe_load((tmp_path / "policy.yaml").read_text()) == values["approvalPolicy"]
    elif "approval.policy" not in given:
        assert places["approval.policy"].endswith("[default]")


def test_a_change_of_configuration_replaces_the_pods(charts: dict[str, list[Manifest]]) -> None:
    """The pods carry a checksum of their configuration, which another configuration changes."""
    sums = {
        only(manifests, "DaemonSet")["spec"]["template"]["metadata"]["annotations"][
            "checksum/config"
        ]
        for manifests in charts.values()
    }
    assert len(sums) == len(NAMES)
