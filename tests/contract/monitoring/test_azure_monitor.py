"""What Azure Monitor is given: rule groups that its limits allow, and that see what is over between
two evaluations.
"""

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from azure_scheduled_events_exporter.alerts import Settings
from azure_scheduled_events_exporter.alerts.groups import groups
from azure_scheduled_events_exporter.alerts.rule import Alert
from azure_scheduled_events_exporter.commands.cli import main
from azure_scheduled_events_exporter.times import parse_duration
from support.paths import ROOT
from support.programs import debian

FOLDER = ROOT / "alerts" / "generated" / "azure-monitor"
TEMPLATE = json.loads((FOLDER / "rule-groups.json").read_text())
RULES: list[dict[str, Any]] = [
    rule for group in TEMPLATE["resources"] for rule in group["properties"]["rules"]
]
PARAMETER = re.compile(r"\[parameters\('(\w+)'\)\]")
# Azure's limits of a rule group and of the template that has it.
LONGEST_NAME = 260
MOST_RULES = 20
LARGEST_TEMPLATE = 4 << 20
MOST_ACTIONS = 5


def test_groups() -> None:
    """Groups keep to Azure's limits and refer to declared parameters only. They have every shipped
    rule, in its order, but the alert that only inhibits others: Azure has no inhibitions.
    """
    assert set(PARAMETER.findall(json.dumps(TEMPLATE))) == TEMPLATE["parameters"].keys()
    assert len((FOLDER / "rule-groups.json").read_bytes()) < LARGEST_TEMPLATE
    for group in TEMPLATE["resources"]:
        assert len(group["name"]) <= LONGEST_NAME
        assert group["type"] == "Microsoft.AlertsManagement/prometheusRuleGroups"
        assert re.fullmatch(r"[^:@/#{}%&+*<>?]+", group["name"])
        assert group["properties"].keys() == {"enabled", "interval", "scopes", "rules"}
        assert group["properties"]["interval"] == "PT1M"
        assert group["properties"]["scopes"] == ["[parameters('workspaceId')]"]
        assert len(group["properties"]["rules"]) <= MOST_RULES
    wanted = [
        rule.name if isinstance(rule, Alert) else rule.record
        for each in groups(Settings())
        for rule in each.rules
    ]
    wanted.remove("AzureScheduledEventMaintenance")
    assert [rule.get("alert") or rule["record"] for rule in RULES] == wanted


def test_rules() -> None:
    """Alerts have the fields of Azure's model, and texts without queries, which Azure's templates
    cannot make. Critical pages, warning makes a ticket, and info notifies nobody.
    """
    # Azure's numbers of severities.
    critical = 0
    warning = 2
    info = 3
    action_groups = {
        critical: ["[parameters('actionGroupId')]"],
        warning: ["[parameters('ticketActionGroupId')]"],
        info: [],
    }
    for rule in RULES:
        if "record" in rule:
            assert rule.keys() == {"record", "expression"}
            continue
        fields = {
            "alert",
            "expression",
            "severity",
            "labels",
            "annotations",
            "resolveConfiguration",
            "actions",
        }
        assert rule.keys() - {"for"} == fields
        assert re.fullmatch(r"PT\d+S", rule.get("for", "PT0S"))
        assert len(rule["actions"]) <= MOST_ACTIONS
        notified = [each["actionGroupId"] for each in rule["actions"]]
        assert notified == action_groups[rule["severity"]]
        # A query of a template, or a placeholder such as @NAME@ that nothing has replaced.
        assert not re.search(r"query|@[A-Z]+@", " ".join(rule["annotations"].values()))
        assert not rule["expression"].startswith("["), (
            "ARM would read it as an expression of its own"
        )


def test_recordings_are_found_again() -> None:
    """Where an expression looks back in time for a series that another rule has recorded, it looks
    back for at least two evaluations.
    """
    evaluation = 60.0
    # The recorded series have a colon in their names; [5m] after one says how far to look back.
    recorded_with_window = r"azure_scheduled_events:\w+(?:{[^}]*})?\[(\w+)\]"
    for rule in RULES:
        for window in re.findall(recorded_with_window, rule["expression"]):
            assert parse_duration(window) >= 2 * evaluation, rule.get("record", rule.get("alert"))


