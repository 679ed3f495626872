"""The texts of alerts about one event, which exporters push and the rules of Prometheus raise: both
must say the same, and the summary must fit into the subject of a mail.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from azure_scheduled_events_exporter.alertmanager.alert import alert_of
from azure_scheduled_events_exporter.alerts import Settings
from azure_scheduled_events_exporter.alerts.formats.wording import LONGEST_GROUP, LONGEST_TYPE
from azure_scheduled_events_exporter.alerts.pushed import pushed_alerts
from azure_scheduled_events_exporter.core.document import ScheduledEvent, Scope
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.lifecycle import Kind, Lifecycle, State
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.metrics.exposition import Exposition
from azure_scheduled_events_exporter.snapshot.snapshot import Polls, Snapshot
from support.stories.shipped_rules import BOARDS_URL, shipped_rules
from support.stories.story import play

VM = Instance("web_0", vm_id="id", resource_group="Shop", subscription_id="s", scale_set="web")
NOT_BEFORE = 1_795_866_772.6
AT = "2026-11-28 11:52:52 UTC"
"""NOT_BEFORE as texts have it."""
MANY = tuple(f"web_{number}" for number in range(12))
LONG = tuple(f"aks-nodepool1-21922338-vmss_{number:06}" for number in range(12))
"""As many VMs with long names, of which a summary names fewer."""
LONGEST_SUMMARY = 200
"""Characters of the subject of a mail that people still read."""


def life(
    event_type: str, *vms: str, state: State = State.SCHEDULED, at: float | None = NOT_BEFORE
) -> Lifecycle:
    """Return an event of ``vms``, or of web_0 alone, with ``at`` as NotBefore, at which it began if
    it is Started.
    """
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
            f"Unknown event type {'D' * LONGEST_TYPE}…: aks-nodepool1-21922338-vmss_000000,"
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
    pushed = alert_of(event, kind, VM, pushed_alerts(Settings()), extra={})
    assert pushed is not None
    assert pushed.annotations["summary"] == summary
    assert pushed.annotations["dashboard_url"] == BOARDS_URL + board
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
    assert play(tmp_path, shipped_rules(), [test]) == ""


def test_long_resource_group() -> None:
    """A resource group of 90 characters, the most that Azure permits, leaves the summary short
    enough for the subject of a mail: its name is cut.
    """
    vm = replace(VM, resource_group="g" * 90)
    event = life("Redeploy", *LONG)
    pushed = alert_of(event, Kind.ANNOUNCED, vm, pushed_alerts(Settings()), extra={})
    assert pushed is not None
    assert len(pushed.annotations["summary"]) < LONGEST_SUMMARY
    assert f"(resource group {'g' * LONGEST_GROUP}…)" in pushed.annotations["summary"]


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
