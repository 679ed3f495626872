"""The Helm chart: what Helm makes of it is what Kubernetes, the Prometheus operator and the exporter take."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate  # type: ignore[import-untyped]  # ships no types
import pytest
import yaml

from azure_scheduled_events_exporter import __version__
from support.charts import CHART, NAMES, Manifest, helm, rendered, values_of
from support.paths import DATA, ROOT
from support.programs import COMMAND, PATIENCE, environment

OPERATOR = DATA / "operator_types"
KUBERNETES = ("1.25", "1.28", "1.31", "1.34", "1.37")
ETC = "/etc/azure-scheduled-events-exporter"
MEBIBYTE = 1 << 20
ANNOTATIONS_MOST = 256 << 10  # bytes: kubectl apply keeps a copy of what it applies in one


@pytest.fixture(scope="module")
def charts() -> dict[str, list[Manifest]]:
    """What the chart makes of every file of values."""
    return {name: rendered(name) for name in NAMES}


def of_kind(manifests: list[Manifest], kind: str) -> list[Manifest]:
    """Return the manifests of one kind."""
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def only(manifests: list[Manifest], kind: str) -> Manifest:
    """Return the one manifest of its kind that is no dashboard."""
    found = [each for each in of_kind(manifests, kind) if "grafana_dashboard" not in each["metadata"]["labels"]]
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


def test_files_of_the_chart_are_generated() -> None:
    """Dashboards, rules and version in the chart are those of the exporter: nobody edits a copy."""
    done = subprocess.run([ROOT / "scripts" / "chart", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("name", NAMES)
def test_kubernetes_takes_it(charts: dict[str, list[Manifest]], name: str, version: str) -> None:
    """Every manifest is what Kubernetes' own schema says, without an unknown key, in old and new versions."""
    kinds = set()
    for manifest in charts[name]:
        if "monitoring.coreos.com" in manifest["apiVersion"]:
            continue
        kinds.add(manifest["kind"])
        assert kubernetes_validate.validate(manifest, version, strict=True) == version
    assert {"ConfigMap", "DaemonSet"} <= kinds


def test_names_are_its_own(charts: dict[str, list[Manifest]]) -> None:
    """No two manifests have the same name, all stand in a namespace, and every reference leads to one of them."""
    for manifests in charts.values():
        names = [(each["kind"], each["metadata"]["namespace"], each["metadata"]["name"]) for each in manifests]
        assert len(set(names)) == len(names)
        there = {name for kind, _, name in names if kind == "ConfigMap"}
        used = {volume["configMap"]["name"] for volume in pod(manifests)["volumes"] if "configMap" in volume}
        assert used - there <= {"ca"}
        accounts = {name for kind, _, name in names if kind == "ServiceAccount"} or {"default"}
        assert pod(manifests)["serviceAccountName"] in accounts


@pytest.fixture(scope="module")
def operator_schemas() -> dict[str, Any]:
    """The Prometheus operator's types as JSON Schemas that know no further keys; kept below .tools/."""
    sources = b"".join(path.read_bytes() for path in sorted(OPERATOR.iterdir()))
    kept = ROOT / ".tools" / f"operator-types-{hashlib.sha256(sources).hexdigest()[:16]}.json"
    if not kept.exists():
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "types"
            shutil.copytree(OPERATOR, folder)
            # Node.js and npm are among the pinned development requirements.
            env = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
            generator = "node_modules/.bin/ts-json-schema-generator"
            for command in (
                ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"],
                [
                    generator,
                    "--path",
                    "types.ts",
                    "--tsconfig",
                    "tsconfig.json",
                    "--no-type-check",
                    "-o",
                    "schema.json",
                ],
            ):
                done = subprocess.run(
                    command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=150
                )
                assert done.returncode == 0, done.stderr
            kept.parent.mkdir(exist_ok=True)
            shutil.copyfile(folder / "schema.json", kept.with_suffix(".new"))
            kept.with_suffix(".new").replace(kept)
    schema: dict[str, Any] = json.loads(kept.read_text())
    return schema


def test_prometheus_operator_takes_it(charts: dict[str, list[Manifest]], operator_schemas: dict[str, Any]) -> None:
    """PodMonitor and PrometheusRule are what the operator's own types say, without an unknown key."""
    checked = 0
    for manifests in charts.values():
        for kind in ("PodMonitor", "PrometheusRule"):
            validator = jsonschema.Draft7Validator({**operator_schemas, "$ref": f"#/definitions/I{kind}"})
            for manifest in of_kind(manifests, kind):
                # Azure's managed Prometheus takes the operator's resources under an API group of its own.
                validator.validate({**manifest, "apiVersion": "monitoring.coreos.com/v1"})
                with pytest.raises(jsonschema.ValidationError):
                    validator.validate({**manifest, "spec": {**manifest["spec"], "unknown": 1}})
                checked += 1
    assert checked == 3