def test_short_eviction_is_seen(tmp_path: Path) -> None:
    """An eviction that begins and ends between two evaluations raises its alert."""
    labels = '{event_id="1",event_type="Preempt",kind="announced",instance="vm:10169",job="x"}'
    # Rules are evaluated at 1:00 and at 2:00. The event is seen from 1:10 to 1:30.
    story = {
        "interval": "10s",
        "input_series": [
            {
                "series": f"azure_scheduled_events_event_seen_timestamp_seconds{labels}",
                "values": "_x7 70+10x2 stale",  # every 10 s; each value is its own time
            }
        ],
        "promql_expr_test": [
            {
                "expr": 'count(ALERTS{alertname="AzureScheduledEventPreempt",alertstate="firing"})',
                "eval_time": "120s",
                "exp_samples": [{"labels": "{}", "value": 1}],
            }
        ],
    }
    assert complaints(tmp_path, story) == ""


def test_texts_name_vms(tmp_path: Path) -> None:
    """A summary names the VMs of the event and when it begins, or the VM of an exporter.

    Prometheus stands in for Azure, whose templates cannot query anything. These texts have no
    query, so both fill them in alike.
    """
    event = 'event_id="1",event_type="Reboot",kind="announced",scope="self"'
    target = 'job="azure-scheduled-events",instance="a:10169"'
    metric = "azure_scheduled_events_"
    series = {
        f"{metric}event_seen_timestamp_seconds{{{event},{target}}}": "0+60x20",
        f"{metric}event_impact_timestamp_seconds{{{event},{target}}}": "3600x20",
        f'{metric}event_info{{{event},{target},vms="web_1, web_2",resource_group="shop"}}': "1x20",
        f'{metric}instance_info{{{target},vm_name="web_1",resource_group="shop"}}': "1x20",
        f"{metric}journal_up{{{target}}}": "0x20",
        f"{metric}up{{{target}}}": "1x20",
        f"up{{{target}}}": "1x20",
    }
    summaries = {
        "AzureScheduledEventReboot": (
            "Azure reboots web_1, web_2 (resource group shop) at 1970-01-01 01:00:00 +0000 UTC."
        ),
        "AzureScheduledEventJournalNotOnDisk": (
            "The Scheduled Events exporter of web_1 (resource group shop, a:10169) cannot write its"
            " journal."
        ),
    }
    story = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        # Expecting alerts without texts makes promtool print those that they have.
        "alert_rule_test": [
            {"eval_time": "15m", "alertname": name, "exp_alerts": [{}]} for name in summaries
        ],
    }
    printed = complaints(tmp_path, story)
    for summary in summaries.values():
        assert f'summary="{summary}"' in printed


