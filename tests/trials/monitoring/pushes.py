"""Exporters push beside a Prometheus with the rules: exactly one page and one resolve for each
event that deserves one.

All scenarios of the simulator play at once, 30 times as fast, while exporters are killed, one VM is
away with its reboot, and Alertmanager and Prometheus restart. What is waited for after the end is
not shortened: the resolve comes three minutes later.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self
from urllib.parse import urlsplit

from azure_scheduled_events_exporter.alerts import resolve
from azure_scheduled_events_exporter.simulator import (
    PlannedEvent,
    Scenario,
    Simulator,
    VirtualMachine,
    What,
    find,
)
from azure_scheduled_events_exporter.simulator.document import ADVICE
from deploy.stack.free_port import free_port
from support.monitoring.notification_text import complaints
from support.monitoring.paging import Alertmanager, Receiver, RuledPrometheus, Stack, receivers
from support.monitoring.victoria import VictoriaStack
from support.programs import Exporter, eventually
from support.servers.relay import Relay
from trials.trial import Crew, Order, Row

PREFIX = "AzureScheduledEvent"
EXPECTED: Mapping[str, str] = MappingProxyType(
    {
        "live-migration": "",
        "host-maintenance": "Freeze",
        "user-reboot": "Requested",
        "user-redeploy": "Requested",
        "spot-preempt": "Preempt",
        "terminate": "Requested",
        "cancelled": "Freeze",
        "host-failure": "WithoutNotice",
        "degraded-host": "DegradedHost",
        "rollout": "",
        "waiting-neighbors": "Requested",
        "single-fault-domain": "Reboot",
        "automatic-approval": "Requested",
        "spot-advice": "Preempt",
    }
)
"""The alert of each scenario's events; "" for a scenario that notifies nobody."""


class Alone:
    """An Alertmanager and a webhook receiver, without rules."""

    def __init__(self, folder: Path, values: dict[str, str], _: list[str]) -> None:
        self._stack = ExitStack()
        self.receiver = self._stack.enter_context(Receiver())
        self.alertmanager = Alertmanager(
            folder, resolve({**receivers(self.receiver.url), **values})
        )

    def wait_for_targets(self, _: int) -> None:
        """Nobody scrapes."""

    def __enter__(self) -> Self:
        self._stack.enter_context(self.alertmanager)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


_Chain = Alone | Stack | VictoriaStack
_ENGINES: Mapping[str, Callable[[Path, dict[str, str], list[str]], _Chain]] = MappingProxyType(
    {"nothing": Alone, "Prometheus": Stack, "VictoriaMetrics": VictoriaStack}
)
_SPEED = 30.0
PEER = "peer"
"""The VM of a scenario whose exporter reaches IMDS by way of the relay."""
_DAY = 86_400.0
_AWAY = "single-fault-domain"
_PATIENCE = 1200.0


class Play:
    """One scenario: its simulator, and the exporters of its VMs, each with a journal."""

    def __init__(
        self,
        scenario: Scenario,
        order: Order,
        alertmanager: str,
        ports: Mapping[str, int],
        crew: Crew,
        stack: ExitStack,
        speed: float = _SPEED,
    ) -> None:
        self.scenario = scenario
        self._order = order
        self._alertmanager = alertmanager
        self._ports = ports
        self._crew = crew
        waiting = Scenario("waiting", "", scenario.vms, ())
        self._speed = speed
        self.simulator = stack.enter_context(Simulator(waiting, speed=speed))
        self.relay = stack.enter_context(Relay(int(urlsplit(self.simulator.url).port or 0)))
        self.exporters = {vm.name: self._start(vm.name) for vm in scenario.vms}

    def _start(self, vm: str) -> Exporter:
        flags = (
            "--alertmanager.url",
            self._alertmanager,
            "--web.listen-address",
            f"127.0.0.1:{self._ports[vm]}",
        )
        journal = ("--journal.path", str(self._order.folder / f"journal-{vm}"))
        url = self.simulator.vm_url(vm)
        if vm.endswith(PEER):
            port = urlsplit(url).port
            url = url.replace(f":{port}/", f":{self.relay.port}/")
        return self._crew.start(url, "--instance.name", vm, *flags, *journal)

    def begin(self) -> None:
        """Let the events of the scenario come."""
        self.simulator.play(self.scenario, self._speed)

    def kill(self, vm: str, away: float = 0.0) -> None:
        """End the exporter of ``vm`` with SIGKILL, and start it again ``away`` seconds later."""
        self.exporters[vm].kill()
        time.sleep(away)
        self.exporters[vm] = self._start(vm)

    @property
    def is_over(self) -> bool:
        """Whether all events have come and gone."""
        ends = {What.COMPLETED, What.CANCELLED, What.WITHDRAWN}
        ended = [each for each in self.simulator.record if each.what in ends]
        return len(ended) >= len(self.scenario.events)


