"""docs/fleet.md, docs/rollout.md, docs/kubernetes.md and docs/aks.md are correct.

Their configurations are loaded unchanged.
"""

import json
import os
import re
import shlex
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
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
POLICY = json.loads((ROLLOUT / "azure-policy.json").read_text())["properties"]
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
    only. The rules that are there for the dashboards alone do not count.
    """
    kept = re.compile(kept_by_alerts(FLEET))
    groups = yaml.safe_load(RULES.read_text())["groups"]
    for_dashboards = "azure-scheduled-events-board-"
    needed = (group["rules"] for group in groups if not group["name"].startswith(for_dashboards))
    expressions = "\n".join(rule["expr"] for rules in needed for rule in rules)
    # Names with a colon are recordings, which do not pass the filter of scrapes.
    read = set(re.findall(r"(?<![\w:])azure_scheduled_events_\w+", expressions))
    assert len(read) > 10, "the metrics are found"
    assert [name for name in sorted(read) if not kept.fullmatch(name)] == []


def test_values_of_the_page_are_good(tmp_path: Path) -> None:
    """The chart takes every example of values on the page. It also takes the command that installs
    it, on this page with a file of values, and on the chart's own page with ``--set``.
    """
    # All YAML of the page is values; the first block is the file that the command names.
    values_of_the_command, *others = blocks(KUBERNETES, "yaml")
    file = tmp_path / "values.yaml"
    for text in others:
        file.write_text(text)
        tool("helm", "template", "events", str(CHART), "--values", str(file))
    file.write_text(values_of_the_command)
    for page in (KUBERNETES, (CHART / "README.md").read_text()):
        first_block, *_ = blocks(page, "sh")
        command = first_block.replace("\\\n", " ").partition("\nkubectl")[0]
        program, action, *words = shlex.split(command.replace("helm-values.yaml", str(file)))
        assert [program, action] == ["helm", "install"]
        assert words[:2] == ["events", str(CHART.relative_to(ROOT))]
        only_install_knows = "--create-namespace"
        made = tool("helm", "template", *[word for word in words if word != only_install_knows])
        labels = {each["kind"]: each["metadata"]["labels"] for each in yaml.safe_load_all(made)}
        assert labels["PodMonitor"]["release"] == "monitoring"
        assert labels["PrometheusRule"]["release"] == "monitoring"


def test_scrape_job_of_the_page(tmp_path: Path) -> None:
    """Prometheus takes the job for nodes that the PodMonitor does not find, and the rules know it
    by its name.
    """
    (text,) = blocks(AKS, "yaml")
    (job,) = yaml.safe_load(text)
    assert re.fullmatch(Settings().text("job"), job["job_name"])
    # Debian builds Prometheus without discovery in Kubernetes.
    assert job.pop("kubernetes_sd_configs") == [{"role": "node"}]
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump({"scrape_configs": [job]}))
    assert "SUCCESS" in tool("promtool", "check", "config", str(tmp_path / "prometheus.yml"))


def assert_answers(
    folder: Path, series: dict[str, int], answers: dict[str, tuple[str, int]]
) -> None:
    """Check what queries answer over series of one value each.

    ``answers`` has, by the query, the labels and the value of the one series in its answer.
    """
    samples = {
        query: [{"labels": labels, "value": value}] for query, (labels, value) in answers.items()
    }
    test = {
        "interval": "5s",
        "input_series": [{"series": name, "values": f"{value}"} for name, value in series.items()],
        "promql_expr_test": [
            {"expr": query, "eval_time": "0s", "exp_samples": expected}
            for query, expected in samples.items()
        ],
    }
    (folder / "test.yml").write_text(yaml.safe_dump({"tests": [test]}))
    assert "SUCCESS" in tool("promtool", "test", "rules", str(folder / "test.yml"))


def test_queries_of_the_page(tmp_path: Path) -> None:
    """The queries of the page lead from VM names to nodes and their pods, and find a node that is
    not cordoned.
    """
    nodes_of_vms, pods_of_nodes, not_cordoned = (query.strip() for query in blocks(AKS, "promql"))
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
    answers = {
        nodes_of_vms: (f'{{node="{node}", vm_name="{vm}", scale_set="pool", zone="1"}}', 1),
        pods_of_nodes: (f'kube_pod_info{{pod="web", node="{node}"}}', 1),
        not_cordoned: (f'kube_node_spec_unschedulable{{node="{node}"}}', 0),
    }
    assert_answers(tmp_path, series, answers)


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


def test_cloud_init_with_a_wheel() -> None:
    """The page's command for a wheel that is in no index runs the script that the custom data
    writes, for the version of the wheel.
    """
    ((script, _version),) = yaml.safe_load((ROLLOUT / "cloud-init.yaml").read_text())["runcmd"]
    (text,) = [each for each in blocks(MANY_VMS, "yaml") if "PIP_FIND_LINKS" in each]
    ((program, variable, called, version),) = yaml.safe_load(text)["runcmd"]
    assert (program, called) == ("env", script)
    name, _, address = variable.partition("=")
    assert name == "PIP_FIND_LINKS"
    assert address.endswith(f"/azure_scheduled_events_exporter-{version}-py3-none-any.whl")


def strings(node: Any) -> Iterator[str]:
    """Yield every text in a part of a JSON document."""
    if isinstance(node, str):
        yield node
    if isinstance(node, dict):
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            yield from strings(each)


def parameters_used(node: Any) -> set[str]:
    """Return the names of the parameters that a part of a template or policy uses."""
    return {name for text in strings(node) for name in re.findall(r"parameters\('(\w+)'\)", text)}


def check_template(template: dict[str, Any], kind: str) -> None:
    """Check that a deployment template declares the parameters that it uses, and installs the
    extension that runs the script, as a resource of the type ``kind``.
    """
    assert re.fullmatch(
        r"https://schema\.management\.azure\.com/.*/deploymentTemplate\.json#", template["$schema"]
    )
    assert template["contentVersion"] == "1.0.0.0"
    assert parameters_used(template["resources"]) == set(template["parameters"])
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
    assert POLICY["mode"] == "Indexed"
    rule = POLICY["policyRule"]
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
    assert parameters_used(outside) == set(POLICY["parameters"])
    (command,) = [block for block in blocks(MANY_VMS, "sh") if "policy assignment" in block]
    (given,) = re.findall(r"--params '(.*)'", command)
    assert set(json.loads(given)) == {
        name for name, each in POLICY["parameters"].items() if "defaultValue" not in each
    }


def test_azure_policy_sees_whether_the_exporter_is_installed() -> None:
    """A VM conforms if it has the extension of the template, in this version and successfully
    installed. On any other VM, the policy installs it, and has the role to do so.
    """
    details = POLICY["policyRule"]["then"]["details"]
    assert details["roleDefinitionIds"]
    (extension,) = details["deployment"]["properties"]["template"]["resources"]
    installed = extension["properties"]
    conditions = {
        condition["field"]: condition["equals"]
        for condition in details["existenceCondition"]["allOf"]
    }
    kind = details["type"]
    assert conditions == {
        f"{kind}/publisher": installed["publisher"],
        f"{kind}/type": installed["type"],
        # The version of the exporter: a VM with another one does not conform.
        f"{kind}/forceUpdateTag": installed["forceUpdateTag"],
        f"{kind}/provisioningState": "Succeeded",
    }


def test_azure_policy_installs_where_prometheus_looks() -> None:
    """The policy installs the exporter on the VMs with the tag by which Prometheus finds them."""
    prometheus = yaml.safe_load(
        (ROOT / "alerts" / "generated" / "prometheus" / "prometheus-azure-sd.yml").read_text()
    )
    (found,) = [
        each
        for each in prometheus["scrape_configs"][0]["relabel_configs"]
        if each.get("action") == "keep"
    ]
    assert found["source_labels"] == ["__meta_azure_machine_tag_azure_scheduled_events"]
    has_the_tag = {"field": "tags['azure_scheduled_events']", "equals": found["regex"]}
    assert has_the_tag in POLICY["policyRule"]["if"]["allOf"]


STAND_IN_FOR_PYTHON = """\
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
"""Stands in for Python on a VM. With ``-c``, the check of its version, it is new enough. With ``-m
venv FOLDER``, it makes a virtual environment of two stand-ins: pip, which writes down how it was
called, and the exporter, which exports the units.
"""
EXPORTER = "azure-scheduled-events-exporter"


