"""docs/fleet.md, docs/rollout.md, docs/kubernetes.md and docs/aks.md are correct.

Their configurations are loaded unchanged.
"""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.alerts import Settings
from support.monitoring.cardinality import BEGIN, END, kept_by_alerts, measure_all, tables
from support.paths import ROOT
from support.programs import COMMAND, PATIENCE, debian

FLEET = (ROOT / "docs" / "fleet.md").read_text()
MANY_VMS = (ROOT / "docs" / "rollout.md").read_text()
KUBERNETES = (ROOT / "docs" / "kubernetes.md").read_text()
AKS = (ROOT / "docs" / "aks.md").read_text()
CHART = ROOT / "deploy" / "helm" / "azure-scheduled-events-exporter"
ROLLOUT = ROOT / "deploy" / "examples" / "rollout"
RULES = ROOT / "alerts" / "generated" / "prometheus" / "prometheus-rules.yml"


def blocks(page: str, language: str) -> list[str]:
    """Return the page's blocks of code in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def tool(*arguments: str) -> str:
    """Run a tool that must succeed; return its output."""
    program, *rest = arguments
    done = subprocess.run(
        [debian(program), *rest],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_series_are_as_the_page_says() -> None:
    """The numbers of series and samples on the page are those of exporters, exactly."""
    said = FLEET.partition(BEGIN)[2].partition(END)[0]
    measured = tables(measure_all(kept_by_alerts(FLEET)))
    assert said == measured, "run: make golden"


def test_alerts_keep_what_they_need() -> None:
    """Every metric of the exporter that a rule reads passes the filter for those who want alerts
    only.
    """
    kept = re.compile(kept_by_alerts(FLEET))
    groups = yaml.safe_load(RULES.read_text())["groups"]
    needed = (
        group["rules"]
        for group in groups
        if not group["name"].startswith("azure-scheduled-events-board-")
    )
    expressions = "\n".join(rule["expr"] for rules in needed for rule in rules)
    # Names with a colon are recordings, which do not pass the filter of scrapes.
    read = set(re.findall(r"(?<![\w:])azure_scheduled_events_\w+", expressions))
    assert len(read) > 10, "the metrics are found"
    assert [name for name in sorted(read) if not kept.fullmatch(name)] == []


def test_values_of_the_page_are_good(tmp_path: Path) -> None:
    """Every example of values on the page, and the command that installs the chart, is taken by the
    chart.
    """
    # All YAML of the page is values. The first example is those of the command.
    shown = blocks(KUBERNETES, "yaml")
    assert shown
    for number, text in enumerate(shown):
        (tmp_path / f"{number}.yaml").write_text(text)
        tool("helm", "template", "events", str(CHART), "--values", str(tmp_path / f"{number}.yaml"))
    for page in (KUBERNETES, (CHART / "README.md").read_text()):
        command = shlex.split(blocks(page, "sh")[0].replace("\\\n", " ").partition("\nkubectl")[0])
        assert command[:4] == ["helm", "install", "events", str(CHART.relative_to(ROOT))]
        flags = [word.replace("helm-values.yaml", str(tmp_path / "0.yaml")) for word in command[2:]]
        made = tool("helm", "template", *[flag for flag in flags if flag != "--create-namespace"])
        labels = {each["kind"]: each["metadata"]["labels"] for each in yaml.safe_load_all(made)}
        assert {labels[kind]["release"] for kind in ("PodMonitor", "PrometheusRule")} == {
            "monitoring"
        }


def test_scrape_job_of_the_page(tmp_path: Path) -> None:
    """Prometheus takes the job for nodes that the PodMonitor does not find, and the rules know it
    by its name.
    """
    (text,) = blocks(AKS, "yaml")
    (job,) = yaml.safe_load(text)
    assert re.fullmatch(Settings().text("job"), job["job_name"])
    # Debian builds Prometheus without it.
    assert job.pop("kubernetes_sd_configs") == [{"role": "node"}]
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump({"scrape_configs": [job]}))
    assert "SUCCESS" in tool("promtool", "check", "config", str(tmp_path / "prometheus.yml"))


def test_queries_of_the_page(tmp_path: Path) -> None:
    """The queries of the page lead from VM names to nodes and their pods, and find a node that is
    not cordoned.
    """
    names, pods, late = (query.strip() for query in blocks(AKS, "promql"))
    node = "aks-nodepool1-21922338-vmss00001b"
    vm = "aks-nodepool1-21922338-vmss_47"
    # AKS numbers nodes by the index of the VM, in six digits to the base of 36.
    assert int(node[-6:], 36) == int(vm.rpartition("_")[2])
    own = f'node="{node}", job="azure-scheduled-events-exporter"'
    event = f'event_id="E", event_type="Preempt", scope="self", {own}'
    instance = f'vm_name="{vm}", scale_set="pool", zone="1", {own}'
    series = {
        f"azure_scheduled_events_instance_info{{{instance}}}": 1,
        f"azure_scheduled_events_event_info{{{event}}}": 1,
        f"azure_scheduled_events_event_seconds_until_not_before{{{event}}}": 5,  # nearly due
        f'kube_pod_info{{pod="web", node="{node}"}}': 1,
        'kube_pod_info{pod="db", node="other"}': 1,
        f'kube_node_spec_unschedulable{{node="{node}"}}': 0,
        'kube_node_spec_unschedulable{node="other"}': 0,
    }
    expected = {
        names: (f'{{node="{node}", vm_name="{vm}", scale_set="pool", zone="1"}}', 1),
        pods: (f'kube_pod_info{{pod="web", node="{node}"}}', 1),
        late: (f'kube_node_spec_unschedulable{{node="{node}"}}', 0),
    }
    test = {
        "tests": [
            {
                "interval": "5s",
                "input_series": [
                    {"series": name, "values": f"{value}"} for name, value in series.items()
                ],
                "promql_expr_test": [
                    {
                        "expr": query,
                        "eval_time": "0s",
                        "exp_samples": [{"labels": labels, "value": value}],
                    }
                    for query, (labels, value) in expected.items()
                ],
            }
        ]
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump(test))
    assert "SUCCESS" in tool("promtool", "test", "rules", str(tmp_path / "test.yml"))


def test_cloud_init() -> None:
    """The custom data is a cloud-config that writes the script as it is, and runs it for this
    version.
    """
    text = (ROLLOUT / "cloud-init.yaml").read_text()
    assert text.startswith("#cloud-config\n")
    config = yaml.safe_load(text)
    assert config.keys() == {"write_files", "runcmd"}
    files = {each["path"]: each for each in config["write_files"]}
    assert all(each.keys() == {"path", "permissions", "content"} for each in files.values())
    ((program, version),) = config["runcmd"]
    assert files[program]["content"] == (ROLLOUT / "install").read_text()
    assert (files[program]["permissions"], version) == ("0755", __version__)
    variables = files["/etc/azure-scheduled-events-exporter/environment"]["content"].split()
    done = subprocess.run(
        [COMMAND, "check-config"],
        env={**os.environ, **dict(each.split("=") for each in variables)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def strings(node: Any) -> Iterator[str]:
    """Yield every text in a part of a JSON document."""
    if isinstance(node, str):
        yield node
    if isinstance(node, dict):
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            yield from strings(each)


def used(node: Any) -> set[str]:
    """Return the names of the parameters that it uses."""
    return {name for text in strings(node) for name in re.findall(r"parameters\('(\w+)'\)", text)}


def check_template(template: dict[str, Any], kind: str) -> None:
    """A deployment template declares the parameters that it uses, and installs the extension that
    runs the script.
    """
    assert re.fullmatch(
        r"https://schema\.management\.azure\.com/.*/deploymentTemplate\.json#", template["$schema"]
    )
    assert template["contentVersion"] == "1.0.0.0"
    assert used(template["resources"]) == set(template["parameters"])
    (resource,) = template["resources"]
    assert resource["type"] == kind
    extension = resource["properties"]
    assert (extension["publisher"], extension["type"]) == (
        "Microsoft.Azure.Extensions",
        "CustomScript",
    )
    assert extension["settings"] == {
        "fileUris": ["[parameters('installUrl')]"],
        "commandToExecute": (
            "[concat(if(empty(parameters('indexUrl')), '', concat('PIP_INDEX_URL=\"',"
            " parameters('indexUrl'), '\" ')), 'PIP_FIND_LINKS=\"', parameters('findLinks'), '\" sh"
            " install ', parameters('exporterVersion'))]"
        ),
    }


def test_vm_extension() -> None:
    """The template for scale sets is whole, and the command on the page gives it all parameters
    without a default.
    """
    template = json.loads((ROLLOUT / "vm-extension.json").read_text())
    check_template(template, "Microsoft.Compute/virtualMachineScaleSets/extensions")
    (command,) = [block for block in blocks(MANY_VMS, "sh") if "deployment group" in block]
    required = {name for name, each in template["parameters"].items() if "defaultValue" not in each}
    assert set(re.findall(r"(\w+)=\S+", command)) == required


def test_azure_policy() -> None:
    """The policy is complete: its parameters are declared, passed to its template, and given by the
    page's command.
    """
    policy = json.loads((ROLLOUT / "azure-policy.json").read_text())["properties"]
    assert policy["mode"] == "Indexed"
    rule = policy["policyRule"]
    assert rule.keys() == {"if", "then"}
    details = rule["then"]["details"]
    deployment = details["deployment"]["properties"]
    check_template(deployment["template"], details["type"])
    assert set(deployment["parameters"]) == set(deployment["template"]["parameters"])
    # The policy without its template, whose parameters are its own.
    outside = {
        **rule,
        "then": {**rule["then"], "details": {**details, "deployment": deployment["parameters"]}},
    }
    assert used(outside) == set(policy["parameters"])
    assert details["roleDefinitionIds"]
    template_properties = deployment["template"]["resources"][0]["properties"]
    for condition in details["existenceCondition"]["allOf"]:
        key = condition["field"].rpartition("/")[2]
        assert condition["field"].startswith(f"{details['type']}/")
        assert key == "provisioningState" or template_properties[key] == condition["equals"]
    (command,) = [block for block in blocks(MANY_VMS, "sh") if "policy assignment" in block]
    given = json.loads(re.search(r"--params '(.*)'", command)[1])  # type: ignore[index]  # found, or the test fails
    assert set(given) == {
        name for name, each in policy["parameters"].items() if "defaultValue" not in each
    }
    # The policy installs the exporter on the VMs with the tag by which Prometheus finds them.
    prometheus = yaml.safe_load(
        (ROOT / "alerts" / "generated" / "prometheus" / "prometheus-azure-sd.yml").read_text()
    )
    (found,) = [
        each
        for each in prometheus["scrape_configs"][0]["relabel_configs"]
        if each.get("action") == "keep"
    ]
    assert found["source_labels"] == ["__meta_azure_machine_tag_azure_scheduled_events"]
    assert {"field": "tags['azure_scheduled_events']", "equals": found["regex"]} in rule["if"][
        "allOf"
    ]


# Stands in for Python on a VM: makes a virtual environment of stand-ins; its pip writes down what
# it was asked.
PYTHON = """\
#!/bin/sh
case "$1" in
-c) exit 0 ;;
-m) mkdir -p "$3/bin"
    printf '#!/bin/sh\\necho pip "$@" >>"%s"\\n' "$CALLS" >"$3/bin/pip"
    exporter=$3/bin/azure-scheduled-events-exporter
    printf '#!/bin/sh\\nmkdir -p "$3/systemd"\\ncp "%s"/* "$3/systemd/"\\n' "$UNITS" >"$exporter"
    chmod +x "$3"/bin/* ;;
esac
"""


def test_install(tmp_path: Path) -> None:
    """The script installs the given version and its unit, and restarts it; run again, it
    upgrades.
    """
    for folder in ("bin", "opt", "etc/systemd/system", "usr/local/bin"):
        (tmp_path / folder).mkdir(parents=True)
    calls = tmp_path / "calls"
    for name, text in {
        "python3": PYTHON,
        "systemctl": f'#!/bin/sh\necho systemctl "$@" >>"{calls}"\n',
    }.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    script = (ROLLOUT / "install").read_text()
    assert (ROLLOUT / "install").stat().st_mode & 0o111, "it can be executed"
    for root in ("opt", "etc", "usr"):
        script = script.replace(f"=/{root}/", f"={tmp_path}/{root}/")
    env = {
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
        "CALLS": str(calls),
        "UNITS": str(ROOT / "deploy" / "systemd"),
    }
    unit = "azure-scheduled-events-exporter.service"
    for version in ("1.2.3", "1.2.4"):
        calls.write_text("")
        subprocess.run(
            ["/bin/sh", "-c", script, "install", version], env=env, check=True, umask=0o077
        )
        assert calls.read_text().splitlines() == [
            (
                "pip install --quiet --disable-pip-version-check"
                f" azure-scheduled-events-exporter=={version}"
            ),
            "systemctl daemon-reload",
            f"systemctl enable --quiet {unit}",
            f"systemctl restart {unit}",
        ]
        installed = tmp_path / "etc" / "systemd" / "system" / unit
        assert installed.read_text() == (ROOT / "deploy" / "systemd" / unit).read_text()
        command = tmp_path / "usr/local/bin/azure-scheduled-events-exporter"
        assert (
            command.resolve()
            == tmp_path / "opt/azure-scheduled-events-exporter/bin/azure-scheduled-events-exporter"
        )
        # Every user can run the command, though root's umask was 077.
        read_and_execute = 0o005
        assert all(
            each.stat().st_mode & read_and_execute == read_and_execute
            for each in (command, *command.resolve().parents[:2])
        )
    done = subprocess.run(
        ["/bin/sh", "-c", script, "install"], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "usage: install VERSION" in done.stderr
