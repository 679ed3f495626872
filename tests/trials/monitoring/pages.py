"""Rules and pushes at a cluster of two Alertmanagers: exactly one page and one resolve for each
event that deserves one, whatever restarts or goes away meanwhile.

All scenarios of the simulator play at once, 30 times as fast, each beside a VM that loses IMDS.
Beside them, Preempts play at their own speed: each VM goes away seconds after the announcement, and
stays away. One VM is away for five minutes with its reboot. Alertmanagers and engines restart, also
without their data. At the end, the two Alertmanagers do not hear each other for a while. Holds, and
the three minutes to a resolve, are not shortened.

What both Alertmanagers send by their own limits (``repetitions.py``) is no failure. How often that
happened is part of the result.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from azure_scheduled_events_exporter.alerts import resolve
from azure_scheduled_events_exporter.simulator import PlannedEvent, Scenario, VirtualMachine
from deploy.stack.free_port import free_port
from support.monitoring.cluster import Cluster
from support.monitoring.notification_text import complaints
from support.monitoring.paging import (
    Receiver,
    query,
    receivers,
    wait_for_targets,
)
from support.programs import eventually
from trials.monitoring.pushes import (
    EXPECTED,
    PEER,
    PREFIX,
    Play,
    event_of,
    expected_of,
    first_notifications,
    notified_by_event,
    scenario_of,
)
from trials.monitoring.repetitions import repeated_by_event
from trials.monitoring.restarted_engines import ENGINES, Restart
from trials.trial import Crew, Order, Row, passes

_GOES_AFTER = (5.0, 7.0, 9.0, 11.0, 13.0, 15.0)
"""Seconds from the announcement of a Preempt until its VM is gone."""
_EVICTED = "evicted"
_ALONE = "alone"
_REBOOTED = "single-fault-domain"
_BEFORE = "before"
_DURING = "during"
_PATIENCE = 1200.0


def run(order: Order) -> Row:
    """Play beside each engine, and compare the notifications with the events."""
    counts = {}
    repeated: Counter[str] = Counter()  # by status
    for engine in tuple(ENGINES)[: order.pick(2, 1)]:
        folder = order.folder / engine
        folder.mkdir()
        order.say(f"beside {engine}")
        with ExitStack() as stack:
            trial = _Trial(engine, replace(order, folder=folder), stack)
            counts[engine] = trial.run()
            repeated += trial.repeated()
    goes_after = _goes_after(order)
    what = (
        f"all scenarios, each with a peer that loses IMDS, {len(goes_after)} Preempts whose VM goes"
        f" {goes_after[0]:.0f} to {goes_after[-1]:.0f} s after the announcement, a VM away with its"
        f" reboot for {order.pick(300, 60)} s, beside {' and beside '.join(counts)}; two"
        " Alertmanagers and the engines restart, Prometheus also without its data"
    )
    result = f"one page and one resolve for each of {max(counts.values())} events, none for others"
    if not order.short:
        what += "; the Alertmanagers do not hear each other for a minute"
        result += "; a page by each Alertmanager for an event that is announced meanwhile"
    if repeated["resolved"]:
        result += f"; {repeated['resolved']} resolves came from both Alertmanagers"
    if repeated["firing"]:
        result += f"; {repeated['firing']} pages came again just after the resolve"
    return Row("pages", f"{what}, seed {order.seed}", result)


def _goes_after(order: Order) -> tuple[float, ...]:
    return _GOES_AFTER[: order.pick(len(_GOES_AFTER), 2)]


class _Trial:
    """All exporters, one engine, the cluster, and who is paged."""

    def __init__(self, engine: str, order: Order, stack: ExitStack) -> None:
        self._order = order
        self._keeps_data = engine != "Prometheus"
        self._began = time.monotonic()
        self._receiver = stack.enter_context(Receiver())
        # At this pace, a warning would wait for longer than its event lasts.
        values = {**receivers(self._receiver.url), "group.wait": "0s"}
        settings = resolve(values)
        self._cluster = stack.enter_context(Cluster(order.folder, settings))
        scenarios = self._scenarios()
        ports = {vm.name: free_port() for each in scenarios for vm in each.vms}
        targets = [f"127.0.0.1:{port}" for port in ports.values()]
        self._engine = ENGINES[engine](order.folder, settings, self._cluster.urls, targets)
        stack.callback(self._engine.close)
        crew = stack.enter_context(Crew(order.folder / "crew"))
        pushed_to = ",".join(self._cluster.urls)
        self._plays = {
            each.name: Play(each, order, pushed_to, ports, crew, stack, *self._speed(each))
            for each in scenarios
        }
        wait_for_targets(self._engine.url, len(targets))
        self._cluster.settle()
        order.say(f"{len(targets)} exporters are scraped")

    def _scenarios(self) -> list[Scenario]:
        evicted = [f"{_EVICTED}-{seconds:.0f}" for seconds in _goes_after(self._order)]
        # Prometheus loses its data: then nobody knows when the event of a lone VM is to resolve.
        lone = [_ALONE] if self._keeps_data and not self._order.short else []
        return [
            *(scenario_of(name, peer=True) for name in EXPECTED),
            _slow(_EVICTED, "Preempt", evicted, [f"{_EVICTED}-good", f"{_EVICTED}-{PEER}"]),
            *(_slow(name, "Preempt", [f"{name}-9"]) for name in lone),
            *(_slow(name, "Reboot", [name]) for name in (_BEFORE, _DURING)),
        ]

    @staticmethod
    def _speed(scenario: Scenario) -> tuple[float, ...]:
        return () if scenario.name in EXPECTED else (1.0,)

    def run(self) -> int:
        """Play all scenarios with all troubles; return how many events were notified."""
        events = {
            name: play for name, play in self._plays.items() if name not in {_BEFORE, _DURING}
        }
        for play in events.values():
            play.begin()
        with ThreadPoolExecutor(32) as pool:
            jobs = [
                pool.submit(self._stay_away, events[_REBOOTED]),
                pool.submit(self._restart),
                *(pool.submit(self._lose_imds, play) for play in events.values()),
                *(
                    pool.submit(self._go, play, vm, float(vm.rpartition("-")[2]))
                    for play in events.values()
                    for event in play.scenario.events
                    for vm in event.resources
                    if play.scenario.name in {_EVICTED, _ALONE}
                ),
            ]
            for job in jobs:
                job.result()
        eventually(lambda: all(each.is_over for each in events.values()), "the end", _PATIENCE)
        self._order.say("all events are over")
        count = self._check(events)
        self._order.say(f"{count} events were notified once")
        if self._order.short:
            return count
        self._part()
        return count + 2

    def _lose_imds(self, play: Play) -> None:
        """Let the peer lose IMDS at a moment of the events, for good."""
        time.sleep(self._order.chance.uniform(2.0, 60.0))
        play.relay.cut()

    def _go(self, play: Play, vm: str, seconds: float) -> None:
        """End a VM so many seconds after its event was announced, for good."""
        exporter = play.exporters[vm]
        exporter.shows("its event", lambda scrape: scrape.total("event_info", scope="self") == 1)
        time.sleep(seconds)
        exporter.kill()

    def _stay_away(self, play: Play) -> None:
        """Let a VM go down with its reboot, and come back minutes later."""
        vm = play.scenario.vms[0].name
        play.exporters[vm].shows("Started", lambda scrape: scrape.total("started", scope="self"))
        play.kill(vm, away=self._order.pick(300.0, 60.0))

    def _restart(self) -> None:
        """Restart Alertmanagers and the engine, one after another, until all events are over."""
        restarts: list[Restart] = [
            *((f"Alertmanager {n} restarts", partial(self._cluster.restart, n)) for n in (0, 1)),
            *self._engine.restarts(),
        ]
        rounds = self._order.pick(3, 1)
        for name, trouble in restarts * rounds:
            time.sleep(self._order.chance.uniform(10.0, 30.0))
            self._order.say(name)
            trouble()
        # The loss of data comes last, when both Alertmanagers know again what fires. Otherwise
        # nobody would know of the alert of a VM that is gone, and it would not be resolved: a known
        # limit.
        for name, trouble in self._engine.losses():
            eventually(self._is_all_held, "both Alertmanagers hold what fires")
            self._order.say(name)
            trouble()
        self._cluster.settle()

    def _is_all_held(self) -> bool:
        """Whether both Alertmanagers hold every alert about an event that the engine fires."""
        firing = query(self._engine.url, 'ALERTS{alertstate="firing",event_id!=""}')
        return {labels["event_id"] for labels, _ in firing} <= self._cluster.held_by_each()

    def _check(self, plays: Mapping[str, Play]) -> int:
        """Fail unless each event was notified as it deserves; return how many were notified."""
        wanted = {
            each.event_id.upper(): _once(_alert(name, each.event_type))
            for name, play in plays.items()
            for each in play.simulator.record
        }
        self._wait_for(wanted, self._order.pick(900, 400))
        passes(self._order.pick(300, 60))  # what should not come has time to come
        self._compare(wanted)
        vms = {
            each.event_id.upper(): {vm.name for vm in play.scenario.vms}
            for play in plays.values()
            for each in play.simulator.record
        }
        incomplete = [
            each
            for alert in first_notifications(self._receiver)
            for each in complaints(alert, vms[event_of(alert)])
        ]
        assert not incomplete, incomplete
        return sum(map(bool, wanted.values()))

    def _wait_for(self, wanted: Mapping[str, Counter[tuple[str, str]]], seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = notified_by_event(self._receiver)
            if all(found[each] >= wanted[each] for each in wanted):
                return
            time.sleep(1)

    def repeated(self) -> Counter[str]:
        """Return how many pages and resolves the other Alertmanager sent too, by their status."""
        found: Counter[str] = Counter()
        for of_event in repeated_by_event(self._receiver).values():
            for (_, status), count in of_event.items():
                found[status] += count
        return found

    def _compare(self, wanted: Mapping[str, Counter[tuple[str, str]]]) -> None:
        found = notified_by_event(self._receiver)
        repeated = repeated_by_event(self._receiver)
        wrong = [each for each in wanted if found[each] - repeated[each] != wanted[each]]
        assert not wrong, "\n".join(
            f"{each}: {dict(wanted[each])} was wanted\n{self._story(each)}" for each in wrong
        )

    def _story(self, event_id: str) -> str:
        """Return the notifications of an event: when each came, and from which Alertmanager."""
        return "\n".join(
            f"  {notification.at - self._began:.0f} s {notification.body['externalURL']}"
            f" {alert['labels']['alertname']} {alert['status']}"
            f" from {alert['startsAt']} to {alert['endsAt']}"
            for notification in self._receiver.webhooks()
            for alert in notification.body["alerts"]
            if event_of(alert) == event_id
        )

    def _part(self) -> None:
        """Announce an event before and one while the Alertmanagers do not hear each other.

        Both Alertmanagers page the second one, since neither can know that the other does. After
        they hear each other again, nothing is paged anew, and each resolve comes once.
        """
        before = self._announce(_BEFORE)
        passes(10)  # until the other Alertmanager knows of the page
        self._cluster.part()
        self._order.say("the Alertmanagers do not hear each other")
        during = self._announce(_DURING)
        passes(40)
        self._cluster.join()
        self._order.say("the Alertmanagers hear each other again")
        wanted = {before: _once("Reboot"), during: _once("Reboot")}
        wanted[during][f"{PREFIX}Reboot", "firing"] = 2
        plays = [self._plays[name] for name in (_BEFORE, _DURING)]
        eventually(lambda: all(each.is_over for each in plays), "the end", _PATIENCE)
        self._wait_for(wanted, 400)
        passes(60)
        self._compare(wanted)

    def _announce(self, name: str) -> str:
        """Announce the event of a scenario; return its id once it is paged."""
        play = self._plays[name]
        play.begin()
        (first, *_) = eventually(lambda: play.simulator.record, "the announcement")
        event_id = first.event_id.upper()
        eventually(lambda: notified_by_event(self._receiver)[event_id], "the page", 120)
        return event_id


def _slow(name: str, event_type: str, hit: Sequence[str], others: Sequence[str] = ()) -> Scenario:
    """Return events that play at their own speed: one for each VM of ``hit``, 3 s apart."""
    vms = tuple(VirtualMachine(vm, scale_set=name, vm_id=f"id-{vm}") for vm in (*hit, *others))
    notice = 30.0 if event_type == "Preempt" else 90.0
    events = tuple(
        PlannedEvent(event_type, (vm,), announced_at=3.0 * number, notice=notice, started_for=40.0)
        for number, vm in enumerate(hit, 1)
    )
    return Scenario(name, "", vms, events)


def _alert(scenario: str, event_type: str) -> str:
    """Return the alert of an event, "" if it notifies nobody."""
    return expected_of(scenario, event_type) if scenario in EXPECTED else event_type


def _once(alert: str) -> Counter[tuple[str, str]]:
    statuses = ("firing", "resolved") if alert else ()
    return Counter({(PREFIX + alert, status): 1 for status in statuses})
