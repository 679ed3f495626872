"""The Helm chart: what Helm makes of it is what Kubernetes, the Prometheus operator and the
exporter take.
"""

import json
import re
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
    """Every manifest of one of Kubernetes' own kinds is what its schema says, without an unknown
    key, in old and new versions.
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
    """No two manifests of a kind have the same name, and all stand in a namespace. The pod refers
    only to a ServiceAccount and ConfigMaps of the chart, or to those that the values name.
    """
    for manifests in charts.values():
        names = [
            (each["kind"], each["metadata"]["namespace"], each["metadata"]["name"])
            for each in manifests
        ]
        assert len(set(names)) == len(names)
        made = {name for kind, _, name in names if kind == "ConfigMap"}
        used = {
            volume["configMap"]["name"]
            for volume in pod(manifests)["volumes"]
            if "configMap" in volume
        }
        assert used - made <= {"ca"}, "a ConfigMap of the user's, which values name"
        # If the values switch the account off, the pod has the namespace's own.
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
    """The PrometheusRule holds exactly the generated rules. Their texts have templates of
    Prometheus in braces that Helm would expand too, and does not.
    """
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


def pod_labels(manifests: list[Manifest]) -> dict[str, str]:
    """Return the labels of the pods."""
    labels: dict[str, str] = only(manifests, "DaemonSet")["spec"]["template"]["metadata"]["labels"]
    return labels


def scraped_endpoint(manifests: list[Manifest]) -> Manifest:
    """Return the one endpoint of the PodMonitor."""
    (endpoint,) = only(manifests, "PodMonitor")["spec"]["podMetricsEndpoints"]
    found: Manifest = endpoint
    return found


@pytest.mark.parametrize("name", ["everything", "pod-network"])
def test_the_pod_monitor_finds_the_pods(charts: dict[str, list[Manifest]], name: str) -> None:
    """The PodMonitor selects the pods and their port. Prometheus scrapes them every 5 s, under the
    job that the rules know.
    """
    spec = only(charts[name], "PodMonitor")["spec"]
    assert spec["selector"]["matchLabels"].items() <= pod_labels(charts[name]).items()
    namespace = only(charts[name], "DaemonSet")["metadata"]["namespace"]
    assert spec["namespaceSelector"]["matchNames"] == [namespace]
    endpoint = scraped_endpoint(charts[name])
    (port,) = container(charts[name])["ports"]
    assert (endpoint["port"], endpoint["interval"]) == (port["name"], "5s")
    job = {"targetLabel": "job", "replacement": "azure-scheduled-events-exporter"}
    assert job in endpoint["relabelings"]


def test_the_shipped_scrape_configuration_finds_the_pods(
    charts: dict[str, list[Manifest]],
) -> None:
    """The scrape configuration for Kubernetes keeps the pods by their label and port."""
    (port,) = container(charts["everything"])["ports"]
    folder = ROOT / "alerts" / "generated" / "prometheus"
    (job,) = yaml.safe_load((folder / "prometheus-kubernetes-sd.yml").read_text())["scrape_configs"]
    kept = {
        rule["source_labels"][0]: rule["regex"]
        for rule in job["relabel_configs"]
        if rule.get("action") == "keep"
    }
    app = pod_labels(charts["everything"])["app.kubernetes.io/name"]
    assert kept == {
        "__meta_kubernetes_pod_label_app_kubernetes_io_name": app,
        "__meta_kubernetes_pod_container_port_name": port["name"],
    }


def test_the_pod_monitor_follows_the_values(charts: dict[str, list[Manifest]]) -> None:
    """Interval, path and scheme are those of the values. If these name no time limit of a scrape,
    the limit is the interval, which is the longest that the operator takes.
    """
    # These values have an interval of 2 s, and no time limit.
    often = scraped_endpoint(charts["large-user"])
    assert (often["interval"], often["scrapeTimeout"]) == ("2s", "2s")
    # These have web.telemetry-path /events, and TLS.
    everything = scraped_endpoint(charts["everything"])
    assert (everything["path"], everything["scheme"]) == ("/events", "https")


def dashboard_maps(manifests: list[Manifest]) -> list[Manifest]:
    """Return the ConfigMaps that Grafana's sidecar finds by their label."""
    return [
        each
        for each in of_kind(manifests, "ConfigMap")
        if each["metadata"]["labels"].get("grafana_dashboard") == "1"
    ]


