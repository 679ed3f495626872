"""docs/fleet.md, docs/kubernetes.md and docs/aks.md are correct.

Their configurations are loaded unchanged.
"""

import re
import shlex
import subprocess
from pathlib import Path

import yaml

from azure_scheduled_events_exporter.alerts import Settings
from support.monitoring.cardinality import BEGIN, END, kept_by_alerts, measure_all, tables
from support.paths import ROOT
from support.programs import PATIENCE, debian

FLEET = (ROOT / "docs" / "fleet.md").read_text()
KUBERNETES = (ROOT / "docs" / "kubernetes.md").read_text()
AKS = (ROOT / "docs" / "aks.md").read_text()
CHART = ROOT / "deploy" / "helm" / "azure-scheduled-events-exporter"
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
