"""The values of the Helm chart: valid and refused values, and the notes."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from azure_scheduled_events_exporter.alerts import GENERATED, load
from azure_scheduled_events_exporter.alerts.pushed import pushed_alerts
from azure_scheduled_events_exporter.approval.policy import BUILT_IN
from azure_scheduled_events_exporter.commands.cli import main
from azure_scheduled_events_exporter.config.settings import SETTINGS
from support.deployment.charts import CHART, container, helm, only, pod, rendered
from support.paths import ROOT

CHART_OWNS = {
    "web.listen-address",
    "journal.path",
    "web.config.file",
    "alertmanager.http-config.file",
    "alerts.values",
    "instance.name",
    "process.user",
}
"""Flags that are no keys of ``config``.

The first five follow from other values. The VM's name would be the same on every node, and only
root could become ``process.user``.
"""


def test_lint() -> None:
    """Helm finds nothing to remark, but for an icon."""
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout
    assert re.findall(r"^\[.*", done.stdout, re.MULTILINE) == [
        "[INFO] Chart.yaml: icon is recommended"
    ]


def test_every_flag_can_be_set() -> None:
    """``config`` in the schema has exactly the exporter's flags, but for CHART_OWNS."""
    config = json.loads((CHART / "values.schema.json").read_text())["properties"]["config"]
    assert not config["additionalProperties"]
    assert set(config["properties"]) == {setting.flag for setting in SETTINGS} - CHART_OWNS
    assert config["properties"]["approval.policy"]["enum"] == list(BUILT_IN)


