"""The generated files: what Prometheus, Alertmanager, Grafana and Kubernetes are given, and the
runbooks beside it.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from azure_scheduled_events_exporter.alerts import Settings, render, resolve
from azure_scheduled_events_exporter.alerts.formats.prometheus import annotations
from azure_scheduled_events_exporter.alerts.groups import alerts, groups
from azure_scheduled_events_exporter.alerts.rule import Alert
from azure_scheduled_events_exporter.commands.cli import main
from azure_scheduled_events_exporter.doctor import chain
from azure_scheduled_events_exporter.metrics.table import SPECS
from azure_scheduled_events_exporter.times import parse_duration
from support.deployment.operator_types import validator
from support.paths import ROOT
from support.programs import debian

GENERATED = ROOT / "alerts" / "generated"
RUNBOOKS = ROOT / "docs" / "runbooks"
EVERY = alerts(Settings())
SECTIONS = ["Impact", "Diagnosis", "Mitigation", "How it ends"]
LONGEST_UID = 40  # characters: Grafana's limit
LONGEST_NAME = 40  # characters
ONE_PAGE = 350  # words
SERIES = re.compile(r"azure_scheduled_events[:_][a-z_:]+")
"""Names of metrics of the exporter, and of recordings, which have a colon."""
LABELS = {label for spec in SPECS.values() for label in spec.labels} | {"job", "instance"}
"""The labels of the exporter's metrics, and those of every target."""
UNFINISHED = re.compile(
    r"\b(TO[D]O|FIX[M]E|TB[DC]|X{3}|lorem|coming soon|to be written|work in progress)\b",
    re.IGNORECASE,
)


def load(name: str) -> Any:
    """Return a generated file's data."""
    return yaml.safe_load((GENERATED / name).read_text())


def known_series() -> set[str]:
    """Return the names of the exporter's metrics, and of what the rules record."""
    recorded = {rule.record for group in groups(Settings()) for rule in group.recordings}
    return {spec.full_name for spec in SPECS.values()} | recorded


