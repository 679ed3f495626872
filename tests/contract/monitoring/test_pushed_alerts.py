"""Pushed alerts are those of the rules: promtool evaluates the rules on the metrics of the same event."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from alerts import Settings, render, resolve
from alerts.rules import groups
from azure_scheduled_events_exporter.alertmanager.catalog import Catalog, parse_catalog
from azure_scheduled_events_exporter.alertmanager.event_alert import EventAlert, event_alert
from azure_scheduled_events_exporter.core.document import ScheduledEvent, Scope
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.lifecycle import Approver, Lifecycle, Lifecycles, State
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.metrics.collector import METRICS
from azure_scheduled_events_exporter.polling.snapshot import Polls, Snapshot
from support.monitoring.promtool import run_tests

NOW, SEEN, STEP = 30, Timestamp(0.0), 5
CHANGED = {
    "preempt.severity": "critical",
    "reboot.severity": "warning",
    "requested.severity": "critical",
    "freeze.short": "20s",
    "degraded-host.notice": "2h",
    "spot.severity": "info",
    "labels.keep": "location,vm_size",
    "runbooks.url": "https://wiki.example.org/runbooks",
    "dashboards.url": "https://grafana.example.org/d",
    "status-page.url": "https://VM.web.example.org:10169/",
}
SPOT = Instance("vmss_0", vm_id="1", scale_set="web", location="westeurope", vm_size="D2", priority="Spot")
REGULAR = replace(SPOT, scale_set="", priority="Regular", location="")


def life(
    event_type: str, source: str = "Platform", notice: float | None = 900, lasts: float | None = None
) -> Lifecycle:
    """Return an event of this VM that was first seen at 0 s; times in seconds."""
    event = ScheduledEvent(
        "602D9444-0000-4C3B-A0C5-3A1B4A5B6C7D", event_type, "Scheduled", source, ("vmss_0",), notice, "", lasts
    )
    return Lifecycle(event, State.SCHEDULED, Scope.SELF, SEEN, notice, notice)


def started(announced: Lifecycle, at: float = 10) -> Lifecycle:
    """Return the event once it has started; at 0 s, nobody saw it before that."""
    event = replace(announced.event, status="Started", not_before=None)
    return replace(announced, event=event, state=State.STARTED, started_at=Timestamp(at))


_EVERY_GROUP = tuple(group.name for group in groups(Settings()))
GROUPS = _EVERY_GROUP[: _EVERY_GROUP.index("azure-scheduled-events-lives") + 1]
"""The groups of events: what is recorded about them, and their alerts."""

MANY = tuple(f"vmss_{number}" for number in range(12))
LIVES: Mapping[str, Lifecycle] = {
    **{kind: life(kind) for kind in ("Preempt", "Terminate", "Redeploy", "Reboot", "Freeze", "OfTomorrow")},
    **{f"{kind} requested": life(kind, "User") for kind in ("Preempt", "Terminate", "Redeploy", "Reboot", "Freeze")},
    **{f"{kind} of nobody": life(kind, "") for kind in ("Terminate", "Redeploy", "Reboot", "Freeze")},
    **{f"{kind} started": started(life(kind)) for kind in ("Preempt", "Terminate", "Reboot", "Freeze", "OfTomorrow")},
    **{f"{kind} without notice": started(life(kind), at=0) for kind in ("Preempt", "Terminate", "Redeploy", "Reboot")},
    "requested reboot without notice": started(life("Reboot", "User"), at=0),
    "reboot without notice, approved here": replace(started(life("Reboot"), at=0), approved_by=Approver.OPERATOR),
    **{f"freeze of {length} s": life("Freeze", lasts=length) for length in (0.0, 5.0, 10.0, 30.0)},
    "short freeze started": started(life("Freeze", lasts=5.0)),
    **{f"{kind} in three hours": life(kind, notice=10800) for kind in ("Reboot", "Freeze", "OfTomorrow")},
    **{f"{kind} in three days": life(kind, "User", notice=259_275.5) for kind in ("Reboot", "Preempt")},
    "overdue": life("Reboot", notice=20),
    "at some moment": replace(life("Reboot", notice=None), notice_seconds=None),
    "half a second": life("Reboot", notice=30.5),
    "many VMs": life("Redeploy", notice=3690.25),
    "no type": life(""),
}


def pushed(life_: Lifecycle, instance: Instance, catalog: Catalog) -> EventAlert:
    """Return the alert that the exporter pushes."""
    alert = event_alert(life_, instance, catalog, {}, Timestamp(NOW))
    assert alert is not None
    return alert


def series(life_: Lifecycle, instance: Instance) -> list[dict[str, str]]:
    """Return what Prometheus scrapes of the exporter of ``instance``, every 5 s from the first sight of the event."""
    polls = Polls(up=True, last_success=float(NOW))
    snapshot = Snapshot(1.0, polls, "vmss_0", instance).showing(Lifecycles({life_.event_id: life_}), (), float(NOW))
    target = {"job": "azure-scheduled-events-exporter", "instance": "vmss_0:10169"}
    found = {f"up{labels_text(target)}": 1.0}
    for spec in METRICS:
        for sample in spec.family(snapshot, float(NOW)).samples:
            labels = {name: value for name, value in sample.labels.items() if value}
            found[f"{sample.name}{labels_text({**labels, **target})}"] = sample.value
    return [{"series": name, "values": f"{value:.15g}+0x{NOW // STEP + 1}"} for name, value in found.items()]


def labels_text(labels: Mapping[str, str]) -> str:
    """Return labels as text, to follow the name of a series."""
    return "{" + ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items()) + "}"


@pytest.mark.parametrize(
    ("values", "instance"), [({}, SPOT), (CHANGED, SPOT), (CHANGED, REGULAR)], ids=["defaults", "spot", "regular"]
)
def test_pushed_alerts_are_the_rules(values: dict[str, str], instance: Instance, tmp_path: Path) -> None:
    """Each event has the pushed alert in Prometheus too, with equal labels and annotations, and no other one."""
    settings: Settings = resolve(values)
    files = render(settings, grafana=False)
    catalog = parse_catalog(files["exporter/pushed-alerts.json"])
    every = yaml.safe_load(files["prometheus/prometheus-rules.yml"])["groups"]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [each for each in every if each["name"] in GROUPS]}))
    lives = {**LIVES, "many VMs": replace(LIVES["many VMs"], event=replace(LIVES["many VMs"].event, resources=MANY))}
    tests = [
        {
            "name": name,
            "interval": f"{STEP}s",
            "input_series": series(each, instance),
            "alert_rule_test": [expected(alert, pushed(each, instance, catalog)) for alert in catalog.alerts],
        }
        for name, each in lives.items()
    ]
    content = {"rule_files": ["rules.yml"], "evaluation_interval": f"{STEP}s", "tests": tests}
    (tmp_path / "test.yml").write_text(json.dumps(content))
    done = run_tests(tmp_path / "test.yml")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("instance", "location"), [(SPOT, "westeurope"), (REGULAR, "given")], ids=["known", "empty"])
def test_labels_that_the_alert_has(instance: Instance, location: str) -> None:
    """As external_labels of a Prometheus, added labels replace no label of the alert, kept or its own."""
    catalog = parse_catalog(render(resolve({"labels.keep": "location"}), grafana=False)["exporter/pushed-alerts.json"])
    added = {"location": "given", "severity": "given", "event_id": "given", "team": "given"}
    alert = event_alert(life("Reboot"), instance, catalog, added, Timestamp(NOW))
    assert alert is not None
    assert alert.labels == {**added, **pushed(life("Reboot"), instance, catalog).labels}
    assert (alert.labels["location"], alert.labels["team"]) == (location, "given")


def expected(name: str, alert: EventAlert) -> dict[str, Any]:
    """Return what promtool is to find of the alert called ``name`` if ``alert`` is the only one."""
    labels = dict(alert.labels)
    is_it = labels.pop("alertname") == name
    found = [{"exp_labels": labels, "exp_annotations": dict(alert.annotations)}] if is_it else []
    return {"eval_time": f"{NOW}s", "alertname": name, "exp_alerts": found}
