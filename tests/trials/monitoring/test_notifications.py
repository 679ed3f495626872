"""Every first notification is whole, by the rules on both engines and by pushes, and all say the
same.
"""

import json
import os
import re
import signal
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from azure_scheduled_events_exporter.alerts import resolve
from azure_scheduled_events_exporter.commands.cli import main
from support.monitoring.notification_text import complaints
from support.monitoring.paging import Alertmanager, Receiver, Stack, query, receivers
from support.monitoring.victoria import VictoriaStack
from support.programs import Program, eventually
from trials.monitoring.notifications import PREFIX, Fleet, Subject

SETTINGS = {
    "scrape.interval": "2s",
    "evaluation.interval": "2s",
    "group.wait": "0s",
    "group.interval": "1s",
    "severities": "EvictionRisk=warning",  # info notifies nobody
}
PROMETHEUS = "rules on Prometheus"
VMALERT = "rules on vmalert"
PUSHES = "pushes"
ENOUGH = 100
"""Fewer notifications would mean that a part of the fleet was left out."""
ABOUT_EVENTS = {"NotApproved", "Overdue", "StartedTooLong", "PausedLonger"}
SAVED = "NOTIFICATIONS"
"""Environment variable: a file for the messages that a chat shows, as JSON."""

Key = tuple[str, str]
"""An alert's name, and the event, VM, scale set or target that it is about."""


@dataclass(frozen=True)
class FirstNotifications:
    """What was notified first.

    Attributes:
        by_way: the first notification of each alert, by rules on each engine and by pushes.
        placed: the alerts about events that stay current until the end of the test.
        subjects: the VMs and the resource group of each event, VM, scale set and target.
    """

    by_way: Mapping[str, Mapping[Key, Mapping[str, Any]]]
    placed: Collection[Key]
    subjects: Mapping[str, Subject]


def key_of(alert: Mapping[str, Any]) -> Key:
    """Return what an alert is about."""
    labels = alert["labels"]
    names = ("event_id", "vm_name", "scale_set", "instance")
    return labels["alertname"], next(labels[name] for name in names if labels.get(name))


def first_of_each(receiver: Receiver) -> dict[Key, Mapping[str, Any]]:
    """Return the first notification of each alert."""
    first: dict[Key, Mapping[str, Any]] = {}
    for notification in receiver.webhooks():
        for alert in notification.body["alerts"]:
            if alert["status"] == "firing":
                first.setdefault(key_of(alert), alert)
    return first


def hurry(folder: Path, engine: Program) -> None:
    """Load the rules again without the minutes for which expressions must hold."""
    file = folder / "prometheus" / "prometheus-rules.yml"
    text, count = re.subn(r"(?m)^( +)for: \d+m$", r"\1for: 2s", file.read_text())
    assert count
    file.write_text(text)
    engine.process.send_signal(signal.SIGHUP)


@pytest.fixture(scope="module")
def notified(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FirstNotifications]:
    """Play the fleet beside both engines, and an Alertmanager that gets pushes only."""
    folder = tmp_path_factory.mktemp("notifications")
    for name in ("pushes", "prometheus", "victoria"):
        (folder / name).mkdir()
    values = folder / "values.yaml"
    values.write_text("severities: {EvictionRisk: warning}\n")
    with ExitStack() as stack:
        pushed = stack.enter_context(Receiver())
        settings = resolve({**receivers(pushed.url), **SETTINGS})
        alertmanager = stack.enter_context(Alertmanager(folder / "pushes", settings))
        fleet = stack.enter_context(Fleet(folder / "fleet", alertmanager.url, values))
        prometheus = Stack(folder / "prometheus", SETTINGS, fleet.targets, slack=True)
        stack.enter_context(prometheus)
        victoria = VictoriaStack(folder / "victoria", SETTINGS, fleet.targets)
        stack.enter_context(victoria)
        hurry(folder / "prometheus", prometheus.prometheus)
        hurry(folder / "victoria", victoria.programs["vmalert"])
        for chain in (prometheus, victoria):
            chain.wait_for_targets(len(fleet.targets))
            _wait_for_hits(chain.url, fleet)
        drill = ["drill", "--timeout", "20s", "--alertmanager"]
        assert main([*drill, alertmanager.url]) == 0
        assert main([*drill, prometheus.alertmanager.url]) == 0
        fleet.play()
        eventually(fleet.is_played, "all events are announced", 120)
        ways = {PROMETHEUS: prometheus.receiver, VMALERT: victoria.receiver, PUSHES: pushed}
        _wait_for_all(ways, fleet)
        _save(prometheus.receiver)
        first = {way: first_of_each(receiver) for way, receiver in ways.items()}
        yield FirstNotifications(first, fleet.placed.keys(), subjects_of(fleet))