def scenario_of(name: str, *, peer: bool = False) -> Scenario:
    """Return the scenario ``name`` with VMs of its own. Days of notice stay days.

    ``peer``: one more VM of the scale set, that no event hits.
    """
    [scenario] = find(name)
    named = {vm.name: f"{name}-{vm.name}" for vm in scenario.vms}
    events = tuple(_event(each, named) for each in scenario.events)
    hit = {vm for each in events for vm in each.resources}
    vms = tuple(_vm(vm, name) for vm in scenario.vms if named[vm.name] in hit)
    if peer:
        vms += (_vm(replace(scenario.vms[0], name=PEER), name),)
    return Scenario(name, "", vms, events)


def _event(event: PlannedEvent, named: Mapping[str, str]) -> PlannedEvent:
    notice = event.notice * _SPEED if event.notice > _DAY else event.notice
    return replace(event, resources=tuple(named[vm] for vm in event.resources), notice=notice)


def _vm(vm: VirtualMachine, scenario: str) -> VirtualMachine:
    name = f"{scenario}-{vm.name}"
    return replace(vm, name=name, scale_set=scenario, vm_id=f"id-{name}")


def run(order: Order) -> Row:
    """Play, kill, restart, and compare the notifications with the events that there were,
    beside each engine.
    """
    kills = order.pick(50, 10)
    engines = ("Prometheus",) if order.short else tuple(_ENGINES)
    counts = []
    for engine in engines:
        order.say(f"beside {engine}")
        folder = order.folder / engine
        folder.mkdir()
        counts.append(_play(engine, replace(order, folder=folder), kills))
    exporters, events = counts[0]
    return Row(
        "pushes",
        f"all scenarios, {exporters} exporters that push beside {' and beside '.join(engines)},"
        f" {kills} SIGKILLs, a VM away with its reboot, restarts of Alertmanager and Prometheus,"
        f" seed {order.seed}",
        f"one page and one resolve for each of {events} events, none for the others",
    )


def _play(engine: str, order: Order, kills: int) -> tuple[int, int]:
    """Return how many exporters pushed, and how many events were notified."""
    with ExitStack() as stack:
        scenarios = [scenario_of(name) for name in EXPECTED]
        ports = {vm.name: free_port() for scenario in scenarios for vm in scenario.vms}
        targets = [f"127.0.0.1:{port}" for port in ports.values()]
        # At this pace, a warning would wait for longer than its event lasts.
        chain = _ENGINES[engine](order.folder, {"group.wait": "0s"}, targets)
        stack.enter_context(chain)
        crew = stack.enter_context(Crew(order.folder / "crew"))
        plays = [
            Play(each, order, chain.alertmanager.url, ports, crew, stack) for each in scenarios
        ]
        chain.wait_for_targets(len(targets))
        order.say(f"{len(targets)} exporters are scraped")
        for play in plays:
            play.begin()
        with ThreadPoolExecutor(3) as pool:
            jobs = [
                pool.submit(
                    _stay_away, next(each for each in plays if each.scenario.name == _AWAY), order
                ),
                pool.submit(
                    _kill, [each for each in plays if each.scenario.name != _AWAY], kills, order
                ),
                *(
                    [pool.submit(_restart, chain, order, targets)]
                    if isinstance(chain, Stack)
                    else []
                ),
            ]
            for job in jobs:
                job.result()
        eventually(lambda: all(each.is_over for each in plays), "all events are over", _PATIENCE)
        order.say("all events are over")
        return len(targets), _check(plays, chain.receiver, order)


