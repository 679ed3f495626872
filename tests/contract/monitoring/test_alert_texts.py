"""The texts of alerts, as Prometheus fills them in, and the same from exporters that push."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from azure_scheduled_events_exporter.alertmanager.alert import alert_of
from azure_scheduled_events_exporter.alerts import Settings
from azure_scheduled_events_exporter.alerts.pushed import pushed_alerts
from azure_scheduled_events_exporter.alerts.rule import PREFIX
from azure_scheduled_events_exporter.core.document import ScheduledEvent, Scope
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.lifecycle import Kind, Lifecycle, State
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.metrics.exposition import Exposition
from azure_scheduled_events_exporter.snapshot.snapshot import Polls, Snapshot
from support.paths import ROOT
from support.stories.story import (
    Row,
    Story,
    hit,
    info,
    member,
    moment,
    of,
    paused_longer,
    play,
    scraped,
    target,
)

RULES = ROOT / "alerts" / "generated" / "prometheus" / "prometheus-rules.yml"
GRAFANA = "https://grafana.example.com/d/azure-scheduled-events-"
VM = Instance("web_0", vm_id="id", resource_group="Shop", subscription_id="s", scale_set="web")
NOT_BEFORE = 1_795_866_772.6
AT = "2026-11-28 11:52:52 UTC"
MANY = tuple(f"web_{number}" for number in range(12))
LONG = tuple(f"aks-nodepool1-21922338-vmss_{number:06}" for number in range(12))
LONGEST_SUMMARY = 200
"""Characters of the subject of a mail that people still read."""


def life(
    event_type: str, *vms: str, state: State = State.SCHEDULED, at: float | None = NOT_BEFORE
) -> Lifecycle:
    """Return an event of the VM web_0 and others."""
    event = ScheduledEvent("E", event_type, "Scheduled", "Platform", vms or ("web_0",))
    begun = Timestamp(at) if at is not None and state is State.STARTED else None
    return Lifecycle(event, state, Scope.SELF, Timestamp(0.0), not_before=at, started_at=begun)


# An event of this VM, its kind, the summary, and the dashboard that the alert links to.
EVENTS = (
    (
        life("Reboot"),
        Kind.ANNOUNCED,
        f"Azure reboots web_0 (resource group shop) at {AT}.",
        "vm?var-vm=web_0",
    ),
    (
        life("Redeploy", "web_0", "web_1", state=State.STARTED),
        Kind.ANNOUNCED,
        f"Azure moves web_0, web_1 (resource group shop) to another host since {AT}.",
        "fleet?var-resource_group=shop",
    ),
    (
        life("Freeze", *MANY),
        Kind.ANNOUNCED,
        (
            "Azure pauses web_0, web_1, web_2, web_3, web_4, web_5, web_6, web_7, web_8, web_9"
            f" and 2 more (resource group shop) at {AT}."
        ),
        "fleet?var-resource_group=shop",
    ),
    (
        life("Redeploy", *LONG),
        Kind.ANNOUNCED,
        (
            "Azure moves aks-nodepool1-21922338-vmss_000000, aks-nodepool1-21922338-vmss_000001"
            f" and 10 more (resource group shop) to another host at {AT}."
        ),
        "fleet?var-resource_group=shop",
    ),
    (
        life("Preempt", at=None),
        Kind.ANNOUNCED,
        "Azure evicts web_0 (resource group shop) (time unknown).",
        "vm?var-vm=web_0",
    ),
    (
        life("Terminate"),
        Kind.REQUESTED,
        f"User-requested Terminate: web_0 (resource group shop) at {AT}.",
        "vm?var-vm=web_0",
    ),
    (
        life("Redeploy", state=State.STARTED),
        Kind.WITHOUT_NOTICE,
        f"Down without notice: web_0 (resource group shop) since {AT}.",
        "vm?var-vm=web_0",
    ),
    (
        life("Freeze"),
        Kind.FAR_AHEAD,
        f"Azure plans a Freeze of web_0 (resource group shop) at {AT}.",
        "vm?var-vm=web_0",
    ),
    (
        life("Defrag"),
        Kind.UNKNOWN_TYPE,
        f"Unknown event type Defrag: web_0 (resource group shop) at {AT}.",
        "vm?var-vm=web_0",
    ),
    (
        life("D" * 128, *LONG),
        Kind.UNKNOWN_TYPE,
        (
            f"Unknown event type {'D' * 22}…: aks-nodepool1-21922338-vmss_000000,"
            f" aks-nodepool1-21922338-vmss_000001 and 10 more (resource group shop) at {AT}."
        ),
        "fleet?var-resource_group=shop",
    ),
    (
        life("Reboot", 'a"\\', "{{ .x }}", "<b>&", "two\nlines"),
        Kind.ANNOUNCED,
        f'Azure reboots a"\\, {{{{ .x }}}}, <b>&, two lines (resource group shop) at {AT}.',
        "fleet?var-resource_group=shop",
    ),
    (
        life("SpotRebalanceRecommendation", state=State.ADVISORY, at=None),
        Kind.ADVISORY,
        "Azure may soon evict web_0 (resource group shop).",
        "vm?var-vm=web_0",
    ),
)


@pytest.mark.parametrize(
    ("event", "kind", "summary", "board"), EVENTS, ids=lambda value: str(value)[:60]
)
def test_rules_and_pushes_say_the_same(
    event: Lifecycle, kind: Kind, summary: str, board: str, tmp_path: Path
) -> None:
    """From one scrape, the first evaluation of the rules has the labels and the texts that the
    exporter pushes, and the summary is short.
    """
    pushed = alert_of(event, kind, VM, pushed_alerts(Settings()), {})
    assert pushed is not None
    assert pushed.annotations["summary"] == summary
    assert pushed.annotations["dashboard_url"] == GRAFANA + board
    assert len(summary) < LONGEST_SUMMARY
    # promtool has the label alertname apart from the others.
    labels = {name: text for name, text in pushed.labels.items() if name != "alertname"}
    expected = {"exp_labels": labels, "exp_annotations": dict(pushed.annotations)}
    check = {"alertname": pushed.name, "eval_time": "0s", "exp_alerts": [expected]}
    test = {
        "interval": "15s",
        "input_series": _exposed(replace(event, kind=kind)),
        "alert_rule_test": [check],
    }
    assert play(tmp_path, {"groups": _shipped()}, [test]) == ""


def test_long_resource_group() -> None:
    """A resource group of 90 characters leaves the title short enough for a mail."""
    vm = replace(VM, resource_group="g" * 90)
    event = life("Redeploy", *LONG)
    pushed = alert_of(event, Kind.ANNOUNCED, vm, pushed_alerts(Settings()), {})
    assert pushed is not None
    assert len(pushed.annotations["summary"]) < LONGEST_SUMMARY
    assert f"(resource group {'g' * 32}…)" in pushed.annotations["summary"]


def _exposed(event: Lifecycle) -> list[dict[str, str]]:
    """Return the series of an exporter that shows ``event``."""
    snapshot = Snapshot(
        polls=Polls(up=True),
        vm_name="web_0",
        identity=VM,
        current={"E": event},
        shown={"E": event},
        seen={"E": 0.0},
    )
    text = Exposition(lambda: snapshot, lambda: 0.0).render().body.decode()
    return [
        {
            "series": f"{sample.name}{_labels({**sample.labels, 'instance': 'x', 'job': 'j'})}",
            "values": str(sample.value),
        }
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("azure_scheduled_events_")
    ]


def _labels(labels: dict[str, str]) -> str:
    return "{" + ",".join(f"{key}={json.dumps(value)}" for key, value in labels.items()) + "}"


UTC = "1970-01-01 00:10:00 UTC"
"""The moment 600 s after the begin of a story, at which its events are due."""
_REBOOT = 'event_id="E",event_type="Reboot",kind="announced",scope="{}"'
OTHERS = (  # alert, at which minute, summary, board
    (
        "VmNotBack",
        40,
        f"a (resource group rg) has not come back from an event that began at {UTC}.",
        "vm?var-vm=a",
    ),
    (
        "Overdue",
        22,
        f"A Redeploy of c (resource group rg) was due at {UTC} and has not started.",
        "vm?var-vm=c",
    ),
    (
        "PausedLonger",
        22,
        "c (resource group rg) stood still for 12 s; Azure had announced 5 s.",
        "vm?var-vm=c",
    ),
    (
        "ExporterDown",
        40,
        "The Scheduled Events exporter of b (resource group rg, b:10169) does not answer.",
        "exporter?var-job=azure-scheduled-events&var-instance=b%3A10169",
    ),
    (
        "ImdsUnreachable",
        40,
        "The Scheduled Events exporter of d (resource group rg, d:10169) lacks an answer of IMDS.",
        "exporter?var-job=azure-scheduled-events&var-instance=d%3A10169",
    ),
    (
        "ScaleSetHit",
        10,
        "50% of the VMs of scale set web (resource group rg) are down or about to go down.",
        "fleet?var-resource_group=rg",
    ),
)


@pytest.mark.parametrize(("name", "minute", "summary", "board"), OTHERS)
def test_other_texts(name: str, minute: int, summary: str, board: str, tmp_path: Path) -> None:
    """Alerts about VMs, late events and exporters name the VM, and link to its board.

    One story has them all; a value stands for 15 s.
    """
    rows = (
        # a is hit by an event and does not come back; a2 and a3 of its scale set by another one.
        *scraped("a", "1x39 0x200"),
        *hit("a", "1x39 stale", 600),
        *hit("a2", "1x39 stale", 600, "F"),
        *hit("a3", "1x39 stale", 600, "F"),
        *(member(vm, "1x200") for vm in ("a2", "a3")),
        # b's exporter stops answering without an event.
        *scraped("b", "1x10 0x200"),
        # c's Redeploy is overdue, and paused the VM for longer than announced.
        *scraped("c", "1x200"),
        *hit("c", "1x200", 0, "O", "Redeploy")[:1],
        moment("not_before_timestamp_seconds", "c", "O", "Redeploy", "600x200"),
        paused_longer("c", "O", "Redeploy", "12x200"),
        # d's exporter gets no answer from IMDS.
        target("d", "1x200"),
        of("up", "d", "0x200"),
    )
    texts = _texts(name, minute, rows, tmp_path)
    assert f'summary="{summary}"' in texts
    assert f'dashboard_url="{GRAFANA}{board}"' in texts
    assert texts.count("summary=") == 1, "there is no other alert of this name"


TIMES = (  # alert, at which minute, a part of its text
    (
        "HookFailed",
        16,
        f"e (resource group rg) is perhaps not drained: its hook timed out before the Reboot at {UTC}.",  # noqa: E501
    ),
    (
        "HookFailed",
        16,
        "Drain the VM by hand, or hand the role of its database over, before the event begins.",
    ),
    (
        "HookFailed",
        16,
        "a (resource group rg) is perhaps not back in service: its hook failed after a Reboot.",
    ),
    ("ApprovalRefused", 2, f"The Reboot of g, h still begins at {UTC} or later (event G)."),
    ("PausedLonger", 2, f"It was paused by the Freeze that began at {UTC}."),
    ("ScaleSetHit", 10, f"take down a (at {UTC}), a2 (at {UTC}), a3 (at {UTC})."),
)


@pytest.mark.parametrize(("name", "minute", "part"), TIMES)
def test_times(name: str, minute: int, part: str, tmp_path: Path) -> None:
    """Alerts about hooks, approvals, pauses and scale sets say when the event begins or began."""
    timeout = 'event_type="Reboot",phase="prepare",outcome="timeout"'
    failed = 'event_type="Reboot",phase="recover",outcome="failed"'
    rows = (
        *(row for vm in ("a", "a2", "a3", "c", "e", "g") for row in scraped(vm, "1x200")),
        # Two events hit three VMs of a scale set.
        *hit("a", "1x200", 600),
        *hit("a2", "1x200", 600, "F"),
        *hit("a3", "1x200", 600, "F"),
        # c was paused for longer than announced.
        moment("impact_timestamp_seconds", "c", "O", "Freeze", "600x200"),
        paused_longer("c", "O", "Freeze", "12x200"),
        # After 15 minutes the hooks fail: on e before an event, on a after one.
        of("hook_runs_total", "e", "0x60 1x100", timeout),
        of("hook_runs_total", "a", "0x60 1x100", failed),
        moment("impact_timestamp_seconds", "e", "H", "Reboot", "600x62 stale"),
        # IMDS refuses g's approval after a minute.
        of("approval_requests_total", "g", "0x4 1x100", 'outcome="rejected"'),
        moment("approval_due_timestamp_seconds", "g", "G", "Reboot", "60x200"),
        moment("impact_timestamp_seconds", "g", "G", "Reboot", "600x200"),
        info("g", "G", "Reboot", "announced", "1x200", more=',vms="g, h"'),
        *(member(vm, "1x200") for vm in ("a", "a2", "a3", "c", "e")),
    )
    assert part in _texts(name, minute, rows, tmp_path)


def test_time_that_was_seen_last(tmp_path: Path) -> None:
    """The time of an event is what an exporter says that sees it, not what one without IMDS says,
    which goes on showing the time before the event was moved.
    """
    event = _REBOOT.format("peer")
    rows = (
        *scraped("b", "1x60"),
        *scraped("c", "1x60", imds="1x8 0x51"),
        *(info("a", "E", "Reboot", "announced", "1x60", "peer", by=each) for each in ("b", "c")),
        of("event_impact_timestamp_seconds", "b", "1200x8 600x51", event),
        of("event_impact_timestamp_seconds", "c", "1200x60", event),
    )
    assert f"Azure reboots a (resource group rg) at {UTC}." in _texts("Reboot", 9, rows, tmp_path)


def test_text_while_nobody_shows_the_event(tmp_path: Path) -> None:
    """The text stays as it is while the VM of the event is away, and no exporter shows it."""
    rows = (
        *scraped("a", "1x20 0x40"),
        *hit("a", "1x20 stale", 600),
        of("event_impact_timestamp_seconds", "a", "600x20 stale", _REBOOT.format("self")),
    )
    assert f"Azure reboots a (resource group rg) at {UTC}." in _texts("Reboot", 9, rows, tmp_path)


def _texts(name: str, minute: int, rows: tuple[Row, ...], folder: Path) -> str:
    """Return the texts of an alert as Prometheus fills them in.

    promtool prints them where they differ from what the test expects, so it expects none.
    """
    wrong = {
        "alertname": PREFIX + name,
        "eval_time": f"{minute}m",
        "exp_alerts": [{"exp_labels": {}, "exp_annotations": {}}],
    }
    test = {**Story(name, rows, {}).to_test(), "alert_rule_test": [wrong]}
    complaint = play(folder, {"groups": _shipped()}, [test])
    return complaint[complaint.rindex("got:") :]


def _shipped() -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    return groups


def test_text_without_labels(tmp_path: Path) -> None:
    """The alert that there is no exporter links to the board without empty variables."""
    rows = (("anything", "1x200"),)  # a series that is of no exporter
    assert f'dashboard_url="{GRAFANA}exporter"' in _texts("NoExporters", 20, rows, tmp_path)


def test_names_for_grafana(tmp_path: Path) -> None:
    """The second query of a Grafana rule adds the names of VMs to the labels of each alert, and is
    never empty, as Grafana would then resolve the rule.
    """
    rows = (
        *scraped("a", "1x200"),
        *hit("a", "1x200", 600),
        member("a", "1x200"),
        of("journal_up", "a", "0x200"),
    )
    second_queries = {rule["title"]: _second_query(rule) for rule in _grafana_rules()}
    place = 'job="azure-scheduled-events",instance="a:10169",resource_group="rg",vm_name="a"'
    of_event = '{event_id="E",event_type="Reboot",resource_group="rg",resources="a"}'
    # By alert, the labels and the value that the query adds: the time of the event, here unknown.
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
    assert play(tmp_path, {"groups": _shipped()}, [story]) == ""


def _grafana_rules() -> list[dict[str, Any]]:
    path = ROOT / "alerts" / "generated" / "grafana" / "alert-rules.yaml"
    groups = yaml.safe_load(path.read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def _second_query(rule: dict[str, Any]) -> str:
    """Return the query that adds names, or "" if the rule has none."""
    steps = {each["refId"]: each["model"] for each in rule["data"]}
    return str(steps["D"]["expr"]) if "D" in steps else ""
