"""The second query of Grafana's alert rules, which puts the names of VMs into notifications."""

from pathlib import Path
from typing import Any

import yaml

from azure_scheduled_events_exporter.alerts.rule import PREFIX
from support.paths import ROOT
from support.stories.shipped_rules import shipped_rules
from support.stories.story import Story, hit, member, metric, play, scraped


def test_names_for_grafana(tmp_path: Path) -> None:
    """The second query of a Grafana rule adds the names of VMs to the labels of each alert, and is
    never empty, as Grafana would then resolve the rule.
    """
    # An exporter of a VM with one event, whose journal is not on disk: series as promtool writes
    # them, with 200 equal samples. The impact begins at 600 s.
    rows = (
        *scraped("a", "1x200"),
        *hit("a", "1x200", 600),
        member("a", "1x200"),
        metric("journal_up", "a", "0x200"),
    )
    second_queries = {rule["title"]: _second_query(rule) for rule in _grafana_rules()}
    place = 'job="azure-scheduled-events",instance="a:10169",resource_group="rg",vm_name="a"'
    of_event = '{event_id="E",event_type="Reboot",resource_group="rg",resources="a"}'
    # By alert, the labels that the query adds, and its value, which is that of the alert: 0 for an
    # event whose time no exporter shows, and for a journal that was on disk at no time.
    expected = {
        "Reboot": (of_event, 0),
        "JournalNotOnDisk": (f"{{{place}}}", 0),
        "Freeze": ("{}", 0),  # no such event: a row without labels, so that the query is not empty
    }
    checks = [
        {
            "expr": second_queries[PREFIX + name],
            "eval_time": "20m",
            "exp_samples": [{"labels": labels, "value": value}],
        }
        for name, (labels, value) in expected.items()
    ]
    story = {**Story("names", rows, {}).to_test(), "promql_expr_test": checks}
    complaints = play(tmp_path, shipped_rules(), [story])
    assert complaints == ""


def _grafana_rules() -> list[dict[str, Any]]:
    path = ROOT / "alerts" / "generated" / "grafana" / "alert-rules.yaml"
    groups = yaml.safe_load(path.read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def _second_query(rule: dict[str, Any]) -> str:
    """Return the query that adds names, or "" if the rule has none.

    It is step D of a rule. Step A is the first query, B and C work on its values.
    """
    steps = {each["refId"]: each["model"] for each in rule["data"]}
    return str(steps["D"]["expr"]) if "D" in steps else ""
