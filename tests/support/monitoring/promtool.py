"""Runs stories against rules with ``promtool test rules``, with as few rules as their checks need."""

import json
import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import yaml

from alerts import Settings
from alerts.rules import groups
from azure_scheduled_events_exporter.times import parse_duration
from support.paths import ROOT
from support.programs import debian

RULES = ROOT / "alerts" / "generated" / "prometheus" / "prometheus-rules.yml"
ALERTING = tuple(group.name for group in groups(Settings()) if "-board-" not in group.name)
"""The groups that alerts need, in their order. What only dashboards read would triple the time of a story."""

_PREFIX = "azure-scheduled-events-"
_NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")


class Told(Protocol):
    """Whatever promtool can test."""

    @property
    def evaluation(self) -> int:
        """The seconds between evaluations."""

    @property
    def checked(self) -> frozenset[str] | None:
        """The names of the alerts that it checks; None if it may check every one."""

    @property
    def read(self) -> frozenset[str] | None:
        """The names of the alerts whose texts it checks; None if it may check every one."""

    def to_test(self) -> dict[str, object]:
        """Return the test as promtool reads it."""


@dataclass(frozen=True)
class Evaluations:
    """When groups with a long interval are evaluated.

    Attributes:
        after: by group, the seconds after each multiple of its interval. Prometheus gives each group its own.
        only: the groups whose recordings have a sample at their own evaluations alone, as in Prometheus. Elsewhere a
            recording keeps its last result in between, which makes ranges of it longer than they are. For groups
            that the checked alerts read over ranges alone.
    """

    after: tuple[tuple[str, int], ...] = ()
    only: frozenset[str] = frozenset()


def promtool(
    folder: Path,
    story: Told,
    rules: Path = RULES,
    names: tuple[str, ...] = ALERTING,
    evaluations: Evaluations = Evaluations(),
) -> subprocess.CompletedProcess[str]:
    """Run the story as ``promtool test rules`` with the groups ``names``, in their order; return its output.

    Rules that no checked alert reads are left out, which halves the processor time, and so are the texts of alerts that
    the story does not check: they query, too.
    """
    file, needed = folder / "stories.json", folder / "rules.json"  # JSON is YAML
    chosen = _groups(rules, names, story.evaluation, story.checked, story.read, evaluations)
    needed.write_text(json.dumps({"groups": chosen}))
    left = {group["name"] for group in chosen}
    suite = {
        "rule_files": [str(needed)],
        "evaluation_interval": f"{story.evaluation}s",
        "group_eval_order": [name for name in names if name in left],
        "tests": [story.to_test()],
    }
    file.write_text(json.dumps(suite))
    return run_tests(file)


def run_tests(file: Path) -> subprocess.CompletedProcess[str]:
    """Run the tests in ``file``; return the output."""
    return subprocess.run(
        [debian("promtool"), "test", "rules", str(file)],
        env={**os.environ, "GOGC": "400", "GOMAXPROCS": "1"},  # a quarter less processor time
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@cache
def _groups(
    rules: Path,
    names: tuple[str, ...],
    evaluation: int,
    checked: frozenset[str] | None,
    read: frozenset[str] | None,
    evaluations: Evaluations,
) -> list[Any]:
    """Return the groups with what ``checked`` needs, recordings at the interval of their group.

    promtool evaluates every group at each step. Between two evaluations of a group, a recording keeps its last result,
    as it does in Prometheus. Alerts, and what is recorded together with them, are evaluated at each step.
    """
    chosen = [group for group in json.loads(_as_json(rules))["groups"] if group["name"] in names]
    for rule in (rule for group in chosen for rule in group["rules"]):
        if read is not None and _name(rule) not in read:
            rule.pop("annotations", None)
    for group in chosen:
        interval = parse_duration(group["interval"])
        name = group["name"].removeprefix(_PREFIX)
        due = f"(vector(time()) - {dict(evaluations.after).get(name, 0)}) % {interval:g}"
        rarer = interval > evaluation and all("record" in rule for rule in group["rules"])
        for rule in group["rules"] if rarer else ():
            rule["expr"] = f"(\n{rule['expr']}\n) and on () ({due} < {evaluation})"
            if name not in evaluations.only:
                rule["expr"] += f"\nor\n{rule['record']} offset {evaluation}s and on () ({due} >= {evaluation})"
    if checked is None:
        return chosen
    needed = _needed([rule for group in chosen for rule in group["rules"]], checked)
    kept = [{**group, "rules": [rule for rule in group["rules"] if _name(rule) in needed]} for group in chosen]
    return [group for group in kept if group["rules"]]


@cache
def _as_json(file: Path) -> str:
    """Return the YAML of ``file`` as JSON, which is parsed a hundred times as fast."""
    return json.dumps(yaml.safe_load(file.read_text()))


def _needed(rules: Iterable[Mapping[str, Any]], checked: frozenset[str]) -> frozenset[str]:
    """Return the names of the rules ``checked``, of those whose results they read, and so on."""
    reads: dict[str, set[str]] = {}
    for rule in rules:
        reads.setdefault(_name(rule), set()).update(_NAME.findall(str([*rule.values()])))
    needed: set[str] = set()
    todo = set(checked)
    while todo := (todo & reads.keys()) - needed:
        needed |= todo
        todo = {name for each in todo for name in reads[each]}
    return frozenset(needed)


def _name(rule: Mapping[str, Any]) -> str:
    return str(rule.get("record") or rule["alert"])