class Machine:
    """A VM below ``root``, with stand-ins for Python and systemctl, on which ``install`` is run.

    Attributes:
        calls: a file to which pip and systemctl append a line for each time that they are called.
    """

    def __init__(self, root: Path) -> None:
        for folder in ("bin", "opt", "etc/systemd/system", "usr/local/bin"):
            (root / folder).mkdir(parents=True)
        self.calls = root / "calls"
        self.command = root / "usr/local/bin" / EXPORTER
        self.virtual_environment = root / "opt" / EXPORTER
        self.unit = root / "etc/systemd/system" / f"{EXPORTER}.service"
        self._write_program(root / "bin/python3", STAND_IN_FOR_PYTHON)
        self._write_program(
            root / "bin/systemctl", f'#!/bin/sh\necho systemctl "$@" >>"{self.calls}"\n'
        )
        self._env = {
            "PATH": f"{root / 'bin'}:/usr/bin:/bin",
            "CALLS": str(self.calls),
            "UNITS": str(ROOT / "deploy" / "systemd"),
        }
        self._script = (ROLLOUT / "install").read_text()
        for folder in ("opt", "etc", "usr"):
            self._script = self._script.replace(f"=/{folder}/", f"={root}/{folder}/")

    def install(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the script, with an umask that lets nobody else read what it makes."""
        self.calls.write_text("")
        return subprocess.run(
            ["/bin/sh", "-c", self._script, "install", *arguments],
            env=self._env,
            umask=0o077,
            capture_output=True,
            text=True,
            check=False,
        )

    @staticmethod
    def _write_program(path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A VM without the exporter."""
    return Machine(tmp_path)


def test_install(machine: Machine) -> None:
    """The script installs the given version and its unit, and restarts it; run again, it
    upgrades.
    """
    assert os.access(ROLLOUT / "install", os.X_OK)
    for version in ("1.2.3", "1.2.4"):
        done = machine.install(version)
        assert done.returncode == 0, done.stderr
        assert machine.calls.read_text().splitlines() == [
            f"pip install --quiet --disable-pip-version-check {EXPORTER}=={version}",
            "systemctl daemon-reload",
            f"systemctl enable --quiet {machine.unit.name}",
            f"systemctl restart {machine.unit.name}",
        ]
        shipped = ROOT / "deploy" / "systemd" / machine.unit.name
        assert machine.unit.read_text() == shipped.read_text()


def test_every_user_can_run_what_is_installed(machine: Machine) -> None:
    """The command in /usr/local/bin leads to the virtual environment, and every user can run it,
    though the umask of root forbids that.
    """
    assert machine.install("1.2.3").returncode == 0
    program = machine.virtual_environment / "bin" / EXPORTER
    assert machine.command.resolve() == program
    read_and_execute = stat.S_IROTH | stat.S_IXOTH
    for path in (machine.virtual_environment, program.parent, program):
        assert path.stat().st_mode & read_and_execute == read_and_execute, path


def test_install_without_a_version(machine: Machine) -> None:
    """Without a version, the script prints its usage and fails."""
    done = machine.install()
    assert done.returncode != 0
    assert "usage: install VERSION" in done.stderr