def _wait_for_hits(url: str, fleet: Fleet) -> None:
    """Wait until the rules know of the event that a VM does not survive."""
    for each in fleet.troubles:
        if each.alert == "VmNotBack":
            hit = f'azure_scheduled_events:vm{{vm_name="{each.vm}"}}'
            eventually(partial(query, url, hit), "a VM is known to be hit", 120)


def _wait_for_all(ways: Mapping[str, Receiver], fleet: Fleet) -> None:
    events = {*fleet.placed, *fleet.scenario_events()}
    by_rules = {*events, *_others(fleet)}
    wanted = {PROMETHEUS: by_rules, VMALERT: by_rules, PUSHES: events}

    def missing() -> list[tuple[str, Key]]:
        return [
            (way, key)
            for way, receiver in ways.items()
            for key in wanted[way] - first_of_each(receiver).keys()
        ]

    eventually(missing, "nothing is missing", 300, until=lambda found: not found)


def _others(fleet: Fleet) -> Iterator[Key]:
    """Yield the alerts that only rules raise, because no exporter pushes them."""
    yield f"{PREFIX}Reboot", "NAMELESS"  # an event without VMs, so no exporter's own
    for each in fleet.troubles:
        about = each.target
        if each.alert in ABOUT_EVENTS:
            about = each.event_id
        elif each.alert == "VmNotBack":
            about = each.vm
        elif each.alert == "ScaleSetHit":
            about = each.scale_set
        yield PREFIX + each.alert, about


def _save(receiver: Receiver) -> None:
    """Save what a chat shows, for people to read."""
    if SAVED in os.environ:
        shown = [each.body for each in receiver.notifications if each.path == "/slack"]
        Path(os.environ[SAVED]).write_text(json.dumps(shown))


def subjects_of(fleet: Fleet) -> dict[str, Subject]:
    """Return the VMs and the resource group of each event, VM, scale set and target."""
    found = {"NAMELESS": Subject(()), **fleet.scenario_sets()}
    events = {**fleet.placed, **fleet.scenario_events()}
    found |= {event: subject for (_, event), subject in events.items()}
    for each in fleet.troubles:
        subject = Subject((each.vm,))
        found |= {each.target: subject, each.vm: subject, each.event_id: subject}
        if each.scale_set:
            mates = tuple(one.vm for one in fleet.troubles if one.scale_set == each.scale_set)
            found[each.scale_set] = Subject(mates)
    return found


def test_every_first_notification_is_whole(notified: FirstNotifications) -> None:
    """Each first notification has VMs, resource group, time, advice, how the alert ends, links,
    and a short title.
    """
    found = []
    counts: Counter[tuple[str, str]] = Counter()  # by alert and way
    of_the_drill = Subject(("DRILL-vmss_0",), "simulated")  # whose events have ids made at random
    for way, alerts in notified.by_way.items():
        for (alertname, about), alert in alerts.items():
            subject = notified.subjects.get(about, of_the_drill)
            found += [f"{way}: {each}" for each in complaints(alert, subject.vms, subject.group)]
            counts[alertname.removeprefix(PREFIX), way] += 1
    print(_table(counts, len(found)))
    assert not found, "\n".join(found)
    assert counts.total() >= ENOUGH


def _table(counts: Counter[tuple[str, str]], wrong: int) -> str:
    """Return how many notifications of each alert came, by way, for people to read."""
    ways = (PROMETHEUS, VMALERT, PUSHES)
    rows: list[Sequence[object]] = [("alert", *ways), ("---",) * 4]
    rows += [
        (name, *(counts[name, way] for way in ways))
        for name in sorted({name for name, _ in counts})
    ]
    rows.append((f"{counts.total()}, {wrong} complaints", *("" for _ in ways)))
    return "\n" + "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


def test_rules_and_pushes_write_the_same_texts(notified: FirstNotifications) -> None:
    """Of an event that stays as it is, the texts by rules on both engines are those by pushes."""
    for key in notified.placed:
        pushed = notified.by_way[PUSHES][key]["annotations"]
        for way in (PROMETHEUS, VMALERT):
            assert notified.by_way[way][key]["annotations"] == pushed
