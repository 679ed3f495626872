"""Random fleets against a short oracle, and changes of the rules with which the stories must fail."""

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from azure_scheduled_events_exporter.alerts import Settings, render
from azure_scheduled_events_exporter.alerts.events import HOLDS, NO_IMPACT_HOLD
from contract.monitoring.test_stories import EVENTS, EXPORTERS, IMPACTS
from support.monitoring.stories import INTERVAL, Row, Story, ended, info, of, play

STEPS = 120
# steps, two evaluations of event_seen, in which an event that ended may page again if it is shown
# again
REAPPEARS = 4
KINDS = [(each, "announced", each, HOLDS[each]) for each in HOLDS]
KINDS += [("Redeploy", "without_notice", "WithoutNotice", HOLDS["Redeploy"])]
KINDS += [("Redeploy", "far_ahead", "DegradedHost", NO_IMPACT_HOLD)]


@dataclass
class Exporter:
    """What one exporter can do at each step: ``up``, ``blind`` (no IMDS) or ``down``."""

    vm: str
    states: list[str]


def fleet(seed: str) -> tuple[Story, str]:
    """Return a story of random events and outages, with what the oracle says of each alert at each
    minute.
    """
    chance = random.Random(seed)
    exporters = [Exporter(f"vm{number}", _states(chance)) for number in range(chance.randint(1, 4))]
    rows: list[Row] = [
        of("up", each.vm, _values(["1", "0", "_"][_index(s)] for s in each.states))
        for each in exporters
    ]
    checks: dict[str, list[str]] = {}
    for number in range(chance.randint(1, 3)):
        event_type, kind, alert, hold = chance.choice(KINDS)
        first = chance.randint(1, STEPS // 2)
        last = chance.randint(first + 1, STEPS)
        event, shown, over = f"E{number}", set[int](), STEPS
        for each in exporters:
            shows, ends = _life(each, first, last)
            shown |= {step for step, value in enumerate(shows) if value}
            over = min([over, *(step for step, value in enumerate(ends) if value)])
            rows.append(
                info(
                    each.vm,
                    event,
                    event_type,
                    kind,
                    _values("1" if value else "_" for value in shows),
                )
            )
            series, _ = ended(each.vm, event, "_x0 1x1")
            rows.append((series, _values(f"{over * INTERVAL}" if value else "_" for value in ends)))
        for step in range(
            0, STEPS, 4
        ):  # the oracle: shown, or shown within the hold, until somebody saw the end
            ago = min(((step - at) * INTERVAL for at in shown if at <= step), default=hold + 1)
            if (
                ago == hold and step < over
            ):  # Prometheus 2 counts the first moment of a range, Prometheus 3 does not
                continue
            if step in shown and not shown.issuperset(range(max(over, step - REAPPEARS), step)):
                continue
            held = ago < hold
            checks.setdefault(f"{alert} {event}", []).append(
                f"{step * INTERVAL}s:{int(held and step < over)}"
            )
    return Story(seed, tuple(rows), {}), json.dumps(checks)


def _states(chance: random.Random) -> list[str]:
    states: list[str] = []
    while len(states) < STEPS:
        states += [chance.choice(["up", "up", "up", "blind", "down"])] * chance.randint(2, 40)
    return states[:STEPS]


def _index(state: str) -> int:
    return ["up", "blind", "down"].index(state)


def _life(each: Exporter, first: int, last: int) -> tuple[list[bool], list[bool]]:
    """Return at which steps an exporter shows an event, and its end; one without IMDS shows what it
    showed last.
    """
    shows, ends, known, over = [], [], False, False
    for step, state in enumerate(each.states):
        if state == "up":
            current = first <= step < last
            over = known and not current
            known = known or current
        shows.append(state != "down" and known and not over)
        ends.append(state != "down" and over)
    return shows, ends


def _values(values: Iterable[str]) -> str:
    """Return the samples, with the mark that Prometheus writes when a series goes away."""
    every = list(values)
    gone = [
        now == "_" and before not in {"_", ""}
        for before, now in zip(["", *every], every, strict=False)
    ]
    return " ".join("stale" if just else value for value, just in zip(every, gone, strict=True))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Play as many fleets as ``--fleets`` says; another seed makes others."""
    if "number" in metafunc.fixturenames:
        metafunc.parametrize("number", range(metafunc.config.getoption("--fleets")))


def test_random_fleets(number: int, tmp_path: Path, seed: int) -> None:
    """Each alert fires exactly when the oracle says: one an event, held, and ended when somebody
    saw the end.
    """
    story, checks = fleet(f"{seed}/{number}")
    tests = [
        {
            "expr": (
                f'count(ALERTS{{alertname="AzureScheduledEvent{name.split()[0]}",alertstate="firing",event_id="{name.split()[1]}"}})'
                " or vector(0)"
            ),
            "eval_time": check.partition(":")[0],
            "exp_samples": [{"labels": "{}", "value": int(check.partition(":")[2])}],
        }
        for name, some in json.loads(checks).items()
        for check in some
    ]
    assert play(tmp_path, _rules(), [{**story.to_test(), "promql_expr_test": tests}]) == "", (
        story.name
    )


CHANGES = {
    "an alert is not held": (
        IMPACTS,
        '{event_type="Reboot",kind="announced"}[30m]',
        '{event_type="-"}[30m]',
    ),
    "an end is not known": (EVENTS, "unless on (event_id) azure_scheduled_events:event_ended", ""),
    "an end is forgotten": (
        EVENTS,
        "last_over_time(azure_scheduled_events:event_ended[5m])",
        "(vector(1) > 2)",
    ),
    "what is days ahead is held": (
        EVENTS,
        'unless on (event_id) azure_scheduled_events:event{kind=~"far_ahead|harmless"}',
        "",
    ),
    "a VM that answers is away": (
        IMPACTS,
        "unless on (event_id, job, instance) last_over_time(azure_scheduled_events:vm_back[30m])",
        "",
    ),
    "a VM that was back is missed": (
        IMPACTS,
        "unless on (event_id, job, instance) last_over_time(azure_scheduled_events:vm_back[2h])",
        "",
    ),
    "one event is half a set": (
        IMPACTS,
        "and count without (event_id)",
        "or count without (event_id)",
    ),
    "a restarted exporter pages again": (
        EVENTS,
        'unless on (event_id) last_over_time(azure_scheduled_events:event{kind="announced"}[1h])',
        "",
    ),
    "a VM that is away has no exporter": (
        EXPORTERS,
        "unless on () azure_scheduled_events:vm_away",
        "",
    ),
    "approvals by others are refused": (
        EXPORTERS,
        "unless on (event_id) azure_scheduled_events_event_started_timestamp_seconds\n)",
        ")",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_stories_can_fail(change: str, tmp_path: Path) -> None:
    """With a change that loses a promise, a story fails."""
    stories, before, after = CHANGES[change]
    rules, changed = _rules(), 0
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        changed += before in rule["expr"]
        rule["expr"] = rule["expr"].replace(before, after)
    assert changed
    assert "FAILED" in play(tmp_path, rules, [story.to_test() for story in stories])


def _rules() -> Any:
    content = yaml.safe_load(render(Settings(), grafana=False)["prometheus/prometheus-rules.yml"])
    for rule in (rule for group in content["groups"] for rule in group["rules"]):
        rule.pop("annotations", None)
    return content