def test_operator_gets_the_rules(charts: dict[str, list[Manifest]]) -> None:
    """The PrometheusRule holds exactly the generated rules, with no template of theirs expanded."""
    rules = yaml.safe_load((ROOT / "alerts" / "generated" / "kubernetes" / "prometheus-rule.yaml").read_text())
    assert only(charts["everything"], "PrometheusRule")["spec"] == rules["spec"]


def test_scrapes_find_the_pods(charts: dict[str, list[Manifest]]) -> None:
    """The PodMonitor, and the shipped scrape configuration, select the pods and their port every 5 s, as their job."""
    for name in ("everything", "pod-network"):
        labels = only(charts[name], "DaemonSet")["spec"]["template"]["metadata"]["labels"]
        spec = only(charts[name], "PodMonitor")["spec"]
        assert spec["selector"]["matchLabels"].items() <= labels.items()
        assert spec["namespaceSelector"]["matchNames"] == ["watch"]
        (endpoint,) = spec["podMetricsEndpoints"]
        (port,) = container(charts[name])["ports"]
        assert (endpoint["port"], endpoint["interval"]) == (port["name"], "5s")
        assert {"targetLabel": "job", "replacement": "azure-scheduled-events-exporter"} in endpoint["relabelings"]
        example = yaml.safe_load(
            (ROOT / "alerts" / "generated" / "prometheus" / "prometheus-kubernetes-sd.yml").read_text()
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
    everything = only(charts["everything"], "PodMonitor")["spec"]["podMetricsEndpoints"][0]
    assert (everything["path"], everything["scheme"]) == ("/events", "https")


def test_grafana_gets_the_dashboards(charts: dict[str, list[Manifest]]) -> None:
    """Each dashboard is a ConfigMap that Grafana's sidecar finds, the generated one, and fits kubectl apply."""
    maps = [
        each for each in of_kind(charts["defaults"], "ConfigMap") if "grafana_dashboard" in each["metadata"]["labels"]
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
        each for each in of_kind(charts["memory"], "ConfigMap") if "grafana_dashboard" in each["metadata"]["labels"]
    ]


def test_config_maps_are_small_enough(charts: dict[str, list[Manifest]]) -> None:
    """Kubernetes takes no ConfigMap over 1 MiB."""
    for manifests in charts.values():
        assert all(len(json.dumps(each)) < MEBIBYTE for each in of_kind(manifests, "ConfigMap"))


@pytest.mark.parametrize("name", NAMES)
def test_the_exporter_takes_its_configuration(charts: dict[str, list[Manifest]], name: str, tmp_path: Path) -> None:
    """Arguments, variables and files of the container are good to the exporter, which reads just what values say."""
    manifests, values = charts[name], values_of(name)

    def here(text: str) -> str:
        for folder in ("config", "web", "alertmanager"):
            text = text.replace(f"{ETC}/{folder}", str(tmp_path))
        return text

    for file, text in only(manifests, "ConfigMap")["data"].items():
        (tmp_path / file).write_text(here(text))
    (tmp_path / "web-config.yml").write_text("http_server_config: {http2: false}\n")  # in the user's Secret
    (tmp_path / "http-config.yml").write_text("basic_auth: {username: vm, password: test}\n")
    env = {each["name"]: here(each["value"]) for each in container(manifests)["env"] if "value" in each}
    command, *flags = container(manifests)["args"]
    assert command == "run"
    done = subprocess.run(
        [COMMAND, "check-config", *flags],
        env=environment(**env),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stderr) == (0, "")
    shown = dict(line.partition("   [")[0].split(": ", 1) for line in done.stdout.splitlines())
    places = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert shown["web.listen-address"] == f":{values['port']}"
    folder = "memory" if values["journal"]["type"] == "memory" else "/var/lib/azure-scheduled-events-exporter"
    assert shown["journal.path"] == folder
    web = str(tmp_path / "web-config.yml") if values["web"]["secretName"] else "(none)"
    assert shown["web.config.file"] == web
    # A flag counts for more than the file.
    given = {flag: text for flag, text in values["config"].items() if not any(flag in each for each in flags)}
    assert given.items() <= shown.items()
    if values["approvalPolicy"]:
        assert shown["approval.policy"] == str(tmp_path / "policy.yaml")
        assert yaml.safe_load((tmp_path / "policy.yaml").read_text()) == values["approvalPolicy"]
    elif "approval.policy" not in given:
        assert places["approval.policy"].endswith("[default]")


def test_ports_agree(charts: dict[str, list[Manifest]]) -> None:
    """Listener, container port, host port, probes and NetworkPolicy all mean the same port."""
    for name, manifests in charts.items():
        wanted = values_of(name)["port"]
        (port,) = container(manifests)["ports"]
        assert port["containerPort"] == wanted
        assert port.get("hostPort") == (wanted if pod(manifests).get("hostNetwork") else None)
        for probe in ("livenessProbe", "readinessProbe"):
            handler = container(manifests)[probe].get("httpGet") or container(manifests)[probe]["tcpSocket"]
            assert handler["port"] == port["name"]
    assert values_of("defaults")["port"] == 10169


def test_probes(charts: dict[str, list[Manifest]]) -> None:
    """It is restarted only when it does not live, and ready once Azure has answered; over TLS where it speaks TLS."""
    plain, tls = container(charts["defaults"]), container(charts["everything"])
    assert plain["livenessProbe"]["httpGet"] == {"path": "/-/healthy", "port": "metrics", "scheme": "HTTP"}
    assert plain["readinessProbe"]["httpGet"] == {"path": "/-/ready", "port": "metrics", "scheme": "HTTP"}
    assert tls["livenessProbe"]["httpGet"]["scheme"] == "HTTPS"
    assert "httpGet" not in container(charts["memory"])["livenessProbe"]


def test_the_image_is_this_version(charts: dict[str, list[Manifest]]) -> None:
    """Chart, image and exporter are one version; a digest holds instead of a tag, for all containers."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__
    assert container(charts["defaults"])["image"].endswith(f":{__version__}")
    for manifests in charts.values():
        images = {each["image"] for each in [*pod(manifests).get("initContainers", []), *pod(manifests)["containers"]]}
        assert len(images) == 1
    assert container(charts["everything"])["image"].endswith(f"@sha256:{'0' * 64}")


def test_privileges(charts: dict[str, list[Manifest]]) -> None:
    """The exporter has no privilege at all, and never a token of the cluster; the folder's preparation has one."""
    for manifests in charts.values():
        spec = pod(manifests)
        assert spec["automountServiceAccountToken"] is False
        assert all(not each["automountServiceAccountToken"] for each in of_kind(manifests, "ServiceAccount"))
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["runAsUser"] == 65532
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container(manifests)["securityContext"] == {
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
        for each in spec.get("initContainers", []):
            assert each["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["CHOWN"]}
            assert not each["securityContext"]["allowPrivilegeEscalation"]
            assert each["securityContext"]["readOnlyRootFilesystem"]


def test_without_the_host_nothing_is_root(charts: dict[str, list[Manifest]]) -> None:
    """With a pod address and an emptyDir it needs nothing that Kubernetes' restricted standard forbids."""
    spec = pod(charts["pod-network"])
    assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & spec.keys()
    allowed = {"configMap", "emptyDir", "secret", "projected", "downwardAPI", "persistentVolumeClaim"}
    assert all((volume.keys() - {"name"}) <= allowed for volume in spec["volumes"])
    assert "hostPort" not in container(charts["pod-network"])["ports"][0]


@pytest.fixture
def node_folder() -> Iterator[Path]:
    """A folder that everybody may look into, with one in it as the kubelet makes it."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        folder = Path(name) / "journal"
        folder.mkdir(mode=0o755)
        yield folder


def test_the_journal_can_be_written(charts: dict[str, list[Manifest]], node_folder: Path) -> None:
    """The preparation, with CHOWN as its only capability, gives the folder to the user who then writes into it."""
    (prepare,) = pod(charts["defaults"])["initContainers"]
    _, *options, folder, user, group = prepare["command"]
    is_root = os.geteuid() == 0
    owner = (user, group) if is_root else (str(os.geteuid()), str(os.getegid()))
    less = ["setpriv", "--bounding-set=-all,+chown", "--inh-caps=-all"] if is_root else []
    subprocess.run([*less, sys.executable, *options, str(node_folder), *owner], check=True)
    assert (str(node_folder.stat().st_uid), str(node_folder.stat().st_gid)) == owner
    become = ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups"] if is_root else []
    subprocess.run([*become, "/bin/sh", "-c", f"echo >{node_folder}/journal.sqlite"], check=True)
    (mount,) = prepare["volumeMounts"]
    assert (mount["name"], mount["mountPath"]) == ("journal", folder)
    assert (user, group) == ("65532", "65532")


def test_every_node_is_watched(charts: dict[str, list[Manifest]]) -> None:
    """It runs on Spot and drained nodes too, on no virtual node, and on the node's network unless told otherwise."""
    spec = pod(charts["defaults"])
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert {"key": "type", "operator": "NotIn", "values": ["virtual-kubelet"]} in term["matchExpressions"]
    assert "affinity" not in pod(charts["memory"])


def test_network_policy(charts: dict[str, list[Manifest]]) -> None:
    """A pod with its own address may reach IMDS, collector, Alertmanager and DNS; there is none on the node's."""
    assert not of_kind(charts["defaults"], "NetworkPolicy")
    manifest = only(charts["pod-network"], "NetworkPolicy")
    spec = manifest["spec"]
    labels = only(charts["pod-network"], "DaemonSet")["spec"]["template"]["metadata"]["labels"]
    assert spec["podSelector"]["matchLabels"].items() <= labels.items()
    azure, collector, more = spec["egress"]
    assert azure["to"] == [{"ipBlock": {"cidr": "169.254.169.254/32"}}]
    assert azure["ports"] == [{"port": 80, "protocol": "TCP"}]
    assert {(each["port"], each["protocol"]) for each in collector["ports"]} == {
        *((443, "TCP"), (9093, "TCP")),
        *((53, "UDP"), (53, "TCP")),
    }
    assert more["to"] == [{"ipBlock": {"cidr": "10.0.0.9/32"}}]
    (ingress,) = spec["ingress"]
    assert ingress["ports"] == [{"port": "metrics", "protocol": "TCP"}]
    assert ingress["from"]


def test_network_policy_lets_through_to_a_simulator() -> None:
    """With imds.endpoint set, a pod with its own address may reach that port too, and the DNS that finds it."""
    only_this = ("--show-only", "templates/networkpolicy.yaml", "--set", "hostNetwork=false")
    endpoint = r"config.imds\.endpoint=http://simulator.sim:10170"
    done = helm("template", "events", str(CHART), *only_this, "--set", endpoint)
    assert done.returncode == 0, done.stderr
    _, more = yaml.safe_load(done.stdout)["spec"]["egress"]
    assert {each["port"] for each in more["ports"]} == {10170, 53}


def texts(node: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - any part of a manifest
    """Yield key and value of everything in a manifest that Kubernetes wants to be text."""
    for key, value in node.items() if isinstance(node, dict) else ():
        if key in {"labels", "matchLabels"}:
            yield from value.items()
        elif key.lower().endswith("name") or key == "namespace":
            yield key, value
        elif key == "matchNames":
            yield from ((key, each) for each in value)
        yield from texts(value)
    for each in node if isinstance(node, list) else ():
        yield from texts(each)


@pytest.mark.parametrize("release", ["123", "on"])
def test_names_that_look_like_something_else(release: str) -> None:
    """Names that YAML reads as numbers or truth values stay text."""
    names = ["web.secretName", "alertmanager.secretName", "serviceAccount.name", "priorityClassName"]
    names += ["fullnameOverride", "podMonitor.namespace", "prometheusRule.namespace", "dashboards.namespace"]
    flags = [part for name in names for part in ("--set-string", f"{name}=12")]
    flags += ["--set", "podMonitor.enabled=true", "--set", "prometheusRule.enabled=true", "--set", "hostNetwork=false"]
    done = helm("template", release, str(CHART), "--namespace", "456", *flags)
    assert done.returncode == 0, done.stderr
    found = [pair for manifest in yaml.safe_load_all(done.stdout) for pair in texts(manifest)]
    assert {("app.kubernetes.io/instance", release), ("namespace", "456"), ("secretName", "12")} <= set(found)
    assert not [pair for pair in found if not isinstance(pair[1], str)]


def test_a_change_of_configuration_replaces_the_pods(charts: dict[str, list[Manifest]]) -> None:
    """The pods carry a checksum of their configuration, which another configuration changes."""
    sums = {
        only(manifests, "DaemonSet")["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
        for manifests in charts.values()
    }
    assert len(sums) == len(NAMES)


def test_links_of_the_rules() -> None:
    """Links of the chart's alerts lead where its values say."""
    runbooks, boards = "prometheusRule.runbooksUrl=https://wiki/rb/", "prometheusRule.dashboardsUrl=https://boards/d"
    enabled = ("--set", "prometheusRule.enabled=true", "--show-only", "templates/prometheusrule.yaml")
    done = helm("template", "events", str(CHART), *enabled, "--set", runbooks, "--set", boards)
    assert done.returncode == 0, done.stderr
    rules = [each for group in yaml.safe_load(done.stdout)["spec"]["groups"] for each in group["rules"]]
    links = {each["alert"]: each["annotations"] for each in rules if "alert" in each}
    assert links
    for name, found in links.items():
        assert found["runbook_url"] == f"https://wiki/rb/{name}.md"
        assert found["dashboard_url"].startswith("https://boards/d/azure-scheduled-events-")
