"""Random fleets against a short oracle, and changes of the rules with which the stories must
fail.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from azure_scheduled_events_exporter.alerts import GENERATED, Settings
from azure_scheduled_events_exporter.alerts.rule import PREFIX
from support.stories.events import EVENTS, PAUSES
from support.stories.exporters import EXPORTERS, FLAKY
from support.stories.scale_sets import SCALE_SETS
from support.stories.story import INTERVAL, Story, play
from support.stories.vms import IMPACTS, VMS
from support.stories.witnesses import WITNESSES
from trials.monitoring.fleets import fleet
from trials.monitoring.merged import notifications


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Play as many fleets as ``--fleets`` says; another seed makes others."""
    if "number" in metafunc.fixturenames:
        metafunc.parametrize("number", range(metafunc.config.getoption("--fleets")))


def test_random_fleets(number: int, tmp_path: Path, seed: int) -> None:
    """Each alert fires exactly when the oracle says."""
    found = fleet(f"{seed}/{number}")
    rules = _rules()
    checked = {f"{PREFIX}{check.alert}" for check in found.checks}
    # The alerts that no check needs would take half of the time; recordings have no name of an
    # alert.
    for group in rules["groups"]:
        group["rules"] = [rule for rule in group["rules"] if rule.get("alert") in {None, *checked}]
    tests = [
        {
            "expr": (
                f'count(ALERTS{{alertname="{PREFIX}{check.alert}",alertstate="firing",'
                f"{check.label}}}) or vector(0)"
            ),
            "eval_time": f"{check.step * INTERVAL}s",
            "exp_samples": [{"labels": "{}", "value": check.count}],
        }
        for check in found.checks
    ]
    story = {**found.story.to_test(), "promql_expr_test": tests}
    assert play(tmp_path, rules, [story]) == "", found.story.name


def test_pushes_add_no_page(number: int, seed: int) -> None:
    """Beside exporters that push, each alert is paged and resolved as often as by rules alone."""
    random.seed(f"{seed}/{number}")  # for the pauses between pushes, which the exporter draws
    found = fleet(f"{seed}/{number}")
    by_rules_alone = notifications(found, random.Random(number), pushes=False)
    with_pushes = notifications(found, random.Random(number), pushes=True)
    assert with_pushes == by_rules_alone


@dataclass(frozen=True)
class Change:
    """A text in the rules' expressions, what replaces it, and the stories of which one must fail
    then.
    """

    stories: Sequence[Story]
    before: str
    after: str


_NONE_SAW_IT_COMPLETE = (
    " unless on (event_id)"
    ' azure_scheduled_events_event_ended_timestamp_seconds{outcome="completed"}'
)

CHANGES = {
    "an alert is not held": Change(WITNESSES, "> time() - 1800)", "> time())"),
    "an end is not known": Change(
        EVENTS, "(azure_scheduled_events:event_ended < time() - 180)", "up"
    ),
    "an end is forgotten": Change(
        EVENTS,
        "last_over_time(azure_scheduled_events:event_ended[5m])",
        "(vector(1) > 2)",
    ),
    "any end is believed": Change(
        WITNESSES,
        "max by (event_id) (max_over_time(azure_scheduled_events:event[1h]))",
        "max by (event_id) (max_over_time(azure_scheduled_events:event[1h]) * 0)",
    ),
    "what is days ahead is held": Change(
        EVENTS,
        "unless on (event_id, event_type, kind) azure_scheduled_events:event_outdated",
        "",
    ),
    "peers do not speak for a VM": Change(
        WITNESSES,
        "or azure_scheduled_events_peer_impact_timestamp_seconds",
        "",
    ),
    "a document without the event is a return": Change(
        WITNESSES,
        (
            "unless on (event_id, vm_name)"
            " last_over_time(azure_scheduled_events_vm_impact_timestamp_seconds[3m])"
        ),
        "",
    ),
    "what a VM answered last is its return": Change(
        WITNESSES,
        "last_over_time(azure_scheduled_events:vm_hit[1h]) < time() - 180",
        "last_over_time(azure_scheduled_events:vm_hit[1h]) < time()",
    ),
    "an end before the announced time is a cancellation": Change(
        VMS, f'{{outcome="cancelled"}}{_NONE_SAW_IT_COMPLETE}', ""
    ),
    "one exporter that missed the start can cancel": Change(VMS, _NONE_SAW_IT_COMPLETE, ""),
    "an old return outlasts a new impact": Change(
        VMS,
        "or last_over_time(azure_scheduled_events:vm_hit[1h]) < time() - 180"
        " and last_over_time(azure_scheduled_events:vm_back[45s])",
        "or last_over_time(azure_scheduled_events:vm_back[45s])"
        " and last_over_time(azure_scheduled_events:vm_hit[1h])",
    ),
    "a VM that is missing is forgotten": Change(
        VMS,
        "or last_over_time(azure_scheduled_events:vm_missing[5m])",
        "",
    ),
    "one event is half a set": Change(
        SCALE_SETS, "> max without (event_id)", "> 0 * max without (event_id)"
    ),
    "a VM answered before its impact": Change(
        VMS + SCALE_SETS, "[30m]) + 120 <= on", "[30m]) - 600 <= on"
    ),
    "two types are two events": Change(
        SCALE_SETS, "group without (event_type)", "group without (nothing)"
    ),
    "a VM without an exporter counts": Change(
        SCALE_SETS,
        (
            "\nand on (subscription_id, resource_group, scale_set, vm_name)"
            " last_over_time(azure_scheduled_events:vm[1h])\n"
        ),
        "\n",
    ),
    "failed scrapes end the ticket about a pause": Change(PAUSES, "[10m])", "[15s])"),
    "a VM that is scraped seldom is there": Change(
        VMS,
        "last_over_time(azure_scheduled_events:blind[45s])",
        "last_over_time(up[45s])",
    ),
    "a request counts as an event": Change(
        SCALE_SETS,
        (
            " unless on (event_id)"
            ' last_over_time(azure_scheduled_events:event{kind="requested"}[30m])))'
        ),
        "))",
    ),
    "a restarted exporter pages again": Change(
        EVENTS,
        'unless on (event_id) last_over_time(azure_scheduled_events:event{kind="announced"}[1h])',
        "",
    ),
    "a VM that is away has no exporter": Change(
        EXPORTERS,
        "unless on () azure_scheduled_events:vm_away",
        "",
    ),
    "a VM that is away has an exporter that is down": Change(
        IMPACTS,
        "azure_scheduled_events:vm_away or (azure",
        "(azure_scheduled_events:vm_away < 0) or (azure",
    ),
    "scrapes are not counted": Change(FLAKY, ")[3m:15s]) < 0.8", ")[15s:15s]) < 0.8"),
    "approvals by others are refused": Change(
        EXPORTERS,
        "unless on (event_id) azure_scheduled_events_event_started_timestamp_seconds\n)",
        ")",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_stories_can_fail(change: str, tmp_path: Path) -> None:
    """With a change that loses a promise, a story fails."""
    loss = CHANGES[change]
    rules = _rules()
    changed = 0
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        changed += loss.before in rule["expr"]
        rule["expr"] = rule["expr"].replace(loss.before, loss.after)
    assert changed, "the rules have the text that is changed"
    assert "FAILED" in play(tmp_path, rules, [story.to_test() for story in loss.stories])


def _rules() -> Any:
    content = yaml.safe_load(GENERATED["prometheus/prometheus-rules.yml"](Settings()))
    for rule in (rule for group in content["groups"] for rule in group["rules"]):
        rule.pop("annotations", None)
    return content