def _check(plays: Sequence[Play], receiver: Receiver, order: Order) -> int:
    """Return how many events were notified; fail unless each had one page and one resolve, and the
    others none.
    """
    expected = {
        each.event_id.upper(): expected_of(play.scenario.name, each.event_type)
        for play in plays
        for each in play.simulator.record
    }
    wanted = {event_id: _once(alert) for event_id, alert in expected.items()}
    end = time.monotonic() + 300
    while (
        any(notified_by_event(receiver)[each] != wanted[each] for each in wanted)
        and time.monotonic() < end
    ):
        time.sleep(1)
    time.sleep(order.pick(300, 60))  # what should not come has time to come
    found = notified_by_event(receiver)
    wrong = [
        (each, expected[each], found[each]) for each in expected if found[each] != wanted[each]
    ]
    assert not wrong, wrong
    vms = {
        each.event_id.upper(): {vm.name for vm in play.scenario.vms}
        for play in plays
        for each in play.simulator.record
    }
    incomplete = [
        each
        for alert in first_notifications(receiver)
        for each in complaints(alert, vms[event_of(alert)])
    ]
    assert not incomplete, incomplete
    return sum(map(bool, wanted.values()))


def expected_of(scenario: str, event_type: str) -> str:
    """Return the alert of an event, "" if it notifies nobody: an advice does not."""
    return "" if event_type == ADVICE else EXPECTED[scenario]


def _once(alert: str) -> Counter[tuple[str, str]]:
    return Counter(
        {(PREFIX + alert, status): 1 for status in ("firing", "resolved")} if alert else {}
    )


def notified_by_event(receiver: Receiver) -> Mapping[str, Counter[tuple[str, str]]]:
    """Return, by EventId, how often each alert was notified as ``firing`` and as ``resolved``."""
    found: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for notification in receiver.webhooks():
        for alert in notification.body["alerts"]:
            labels = alert["labels"]
            if "vm_name" not in labels:  # VmNotBack is about a VM
                found[labels.get("event_id", "")][labels["alertname"], alert["status"]] += 1
    return found


def event_of(alert: Mapping[str, Any]) -> str:
    """Return the id of the event that an alert is about."""
    return str(alert["labels"].get("event_id", ""))


def first_notifications(receiver: Receiver) -> list[Mapping[str, Any]]:
    """Return the first notification of each alert about each event."""
    first: dict[tuple[str, str], Mapping[str, Any]] = {}
    for notification in receiver.webhooks():
        for alert in notification.body["alerts"]:
            if event_of(alert) and alert["status"] == "firing":
                first.setdefault((event_of(alert), alert["labels"]["alertname"]), alert)
    return list(first.values())


def _kill(plays: list[Play], kills: int, order: Order) -> None:
    for _ in range(kills):
        time.sleep(order.chance.uniform(0.0, 3.0))
        play = order.chance.choice(plays)
        play.kill(order.chance.choice(list(play.exporters)))


def _stay_away(play: Play, order: Order) -> None:
    """Let a VM go down with its reboot, and come back minutes later."""
    vm = play.scenario.vms[0].name
    play.exporters[vm].shows("Started", lambda scrape: scrape.total("started", scope="self") == 1)
    play.kill(vm, away=order.pick(300.0, 60.0))


def _restart(chain: Stack, order: Order, targets: list[str]) -> None:
    """Restart Alertmanager, and then Prometheus, during the events."""
    time.sleep(order.chance.uniform(20, 40))
    chain.restart_alertmanager()
    time.sleep(order.chance.uniform(10, 20))
    chain.prometheus.terminate()
    address = chain.alertmanager.url.removeprefix("http://")
    chain.prometheus = RuledPrometheus(order.folder, chain.settings, address, targets)