def paths_of(values: dict[str, Any], schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yield the path of each value, such as ``image.tag``, and compare each level with the schema
    on the way.
    """
    is_one_value = path in {"config", "approvalPolicy", "alertsValues"}
    if "properties" not in schema or is_one_value:
        yield path
        return
    assert schema["additionalProperties"] is False, path
    of_helm = {"global"}
    assert set(values) == set(schema["properties"]) - of_helm, path
    for key, below in values.items():
        yield from paths_of(below, schema["properties"][key], f"{path}.{key}".lstrip("."))


def test_schema_and_values_name_the_same() -> None:
    """On all levels, schema and values have the same keys, and the README has the path of each
    value.
    """
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    table = set(re.findall(r"^\| `([\w.]+)` \|", (CHART / "README.md").read_text(), re.MULTILINE))
    assert table == set(paths_of(values, schema))


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("nope=1", "nope"),
        ("image.tagg=1", "tagg"),
        ("port=80", "port"),
        ("port=ten", "port"),
        ("hostNetwork=maybe", "hostNetwork"),
        ("journal.type=disk", "journal.type"),
        ("image.digest=sha256:1", "image.digest"),
        (r"config.poll\.intervall=1s", "poll.intervall"),
        (r"config.poll\.interval=1", "poll.interval"),
        (r"config.web\.listen-address=:1", "web.listen-address"),
        (r"config.instance\.name=vm", "instance.name"),
        (r"config.log\.level=INFO", "log.level"),
        ("podMonitor.interval=5", "podMonitor.interval"),
        (r"config.poll\.interval=1y", "poll.interval"),
        (r"podLabels.app\.kubernetes\.io/name=x", "podLabels"),
        ("web.tls=true", "web.tls"),
        (r"config.imds\.endpoint=discover", "imds.endpoint"),
        ("approvalPolicy.rules=", "approvalPolicy.rules"),
    ],
)
def test_wrong_values_are_refused(setting: str, said: str) -> None:
    """A misspelled or invalid value is refused by its name, before anything is rendered."""
    done = helm("template", "events", str(CHART), "--set", setting)
    assert done.returncode != 0
    assert done.stdout == "", "nothing is rendered"
    # Helm writes web.tls or /web/tls, by version.
    assert [part for part in said.split(".") if part not in done.stderr] == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            "podMonitor.enabled=true,serviceMonitor.enabled=true",
            "podMonitor and serviceMonitor are both enabled",
        ),
        (
            "podMonitor.enabled=true,podMonitor.interval=1s500ms,podMonitor.scrapeTimeout=1600ms",
            "podMonitor.scrapeTimeout: 1600ms is longer than podMonitor.interval, 1s500ms",
        ),
        (
            r"config.poll\.interval=12h1ms",
            "poll.interval: 12h1ms is longer than 12h",
        ),
        (
            r"config.imds\.timeout=61m",
            "imds.timeout: 61m is longer than 1h",
        ),
        (
            "alertsValues.severites.Preempt=page",
            "alertsValues has severites, which is no setting of the rules: there are",
        ),
        (
            "alertsValues.severities.Prempt=page",
            "alertsValues names Prempt, which is no alert: there are",
        ),
        (
            "alertsValues.severities.critical=1",
            r"severities.critical: Invalid type\. Expected: string|got number, want string",
        ),
        (
            r"alertsValues.maintenance\.within={cluster}",
            "cannot change maintenance.within .* export the chart",
        ),
        (
            r"alertsValues.scrape\.interval=60s",
            "cannot change scrape.interval .* export the chart",
        ),
        (
            r"alertsValues.labels\.keep={team},alertsValues.labels\.add.team=web",
            "labels.keep and labels.add both have team",
        ),
        (
            r"alertsValues.labels\.keep={event_id}",
            "label event_id, which the rules set themselves",
        ),
        (
            "prometheusRule.additionalRuleLabels.vm_name=web",
            "label vm_name, which the rules set themselves",
        ),
        (
            "alertsValues.severities.info=critical",
            "severities gives critical and info the word critical",
        ),
        ("alertsValues.job=", "job is empty"),
    ],
)
def test_values_that_cannot_work_are_refused(settings: str, said: str) -> None:
    """Values that would scrape a pod twice, that the exporter would refuse, or that the chart's
    rules cannot follow are refused by their name. ``said`` is a regular expression.
    """
    done = helm(
        "template", "events", str(CHART), "--set", f"prometheusRule.enabled=true,{settings}"
    )
    assert done.returncode != 0
    assert re.search(said, done.stderr)


def test_pushed_alerts_have_the_settings_of_the_rules() -> None:
    """With the chart's rules, the exporter reads a file of the ConfigMap that has the settings of
    these rules and their address of runbooks, so that it pushes the same alerts.
    """
    url = r"config.alertmanager\.url=http://alertmanager.monitoring:9093"
    own = "prometheusRule.enabled=true,prometheusRule.runbooksUrl=https://runbooks.example.org/"
    done = helm(
        "template",
        "events",
        str(CHART),
        "--show-only",
        "templates/configmap.yaml",
        "--set",
        f"{url},{own}",
    )
    data = yaml.safe_load(done.stdout)["data"]
    settings = yaml.safe_load(
        (ROOT / "alerts" / "generated" / "exporter" / "values.yaml").read_text()
    )
    # The values have it with a slash at the end, which the chart takes away.
    settings["runbooks.url"] = "https://runbooks.example.org"
    assert yaml.safe_load(data["alerts-values.yaml"]) == settings
    assert yaml.safe_load(data["config.yaml"])["alerts.values"].endswith(
        "/config/alerts-values.yaml"
    )


def test_settings_of_the_rules_are_values(tmp_path: Path) -> None:
    """With settings of the rules among the values, the chart has the rules that the generator makes
    of these settings. The exporters get the same settings, so that they push the same alerts.
    """
    chosen = {
        "job": "azure",
        "alerts.disabled": ["Freeze", "VmNotBack"],
        "severities": {
            "critical": "sev1",
            "warning": "sev2",
            "info": "sev3",
            "Preempt": "sev1",
            "AzureScheduledEventReboot": "P1",
        },
        "labels.keep": ["team", "env"],
        "dashboards.url": "https://grafana.example.org/d",
    }
    values = {
        "alertsValues": chosen,
        "prometheusRule": {"enabled": True, "additionalRuleLabels": {"cloud": "azure"}},
    }
    # The generator has a setting for what the values call additionalRuleLabels.
    of_generator = tmp_path / "of-generator.yaml"
    of_generator.write_text(yaml.safe_dump({**chosen, "labels.add": {"cloud": "azure"}}))
    settings = load(of_generator)
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    manifests = rendered(tmp_path / "values.yaml")
    expected = yaml.safe_load(GENERATED["prometheus/prometheus-rules.yml"](settings))
    assert only(manifests, "PrometheusRule")["spec"] == expected
    of_exporters = tmp_path / "of-exporters.yaml"
    of_exporters.write_text(only(manifests, "ConfigMap")["data"]["alerts-values.yaml"])
    assert pushed_alerts(load(of_exporters)) == pushed_alerts(settings)


def test_service_monitor_and_names() -> None:
    """A ServiceMonitor finds the pods by a headless Service, and scrapes as the PodMonitor; names
    can be overridden.
    """
    found = {}
    for kind in ("podMonitor", "serviceMonitor"):
        flags = f"{kind}.enabled=true,nameOverride=events"
        done = helm("template", "x", str(CHART), "--set", flags)
        made = {each["kind"]: each for each in yaml.safe_load_all(done.stdout) if each}
        found[kind] = made
        assert made["DaemonSet"]["metadata"]["name"] == "x-events"
    service = found["serviceMonitor"]["Service"]
    monitor = found["serviceMonitor"]["ServiceMonitor"]
    assert service["spec"]["clusterIP"] == "None"
    labels = found["serviceMonitor"]["DaemonSet"]["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert (
        monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    )
    assert (
        monitor["spec"]["endpoints"]
        == found["podMonitor"]["PodMonitor"]["spec"]["podMetricsEndpoints"]
    )


def test_what_the_chart_sets_can_be_replaced(tmp_path: Path) -> None:
    """Labels, relabelings and security contexts of the values are added to those of the chart, and
    take precedence over them.
    """
    values = {
        "podLabels": {"team": "search", "app.kubernetes.io/version": "own"},
        "podSecurityContext": {"runAsUser": None, "supplementalGroups": [7]},
        "securityContext": {"privileged": False},
        "podMonitor": {
            "enabled": True,
            "relabelings": [{"targetLabel": "cluster", "replacement": "production"}],
        },
    }
    path = tmp_path / "values.yaml"
    path.write_text(yaml.safe_dump(values))
    manifests = rendered(path)
    daemon_set = only(manifests, "DaemonSet")["spec"]
    labels = daemon_set["template"]["metadata"]["labels"]
    assert daemon_set["selector"]["matchLabels"].items() <= labels.items()
    assert labels["team"] == "search"
    assert labels["app.kubernetes.io/version"] == "own"
    context = pod(manifests)["securityContext"]
    assert context["runAsUser"] is None
    assert context["supplementalGroups"] == [7]
    assert context["runAsNonRoot"]
    assert container(manifests)["securityContext"]["privileged"] is False
    assert container(manifests)["securityContext"]["readOnlyRootFilesystem"]
    (endpoint,) = only(manifests, "PodMonitor")["spec"]["podMetricsEndpoints"]
    targets = [each["targetLabel"] for each in endpoint["relabelings"]]
    assert targets == ["job", "node", "cluster"]


@pytest.mark.parametrize(("flag", "longest"), [("poll.interval", "12h"), ("imds.timeout", "1h")])
def test_longest_durations_are_those_of_the_exporter(flag: str, longest: str) -> None:
    """The longest duration that the chart takes is the longest that the exporter takes."""
    name = flag.replace(".", "\\.")
    assert helm("template", "x", str(CHART), "--set", f"config.{name}={longest}").returncode == 0
    (setting,) = (each for each in SETTINGS if each.flag == flag)
    assert setting.parse(longest) > 0
    with pytest.raises(ValueError, match=longest):
        setting.parse(f"{longest}1ms")


@pytest.mark.parametrize(("label", "value"), [("n", "x1"), ("Y", "x1"), ("week", "08")])
def test_kubernetes_reads_exported_labels_as_they_are(
    label: str, value: str, tmp_path: Path
) -> None:
    """Helm and kubectl read YAML 1.1, in which a plain ``n`` is false, and ``08`` as a number.

    The rules of the chart, and those for kubectl, have the label that exporters push, and no other.
    """
    assert main(["assets", "export", str(tmp_path), "--set", f"labels.add.{label}={value}"]) == 0
    chart = tmp_path / "helm" / CHART.name
    # Helm's fromYaml reads a file as kubectl does.
    for_kubectl = tmp_path / "alerts" / "kubernetes" / "prometheus-rule.yaml"
    for_kubectl.rename(chart / "files" / "rule.yaml")
    reading = '{{ .Files.Get "files/rule.yaml" | fromYaml | toYaml }}'
    (chart / "templates" / "rule.yaml").write_text(reading)
    done = helm("template", "events", str(chart), "--set", "prometheusRule.enabled=true")
    assert done.returncode == 0, done.stderr
    every = [each for each in yaml.safe_load_all(done.stdout) if each]
    made = [each["spec"]["groups"] for each in every if each["kind"] == "PrometheusRule"]
    assert len(made) == 2
    of_the_rules = ("severity", "component")
    for groups in made:
        rules = [rule for group in groups for rule in group["rules"] if "alert" in rule]
        assert {rule["labels"].get(label) for rule in rules} == {value}
        assert {name for rule in rules for name in rule["labels"]} == {label, *of_the_rules}


def test_words_of_an_exported_chart_can_be_changed(tmp_path: Path) -> None:
    """A chart that was exported with another word for a severity has this word in its rules. Its
    values can change the word again.
    """
    assert main(["assets", "export", str(tmp_path), "--set", "severities.critical=sev1"]) == 0
    chart = tmp_path / "helm" / CHART.name
    of_the_export = ""
    of_the_values = ",alertsValues.severities.critical=P1"
    for more, word_for_critical in ((of_the_export, "sev1"), (of_the_values, "P1")):
        values = f"prometheusRule.enabled=true{more}"
        done = helm("template", "events", str(chart), "--set", values)
        assert done.returncode == 0, done.stderr
        every = [each for each in yaml.safe_load_all(done.stdout) if each]
        (made,) = (each for each in every if each["kind"] == "PrometheusRule")
        rules = [rule for group in made["spec"]["groups"] for rule in group["rules"]]
        words = {rule["labels"]["severity"] for rule in rules if "alert" in rule}
        assert words == {word_for_critical, "warning", "info"}
