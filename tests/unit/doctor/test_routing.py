"""Where an Alertmanager sends alerts: the same answers as Alertmanager's own tool gives."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from azure_scheduled_events_exporter.config import resolve
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.doctor.monitoring.alertmanager import labels_of
from azure_scheduled_events_exporter.doctor.monitoring.routing import (
    Matcher,
    inhibits,
    integrations,
    parse,
    routes,
    silenced_by,
)
from azure_scheduled_events_exporter.doctor.monitoring.shipped import rules, shape
from azure_scheduled_events_exporter.doctor.subject import Subject
from support.paths import ROOT
from support.programs import debian

SHIPPED = yaml.safe_load((ROOT / "alerts/generated/alertmanager/alertmanager.yml").read_text())
FOREIGN = yaml.safe_load("""
route:
  receiver: default
  routes:
    - match: {team: storage}
      receiver: storage
    - matchers: ['{alertname=~"Azure.*|Node.*", severity!="info"}']
      receiver: azure
      continue: true
      routes:
        - matchers: [event_id=""]
          receiver: watchers
        - match_re: {event_type: Preempt|Terminate}
          receiver: spot
    - matchers: [severity = critical, alertname !~ "Test.+"]
      receiver: pager
receivers: [{name: default}, {name: storage}, {name: azure}, {name: watchers}, {name: spot}, {name: pager}]
""")


def vm(target: Mapping[str, str] | None = None, priority: str = "") -> Subject:
    """Return the VM vmss_0 as the stories of the rules have it, with the labels of its target."""
    subject = Subject(resolve({}, {}), {}, (), "")
    subject.instance = Instance("vmss_0", "//vmss_0", "vmss", "westeurope", "1", priority=priority)
    subject.target = target or {}
    return subject


@pytest.mark.parametrize("config", [SHIPPED, FOREIGN], ids=["shipped", "foreign"])
def test_routes_as_amtool(config: dict[str, object], tmp_path: Path) -> None:
    """Every shipped alert, and one of others, goes to the receivers that amtool names."""
    path = tmp_path / "alertmanager.yml"
    path.write_text(yaml.safe_dump({**config, "templates": []}))
    alerts = [labels_of(rule, vm()) for rule in rules().alerts]
    alerts.append({"alertname": "DiskFull", "team": "storage", "severity": "critical"})
    for labels in alerts:
        pairs = [f"{name}={value}" for name, value in labels.items()]
        command = [debian("amtool"), "config", "routes", "test", f"--config.file={path}", *pairs]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        tree = config["route"]
        assert isinstance(tree, dict)
        assert ",".join(route.receiver for route in routes(tree, labels)) == said


def test_what_routes_hand_down() -> None:
    """A route has group_by and group_wait of its nearest ancestor that sets them; time intervals are its own."""
    own = {"mute_time_intervals": ["nights"], "active_time_intervals": ["office"]}
    tree = {
        "receiver": "a",
        "group_by": ["job"],
        "group_wait": "1m",
        "mute_time_intervals": [],
        "routes": [{"matchers": ["x=1"], "group_wait": "0s", "routes": [own]}],
    }
    [route] = routes(tree, {"x": "1"})
    assert (route.receiver, route.group_by, route.group_wait) == ("a", ("job",), "0s")
    assert (route.muted_by, route.active_in) == (("nights",), ("office",))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('severity="critical"', [Matcher("severity", "=", "critical")]),
        ("severity = critical", [Matcher("severity", "=", "critical")]),
        ('{a=~"x|y, z", b!=c}', [Matcher("a", "=~", "x|y, z"), Matcher("b", "!=", "c")]),
        (r'a!~"\\d+"', [Matcher("a", "!~", r"\d+")]),
        ('event_id!=""', [Matcher("event_id", "!=", "")]),
    ],
)
def test_matchers(text: str, expected: list[Matcher]) -> None:
    """Matchers are read with and without quotes and braces."""
    assert parse(text) == expected


def test_silences() -> None:
    """A silence covers an alert when all of its matchers do; one that is not an equality is inverted."""
    silence = {
        "matchers": [
            {"name": "alertname", "value": "Azure.+", "isRegex": True, "isEqual": True},
            {"name": "severity", "value": "info", "isRegex": False, "isEqual": False},
        ]
    }
    assert silenced_by(silence, {"alertname": "AzureX", "severity": "critical"})
    assert not silenced_by(silence, {"alertname": "AzureX", "severity": "info"})
    assert not silenced_by(silence, {"alertname": "Disk", "severity": "critical"})


def test_inhibitions() -> None:
    """An inhibition applies between alerts of the same event only."""
    rule = {"source_matchers": ['severity="critical"'], "target_match": {"severity": "warning"}, "equal": ["event_id"]}
    assert inhibits(rule, {"severity": "critical", "event_id": "1"}, {"severity": "warning", "event_id": "1"})
    assert not inhibits(rule, {"severity": "critical", "event_id": "1"}, {"severity": "warning", "event_id": "2"})


def test_receivers_without_integrations() -> None:
    """A receiver notifies by what it has configurations for, if any."""
    receivers: list[dict[str, object]] = [{"name": "a", "webhook_configs": [{}], "email_configs": []}, {"name": "b"}]
    assert integrations(receivers, "a") == ["webhook"]
    assert integrations(receivers, "b") == []


def test_shapes_of_expressions() -> None:
    """Thresholds, texts, order of matchers and lists of labels do not change the shape; metrics and operators do."""
    ours = shape('max by (a) (up{b="x", a=~"y"}) > 5 and on (job) rate(x_total[5m]) < 1e3')
    assert ours == shape('max by (a, team) (up{a=~"z",b="w"}) > 90 and on (job, team) rate(x_total[1h30m]) < 7')
    assert shape("max_over_time(up[1m:5s])") == shape("max_over_time(up[75s:15s])")
    assert ours != shape('max by (a) (up{b="x", a=~"y"}) > 5 or on (job) rate(x_total[5m]) < 1e3')
    assert ours != shape('max by (a) (down{b="x", a=~"y"}) > 5 and on (job) rate(x_total[5m]) < 1e3')