def complaints(folder: Path, story: Mapping[str, object]) -> str:
    """Return what promtool complains about if the rules, evaluated once a minute, play a story."""
    rules = {"groups": [for_prometheus(each) for each in TEMPLATE["resources"]]}
    (folder / "rules.yml").write_text(yaml.safe_dump(rules))
    suite = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [story]}
    (folder / "story.yml").write_text(yaml.safe_dump(suite))
    done = subprocess.run(
        [debian("promtool"), "test", "rules", str(folder / "story.yml")],
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def for_prometheus(group: dict[str, Any]) -> dict[str, Any]:
    """Return a rule group of Azure in the form that Prometheus reads."""
    rules = []
    for rule in group["properties"]["rules"]:
        same = ("record", "alert", "labels", "annotations")
        translated = {name: rule[name] for name in same if name in rule}
        translated["expr"] = rule["expression"]
        if "for" in rule:  # such as PT90S, which Prometheus writes 90s
            translated["for"] = rule["for"].removeprefix("PT").lower()
        rules.append(translated)
    return {"name": group["name"], "interval": "1m", "rules": rules}


def test_scraping() -> None:
    """The ConfigMap has the name and key that the add-on reads, and one job that finds the
    exporter's pods.
    """
    resource = yaml.safe_load((FOLDER / "ama-metrics-prometheus-config.yaml").read_text())
    assert resource["metadata"] == {
        "name": "ama-metrics-prometheus-config",
        "namespace": "kube-system",
    }
    kubernetes = yaml.safe_load(
        (FOLDER.parent / "prometheus" / "prometheus-kubernetes-sd.yml").read_text()
    )
    content = yaml.safe_load(resource["data"]["prometheus-config"])
    assert content == {"scrape_configs": kubernetes["scrape_configs"]}


def test_remote_write(tmp_path: Path) -> None:
    """The configuration evaluates no rule, and writes to where the page says. It scrapes VMs as the
    example ``prometheus-azure-sd.yml`` does, but finds them by the identity with which it writes.
    """
    config = yaml.safe_load((FOLDER / "prometheus-remote-write.yml").read_text())
    example = FOLDER.parent / "prometheus" / "prometheus-azure-sd.yml"
    assert config.keys() == {"global", "scrape_configs", "remote_write"}
    page = (ROOT / "docs" / "azure-monitor.md").read_text()
    (block,) = re.findall(r"```yaml\n(remote_write:.*?)```", page, re.DOTALL)
    assert yaml.safe_load(block)["remote_write"] == config["remote_write"]
    (target,) = config["remote_write"]
    azure = target["azuread"]
    assert azure.keys() == {"cloud", "managed_identity"}
    assert azure["managed_identity"].keys() == {"client_id"}
    (job,) = config["scrape_configs"]
    (discovery,) = job["azure_sd_configs"]
    assert discovery["client_id"] == azure["managed_identity"]["client_id"]
    without_identity = {key: value for key, value in discovery.items() if key != "client_id"}
    as_in_the_example = {**job, "azure_sd_configs": [without_identity]}
    assert [as_in_the_example] == yaml.safe_load(example.read_text())["scrape_configs"]
    del target["azuread"]  # Prometheus knows it from version 2.45 on; that of Debian is older
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    check = [debian("promtool"), "check", "config", str(tmp_path / "prometheus.yml")]
    subprocess.run(check, check=True, capture_output=True)


@pytest.mark.parametrize(
    "settings",
    [
        (),
        (
            *("--set", "severities.Preempt=P1"),
            *("--set", "alerts.disabled=Freeze"),
            *("--set", "dashboards.url=https://grafana.test/d"),
        ),
    ],
    ids=["defaults", "settings"],
)
def test_export(settings: tuple[str, ...], tmp_path: Path) -> None:
    """`assets export --for azure-monitor` writes the rules, with settings if given, and nothing for
    other systems. With the address of Grafana, none of the placeholder is left.
    """
    assert main(["assets", "export", str(tmp_path), "--for", "azure-monitor", *settings]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"alerts", "dashboards", "runbooks"}
    assert {path.name for path in (tmp_path / "alerts").iterdir()} == {
        "README.md",
        "azure-monitor",
        "values.yaml",
    }
    text = (tmp_path / "alerts" / "azure-monitor" / "rule-groups.json").read_text()
    has_settings = bool(settings)
    assert ('"severity": "P1"' in text) is has_settings
    assert ("AzureScheduledEventFreeze" in text) is not has_settings
    assert ("example.com" in text) is not has_settings


def test_the_page_says_what_the_texts_cannot_say() -> None:
    """Each text that the page quotes from Azure's alerts is a part of a text of the rules, but for
    the end of a time, which only Azure's templates write.
    """
    page = (ROOT / "docs" / "azure-monitor.md").read_text()
    table = page.partition("## What the texts cannot say")[2].partition("\n## ")[0]
    quoted = [
        text
        for row in table.splitlines()
        if row.startswith("| ")
        for text in re.findall("`([^`]+)`", row.rpartition(" | ")[2])
    ]
    texts = " ".join(text for rule in RULES for text in rule.get("annotations", {}).values())
    end_of_a_time = "+0000 UTC"  # which Azure's own templates write
    assert [text for text in quoted if text not in texts] == [end_of_a_time]
