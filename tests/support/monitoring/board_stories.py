"""Stories of the dashboards: samples of series, and what a query of a panel then returns, with promtool."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from alerts import Settings, resolve
from alerts.rules import groups
from alerts.rules.rule import Group, Recording
from alerts.rules.series import APPROVED, INFO, NOT_BEFORE
from support.paths import ROOT

from .promtool import run_tests

JOB = "azure-scheduled-events-exporter"
BOARD = "azure-scheduled-events-board"
TIMES = ("event_seconds_until_not_before", "event_first_seen_timestamp_seconds")
REMEMBERED = tuple(each.name for each in groups(Settings()) if "-board-" not in each.name and any(each.recordings()))
EXPORTERS = tuple(f"{BOARD}-{name}" for name in ("blind", "exporters", "shares"))
EVENT_GROUPS = tuple(f"{BOARD}-{name}" for name in ("events", "approvals", "vms", "event-times", "impacts"))
EVERY_GROUP = (*REMEMBERED, *EVENT_GROUPS, *EXPORTERS)
"""The groups of rules that boards read: what alerts remember, events, exporters, and all of them."""
_JSON = ROOT / "dashboards" / "json"
_EVERYTHING = {"$__range": "1h", "$resource_group": ".*", "$scale_set": ".*"}

Rows = Mapping[str, float]
"""The expected series with their values. Labels are written as in PromQL, without braces."""


@cache
def _board(uid: str) -> dict[str, Any]:
    board: dict[str, Any] = json.loads((_JSON / f"azure-scheduled-events-{uid}.json").read_text("utf-8"))
    return board


def panel(uid: str, title: str, ref: str = "A", variables: Mapping[str, str] | None = None) -> str:
    """Return a query of a dashboard with its variables replaced; all places are selected unless told otherwise."""
    found = next(each for each in _board(uid)["panels"] if each["title"] == title)
    query = next(target["expr"] for target in found["targets"] if target["refId"] == ref)
    return _replaced(query, variables or {})


def mark(name: str) -> str:
    """Return the query of the marks on graphs with this name."""
    found = next(each["expr"] for each in _board("fleet")["annotations"]["list"] if each["name"] == name)
    return _replaced(found, {})


def of_vm(name: str, instance: str) -> dict[str, str]:
    """Return the variables of the dashboard of one VM."""
    return {"${vm:regex}": name, "$vm": name, "$job": JOB, "$instance": instance}


def _replaced(query: str, variables: Mapping[str, str]) -> str:
    for name, value in {**_EVERYTHING, **variables}.items():
        query = query.replace(name, value)
    return query


@dataclass(frozen=True, slots=True)
class BoardStory:
    """Samples, and what queries return.

    Attributes:
        series: samples as promtool writes them, such as ``1x20 stale``, by series.
        shows: the expected rows, by query and time (``10m``).
        groups: the groups of rules that are evaluated; "" stands for none.
        settings: the settings of the rules.
        step: between samples.
        every: between evaluations of all rules. promtool does not follow the intervals of groups.
    """

    series: Mapping[str, str]
    shows: Mapping[tuple[str, str], Rows]
    groups: Sequence[str] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    step: str = "15s"
    every: str = "15s"

    def play(self, folder: Path) -> subprocess.CompletedProcess[str]:
        """Return the output of promtool."""
        rules, file = folder / "rules.json", folder / "story.json"  # JSON is YAML
        chosen = [_rendered(group) for group in groups(resolve(self.settings)) if group.name in self.groups]
        assert len(chosen) == len(self.groups)
        rules.write_text(json.dumps({"groups": chosen}))
        test = {
            "interval": self.step,
            "input_series": [{"series": name, "values": values} for name, values in self.series.items()],
            "promql_expr_test": [
                {
                    "expr": query,
                    "eval_time": at,
                    "exp_samples": [{"labels": f"{{{labels}}}", "value": value} for labels, value in rows.items()],
                }
                for (query, at), rows in self.shows.items()
            ],
        }
        suite = {"rule_files": [str(rules)], "evaluation_interval": self.every, "tests": [test]}
        file.write_text(json.dumps(suite))
        return run_tests(file)


def _rendered(group: Group) -> dict[str, object]:
    """A group without the texts of its alerts, which would query, too."""
    rules = [
        {"record": rule.record, "expr": rule.expression, "labels": dict(rule.labels)}
        if isinstance(rule, Recording)
        else {"alert": rule.name, "expr": rule.expression, **({"for": rule.holds} if rule.holds else {})}
        for rule in group.rules
    ]
    return {"name": group.name, "interval": group.interval, "rules": rules}


def exporter(instance: str, vm: str, values: str, **place: str) -> dict[str, str]:
    """Return the series of an exporter that sees IMDS; ``V`` in ``values`` is the value of each sample."""
    target = f'job="{JOB}",instance="{instance}"'
    labels = {"vm_name": vm, "scale_set": vm.partition("_")[0], "resource_group": "production", **place}
    info = "".join(f',{name}="{value}"' for name, value in labels.items())
    ones = values.replace("V", "1")
    own = "azure_scheduled_events"
    return {
        f"up{{{target}}}": ones,
        f"{own}_up{{{target}}}": ones,
        f"{own}_poll_interval_seconds{{{target}}}": ones,
        f"{own}_instance_info{{{target}{info}}}": ones,
    }


def plays(story: BoardStory, folder: Path) -> None:
    """Fail, with the output of promtool, if the queries of ``story`` do not return what it says."""
    done = story.play(folder)
    assert done.returncode == 0, done.stdout + done.stderr


def event_info(instance: str, status: str, resources: str, scope: str = "self") -> str:
    """Return the selector of the scraped series of a Reboot with its status and Resources."""
    labels = f'event_id="E",event_type="Reboot",event_source="Platform",event_status="{status}",scope="{scope}"'
    return f'{INFO}{{job="{JOB}",instance="{instance}",{labels},description="",resources="{resources}"}}'


def of_event(metric: str, instance: str, scope: str = "self") -> str:
    """Return the selector of another scraped series of that Reboot."""
    return f'{metric}{{job="{JOB}",instance="{instance}",event_id="E",event_type="Reboot",scope="{scope}"}}'


def waiting(own: str, values: str, not_before: str | None, resources: str = "web_0") -> dict[str, str]:
    """Return the series of a Reboot that waits, as one exporter shows it."""
    left, first = (f"azure_scheduled_events_{name}" for name in TIMES)
    return {
        event_info(own, "Scheduled", resources): values.replace("V", "1"),
        of_event(APPROVED, own): values.replace("V", "0"),
        of_event(first, own): values.replace("V", "60"),
        **({of_event(NOT_BEFORE, own): values.replace("V", not_before)} if not_before else {}),
        **({of_event(left, own): values.replace("V", "300")} if not_before else {}),
    }
