"""Every first notification is whole, by the rules on both engines and by pushes, and all say the
same.
"""

import re
import signal
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from azure_scheduled_events_exporter.alerts import resolve
from azure_scheduled_events_exporter.commands.cli import main
from support.monitoring.notification_text import complaints
from support.monitoring.paging import Alertmanager, Receiver, Stack, query, receivers
from support.monitoring.victoria import VictoriaStack
from support.programs import Program, eventually
from trials.monitoring.notifications import GROUP, PREFIX, Fleet, Subject

SETTINGS = {
    "scrape.interval": "2s",
    "evaluation.interval": "2s",
    "group.wait": "0s",
    "group.interval": "1s",
    "severities": f"EvictionRisk=warning",  # info notifies nobody
}
PROMETHEUS = "rules on Prometheus"
VMALERT = "rules on vmalert"
PUSHES = "pushes"
ENOUGH = 100
"""Notifications."""
Key = tuple[str, str]
"""An alert's name, and the event, VM, scale set or target that it is about."""


def subject_of(alert: Mapping[str, Any]) -> Key:
    """Return what an alert is about."""
    labels = alert["labels"]
    names = ("event_id", "vm_name", "scale_set", "instance")
    return labels["alertname"], next(labels[name] for name in names if labels.get(name))


def first_told(receiver: Receiver) -> dict[Key, Mapping[str, Any]]:
    """Return what was said first about each subject by each alert."""
    first: dict[Key, Mapping[str, Any]] = {}
    for notification in receiver.webhooks():
        for alert in notification.body["alerts"]:
            if alert["status"] == "firing":
                first.setdefault(subject_of(alert), alert)
    return first


def hurry(folder: Path, engine: Program) -> None:
    """Load the rules again without the minutes for which expressions must hold."""
    file = folder / "prometheus" / "prometheus-rules.yml"
    text, count = re.subn(r"(?m)^( +)for: \d+m$", r"\1for: 2s", file.read_text())
    assert count
    file.write_text(text)
    engine.process.send_signal(signal.SIGHUP)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Play the fleet; return by way what was told first, and what each alert is about."""
    folder = tmp_path_factory.mktemp("notifications")
    values = folder / "values.yaml"
    values.write_text(f"severities: {{EvictionRisk: warning}}\n")
    with ExitStack() as stack:
        pushed = stack.enter_context(Receiver())
        settings = resolve({**receivers(pushed.url), **SETTINGS})
        for name in ("pushes", "prometheus", "victoria"):
            (folder / name).mkdir()
        alertmanager = stack.enter_context(Alertmanager(folder / "pushes", settings))
        fleet = stack.enter_context(Fleet(folder / "fleet", alertmanager.url, values))
        prometheus = Stack(folder / "prometheus", SETTINGS, fleet.targets, slack=True)
        stack.enter_context(prometheus)
        victoria = stack.enter_context(VictoriaStack(folder / "victoria", SETTINGS, fleet.targets))
        hurry(folder / "prometheus", prometheus.prometheus)
        hurry(folder / "victoria", victoria.programs["vmalert"])
        for each in (prometheus, victoria):
            each.wait_for_targets(len(fleet.targets))
            hit = 'azure_scheduled_events:vm{vm_name="vmnotback_0"}'
            eventually(lambda url=each.url: query(url, hit), "the VM is known to be hit", 120)
        assert main(["drill", "--alertmanager", alertmanager.url, "--timeout", "20s"]) == 0
        fleet.play()
        ways = {PROMETHEUS: prometheus.receiver, VMALERT: victoria.receiver, PUSHES: pushed}
        eventually(fleet.is_played, "all events are announced", 120)
        wanted = wanted_of(fleet)

        def missing() -> list[tuple[str, Key]]:
            return [
                (way, key)
                for way, receiver in ways.items()
                for key in wanted[way] - first_told(receiver).keys()
            ]

        eventually(
            lambda: not missing(), "everything is told", 240, until=lambda x: x or print(missing())
        )
        return (
            {way: first_told(receiver) for way, receiver in ways.items()},
            subjects_of(fleet),
            prometheus.receiver.notifications,
        )


ABOUT_EVENTS = {"NotApproved", "Overdue", "StartedTooLong", "PausedLonger"}


def wanted_of(fleet: Fleet) -> dict[str, set[Key]]:
    """Return by way what has to be told."""
    events = {*fleet.placed, *fleet.scenario_events()}
    others = {(f"{PREFIX}Reboot", "NAMELESS")}
    for each in fleet.troubles:
        about = each.target
        if each.alert in ABOUT_EVENTS:
            about = f"OF-{each.vm}"
        elif each.alert == "VmNotBack":
            about = each.vm
        elif each.alert == "ScaleSetHit":
            about = each.scale_set
        others.add((PREFIX + each.alert, about))
    return {PROMETHEUS: events | others, VMALERT: events | others, PUSHES: events}


def subjects_of(fleet: Fleet) -> dict[str, Subject]:
    """Return the VMs and the resource group of each event, VM, scale set and target."""
    found = {"NAMELESS": Subject(())}
    events = {**fleet.placed, **fleet.scenario_events()}
    found |= {event: subject for (_, event), subject in events.items()}
    for each in fleet.troubles:
        subject = Subject((each.vm,))
        found |= {each.target: subject, each.vm: subject, f"OF-{each.vm}": subject}
        if each.scale_set:
            mates = tuple(one.vm for one in fleet.troubles if one.scale_set == each.scale_set)
            found[each.scale_set] = Subject(mates)
    return found


def test_whole(told: Any) -> None:
    """Each has VMs, resource group, time, advice, how it ends, links, and a short title."""
    first, subjects, _ = told
    found = []
    counts: Counter[tuple[str, str]] = Counter()
    for way, alerts in first.items():
        for key, alert in alerts.items():
            subject = subjects.get(key[1], Subject(("",), None))
            wrong = complaints(alert, subject.vms, subject.group)
            counts[key[0], way] += 1
            found += [f"{way}: {each}" for each in wrong]
            if wrong:
                counts[key[0], "not whole"] += 1
    print()
    names = sorted({name for name, _ in counts})
    for name in names:
        print(
            "|",
            name.removeprefix(PREFIX),
            "|",
            " | ".join(str(counts[name, c]) for c in (PROMETHEUS, VMALERT, PUSHES, "not whole")),
            "|",
        )
    print(sum(v for (n, w), v in counts.items() if w != "not whole"), "notifications")
    assert not found, "\n".join(found)
    assert sum(counts.values()) >= ENOUGH


def test_same(told: Any) -> None:
    """What is told of an event that stays as it is is the same by each way."""
    first, _, _ = told
    for key, alert in first[PUSHES].items():
        if key[1].startswith("PLACED"):
            for way in (PROMETHEUS, VMALERT):
                assert first[way][key]["annotations"] == alert["annotations"]


def test_print(told: Any) -> None:
    import json

    Path("/tmp/w/first.json").write_text(
        json.dumps({w: [a for a in f.values()] for w, f in told[0].items()}, indent=1)
    )
    Path("/tmp/w/slack.json").write_text(
        json.dumps([n.body for n in told[2] if n.path == "/slack"], indent=1)
    )