def tool(*arguments: str) -> str:
    """Run a tool that must succeed; return its output."""
    program, *rest = arguments
    done = subprocess.run(
        [debian(program), *rest], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_accepts_rules() -> None:
    """Prometheus takes the rules, and promtool finds nothing to remark."""
    rules = GENERATED / "prometheus" / "prometheus-rules.yml"
    assert "SUCCESS" in tool("promtool", "check", "rules", "--lint-fatal", "--lint=all", str(rules))


def test_amtool_accepts_configuration() -> None:
    """Alertmanager takes its configuration and templates."""
    found = tool("amtool", "check-config", str(GENERATED / "alertmanager" / "alertmanager.yml"))
    assert "1 templates" in found
    assert "FAILED" not in found


def test_vmalert_accepts_rules() -> None:
    """Debian's vmalert, 1.79, which docs/alerts.md names as the oldest, takes the rule file of
    Prometheus.
    """
    done = subprocess.run(
        [
            debian("vmalert"),
            "-dryRun",
            f"-rule={GENERATED / 'prometheus' / 'prometheus-rules.yml'}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("alert", EVERY, ids=lambda alert: alert.name)
def test_conventions(alert: Alert) -> None:
    """An alert has a name of capitalized words and a known severity. Its texts are sentences, whose
    templates read labels of metrics only. It has no other annotations but links.

    A mistyped fact in a text of the table, such as ``{wms}``, becomes the template of a label.
    """
    assert re.fullmatch(r"AzureScheduledEvent([A-Z][a-z]+)+", alert.name)
    assert len(alert.name) <= LONGEST_NAME
    assert alert.severity in {"critical", "warning", "info"}
    texts = annotations(alert, Settings())
    assert all(texts[name].endswith(".") for name in ("summary", "description"))
    labels_read = re.findall(r"\$labels\.(\w+)", " ".join(texts.values()))
    assert set(labels_read) <= LABELS
    of_some_alerts = {"dashboard_url"}
    assert texts.keys() - of_some_alerts == {"summary", "description", "runbook_url"}


def test_rules_name_what_exists() -> None:
    """Every series in a rule is a metric of the exporter, one of the series of a histogram, or
    recorded by a rule.
    """
    expressions = [rule.expression for group in groups(Settings()) for rule in group.rules]
    used = set(re.findall(SERIES, " ".join(expressions)))
    histograms = {re.sub("_(sum|count|bucket)$", "", name) for name in used - known_series()}
    assert histograms <= known_series()


def test_operator_gets_the_same_rules() -> None:
    """The PrometheusRule is what the operator's own types say, with the rules of the rule file."""
    resource = load("kubernetes/prometheus-rule.yaml")
    assert (resource["apiVersion"], resource["kind"]) == (
        "monitoring.coreos.com/v1",
        "PrometheusRule",
    )
    validator("PrometheusRule").validate(resource)
    assert resource["spec"] == load("prometheus/prometheus-rules.yml")


def test_values_for_exporters() -> None:
    """An exporter that pushes alerts takes the exported values file as it is."""
    values = str(GENERATED / "exporter" / "values.yaml")
    assert main(["check-config", "--alerts.values", values]) == 0


def test_grafana_rules() -> None:
    """Grafana gets every alert in the form of its file provisioning. Its texts have no dollar sign,
    which Grafana would expand, and no ``query``, which Grafana's templates cannot do.
    """
    found = load("grafana/alert-rules.yaml")
    assert found["apiVersion"] == 1
    rules = {rule["title"]: rule for group in found["groups"] for rule in group["rules"]}
    assert rules.keys() == {alert.name for alert in EVERY}
    assert len({rule["uid"] for rule in rules.values()}) == len(rules)
    for group in found["groups"]:
        assert group.keys() == {"orgId", "name", "folder", "interval", "rules"}
        assert parse_duration(group["interval"]) % 10 == 0, "Grafana evaluates every 10 s at most"
    for alert in EVERY:
        rule = rules[alert.name]
        assert len(rule["uid"]) <= LONGEST_UID
        assert not re.search(r"\$|\bquery\b", json.dumps(rule["annotations"])), alert.name
        assert rule["labels"]["severity"] == alert.severity
        assert rule["noDataState"] == "OK"
        # A Prometheus that does not answer neither pages nor resolves.
        assert rule["execErrState"] == "KeepLast"


@pytest.mark.parametrize("alert", EVERY, ids=lambda alert: alert.name)
def test_steps_of_a_grafana_rule(alert: Alert) -> None:
    """A rule of Grafana fires while the alert's expression has a value, whatever the value is.

    It has the steps A (the expression), B (its last value) and C (whether there is one, which
    decides). D and E add the names of VMs, and are there only if the summary has these.
    """
    (rule,) = [
        rule
        for group in load("grafana/alert-rules.yaml")["groups"]
        for rule in group["rules"]
        if rule["title"] == alert.name
    ]
    query, reduced, decided, *names = rule["data"]
    assert query["model"]["expr"] == alert.expression
    assert query["datasourceUid"] == "prometheus"
    assert [each["model"]["type"] for each in (reduced, decided)] == ["reduce", "threshold"]
    any_value = {"params": [-1e15], "type": "gt"}
    assert decided["model"]["conditions"][0]["evaluator"] == any_value
    assert rule["condition"] == decided["refId"] == "C"
    assert bool(names) == bool(re.search("{(vms|vm|paused_vm|hook_vm)}", alert.summary))
    if names:
        query_of_names, reduced_names = names
        assert [query_of_names["refId"], reduced_names["refId"]] == ["D", "E"]
        assert reduced_names["model"]["expression"] == "D"


def notification(
    tmp_path: Path, part: str, status: str, labels: dict[str, str], *summaries: str
) -> str:
    """Return a part of a notification, ``subject`` or ``text``, as Alertmanager renders it.

    It has an alert for each of ``summaries``; all have the same status and labels.
    """
    alerts = [
        {
            "status": status,
            "labels": labels,
            "annotations": {"summary": summary, "description": "Drain it."},
            "startsAt": "2026-11-28T11:52:52.123Z",
            "endsAt": "2026-11-28T12:00:00Z",
        }
        for summary in summaries
    ]
    data = {
        "receiver": "pager",
        "status": status,
        "alerts": alerts,
        "groupLabels": {},
        "commonLabels": labels,
        "commonAnnotations": alerts[0]["annotations"] if len(alerts) == 1 else {},
        "externalURL": "http://alerts",
    }
    (tmp_path / "data.json").write_text(json.dumps(data))
    templates = str(GENERATED / "alertmanager" / "templates" / "*.tmpl")
    text = f'{{{{ template "azure_scheduled_events.{part}" . }}}}'
    arguments = (
        "--template.glob",
        templates,
        "--template.text",
        text,
        "--template.data",
        str(tmp_path / "data.json"),
    )
    return tool("amtool", "template", "render", *arguments).strip()


@pytest.mark.parametrize(
    ("status", "labels", "summaries", "expected"),
    [
        ("firing", {}, ["Azure evicts vmss_0."], "Azure evicts vmss_0."),
        ("resolved", {}, ["Azure reboots a."], "Resolved: Azure reboots a."),
        ("firing", {"drill": "true"}, ["Azure reboots a."], "DRILL Azure reboots a."),
        ("firing", {"drill": "true"}, ["DRILL: Azure reboots a."], "DRILL: Azure reboots a."),
        ("firing", {}, ["a is down.", "b is down."], "a is down. (2 alerts in this message)"),
        (
            "resolved",
            {},
            ["a is down.", "b is."],
            "Resolved: a is down. (2 alerts in this message)",
        ),
    ],
)
def test_title(
    tmp_path: Path, status: str, labels: dict[str, str], summaries: list[str], expected: str
) -> None:
    """A notification's title is the summary, which names the VMs; of several alerts, the first."""
    assert notification(tmp_path, "subject", status, labels, *summaries) == expected


def test_text(tmp_path: Path) -> None:
    """The text says what to do while an alert fires, its cluster, its event, and since when."""
    labels = {"cluster": "production", "event_id": "E"}
    firing = notification(tmp_path, "text", "firing", labels, "a is down.")
    since = "Cluster: production\nEvent: E\nAlert since: 2026-11-28 11:52:52 UTC"
    assert firing == f"a is down.\nDrain it.\n{since}"
    resolved = notification(tmp_path, "text", "resolved", labels, "a is down.")
    at = "Resolved at: 2026-11-28 12:00:00 UTC"
    assert resolved == f"Resolved: a is down.\n{since}\n{at}"


def test_a_way_to_notify_without_a_setting_is_left_out() -> None:
    """With all settings of receivers empty, the receivers exist and notify nobody. As shipped, each
    way to notify has a placeholder in its setting, and is configured.
    """
    empty = dict.fromkeys(
        (
            "pager.pagerduty-key",
            "pager.opsgenie-key",
            "pager.webhook-url",
            "chat.slack-url",
            "tickets.webhook-url",
            "tickets.email-to",
        ),
        "",
    )
    config = yaml.safe_load(render(resolve(empty))["alertmanager/alertmanager.yml"])
    assert config["receivers"] == [{"name": "pager"}, {"name": "tickets"}, {"name": "show"}]
    full = yaml.safe_load(render(Settings())["alertmanager/alertmanager.yml"])
    assert {key for receiver in full["receivers"] for key in receiver} == {
        "name",
        "pagerduty_configs",
        "opsgenie_configs",
        "webhook_configs",
        "slack_configs",
        "email_configs",
    }


def test_every_alert_has_a_runbook() -> None:
    """An alert's runbook exists, and there is no runbook without its alert."""
    assert {page.stem for page in RUNBOOKS.glob("*.md")} - {"README"} == {
        alert.name for alert in EVERY
    }


@pytest.mark.parametrize("alert", EVERY, ids=lambda alert: alert.name)
def test_runbook(alert: Alert) -> None:
    """A runbook says first what happened and what to do, and has all its sections, none of which
    is empty, on one page.
    """
    text = (RUNBOOKS / f"{alert.name}.md").read_text()
    head, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    title, happened, advice, _severity = (line for line in head.splitlines() if line)
    assert title == f"# {alert.name}"
    assert happened == f"**What happened:** {alert.meaning}"
    # A notification refers to the runbook; the runbook need not refer to itself.
    shown = re.sub(r" \(the runbook [^)]+\)", "", alert.advice)
    assert advice == f"**What to do:** {shown}"
    assert [section.partition("\n")[0] for section in sections] == SECTIONS
    least_words = 5
    assert all(len(section.partition("\n")[2].split()) >= least_words for section in sections)
    assert len(text.split()) <= ONE_PAGE
    assert not UNFINISHED.search(text)


def test_the_runbook_has_the_command() -> None:
    """A runbook has the command that approves the event, if its alert sends the reader there for
    it.
    """
    sent = re.compile(r"approve [^.]+ \(the runbook has the command\)")
    texts = {alert.name: annotations(alert, Settings())["description"] for alert in EVERY}
    runbooks = {
        name: (RUNBOOKS / f"{name}.md").read_text()
        for name, text in texts.items()
        if sent.search(text)
    }
    assert runbooks
    command = "`sudo azure-scheduled-events-exporter approve EVENT-ID`"
    assert [name for name, runbook in runbooks.items() if command not in runbook] == []


def test_runbooks_name_what_exists() -> None:
    """Series, settings of the alerts, commands and headings of ``doctor`` in the runbooks are
    really there.
    """
    text = "\n".join(page.read_text() for page in RUNBOOKS.glob("*.md"))
    headings = re.findall(r"Under the heading \*([^*]+)\*", text)
    assert headings
    # The module of the chain has each heading as the first argument of a call or of a tuple.
    source = Path(chain.__file__).read_text()
    assert [heading for heading in headings if f'("{heading}", ' not in source] == []
    assert set(re.findall(SERIES, text)) - known_series() == set()
    settings_named = set(re.findall(r"`([a-z][a-z-]*\.[a-z-]+)`", text))
    assert settings_named - Settings().values.keys() == set()
    commands = re.findall(r"(?m)^\$ (?:sudo )?azure-scheduled-events-exporter ([a-z-]+)", text)
    for command in set(commands):
        assert main([command, "--help"]) == 0


def test_runbook_queries_parse(tmp_path: Path) -> None:
    """Prometheus understands every query of every runbook: promtool checks them as rules."""
    of_runbooks = []
    for alert in EVERY:
        blocks = re.findall(
            r"```promql\n(.*?)```", (RUNBOOKS / f"{alert.name}.md").read_text(), flags=re.DOTALL
        )
        queries = [line for block in blocks for line in block.splitlines() if line]
        assert queries, alert.name
        rules = [
            {"record": f"query:{alert.name}:{number}", "expr": query}
            for number, query in enumerate(queries)
        ]
        of_runbooks.append({"name": alert.name, "rules": rules})
    (tmp_path / "queries.yml").write_text(yaml.safe_dump({"groups": of_runbooks}))
    assert "SUCCESS" in tool("promtool", "check", "rules", str(tmp_path / "queries.yml"))