def test_grafana_gets_the_dashboards(charts: dict[str, list[Manifest]]) -> None:
    """Each generated dashboard is in a ConfigMap that Grafana's sidecar finds, and that is small
    enough for kubectl apply.
    """
    maps = dashboard_maps(charts["defaults"])
    held = {name: text for each in maps for name, text in each["data"].items()}
    made = {path.name: path.read_text() for path in (ROOT / "dashboards" / "json").glob("*.json")}
    assert {name: json.loads(text) for name, text in held.items()} == {
        name: json.loads(text) for name, text in made.items()
    }
    for each in maps:
        assert len(json.dumps(each)) < ANNOTATIONS_MOST
    assert dashboard_maps(charts["memory"]) == [], "these values switch the dashboards off"


def with_local_paths(text: str, folder: Path) -> str:
    """Return ``text`` with ``folder`` in the place of the folders that the container mounts."""
    for mounted in ("config", "web", "alertmanager"):
        text = text.replace(f"{ETC}/{mounted}", str(folder))
    return text


def effective_settings(manifests: list[Manifest], folder: Path) -> dict[str, tuple[str, str]]:
    """Let the exporter check the arguments, variables and files of its container, which are written
    to ``folder``. Return each setting with its value and its source: ``default``, a flag, a
    variable or a file.
    """
    for file, text in only(manifests, "ConfigMap")["data"].items():
        (folder / file).write_text(with_local_paths(text, folder))
    # In a cluster, these files are in Secrets of the user.
    (folder / "web-config.yml").write_text("http_server_config: {http2: false}\n")
    (folder / "http-config.yml").write_text("basic_auth: {username: vm, password: test}\n")
    variables = {
        each["name"]: with_local_paths(each["value"], folder)
        for each in container(manifests)["env"]
        if "value" in each
    }
    command, *flags = container(manifests)["args"]
    assert command == "run"
    done = run_command("check-config", *flags, **variables)
    assert (done.returncode, done.stderr) == (0, "")
    lines = re.findall(r"(?m)^(\S+): (.*?)   +\[(.*)\]$", done.stdout)
    return {setting: (value, source) for setting, value, source in lines}


@pytest.mark.parametrize("name", NAMES)
def test_the_exporter_takes_its_configuration(
    charts: dict[str, list[Manifest]], name: str, tmp_path: Path
) -> None:
    """The exporter accepts the container's arguments, variables and files, and its effective
    settings are those of the values.
    """
    values = values_of(name)
    settings = effective_settings(charts[name], tmp_path)
    effective = {setting: value for setting, (value, _) in settings.items()}
    journal = "/var/lib/azure-scheduled-events-exporter"
    if values["journal"]["type"] == "memory":
        journal = "memory"
    web = str(tmp_path / "web-config.yml") if values["web"]["secretName"] else "(none)"
    assert effective["web.listen-address"] == f":{values['port']}"
    assert effective["journal.path"] == journal
    assert effective["web.config.file"] == web
    # A flag of the container counts for more than the file that has these values.
    by_flag = {key for key, (_, source) in settings.items() if source.startswith("--")}
    by_file = {key: text for key, text in values["config"].items() if key not in by_flag}
    assert by_file.items() <= effective.items()
    if values["approvalPolicy"]:
        assert effective["approval.policy"] == str(tmp_path / "policy.yaml")
        assert yaml.safe_load((tmp_path / "policy.yaml").read_text()) == values["approvalPolicy"]
    elif "approval.policy" not in values["config"]:
        assert settings["approval.policy"] == ("off", "default")


def test_a_change_of_configuration_replaces_the_pods(charts: dict[str, list[Manifest]]) -> None:
    """The pods carry a checksum of their configuration, which another configuration changes."""
    sums = {
        only(manifests, "DaemonSet")["spec"]["template"]["metadata"]["annotations"][
            "checksum/config"
        ]
        for manifests in charts.values()
    }
    assert len(sums) == len(NAMES)
