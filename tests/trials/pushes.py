"""Exporters that push are killed again and again during events, Alertmanager restarts: one page, one resolve an event.

Every VM has a journal, and one event after another. There is no Prometheus. At the end, one VM goes down with its event
and comes back when that is over, and another one never does.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from alerts import resolve
from azure_scheduled_events_exporter.simulator import PlannedEvent, Scenario, Simulator, VirtualMachine
from deploy.stack.free_port import free_port
from support.monitoring.paging import Alertmanager, Receiver, receivers
from support.monitoring.plays import ENDED, pushing
from support.programs import Exporter, eventually
from trials.notified import Account, Event, Run, group, notifications
from trials.trial import POLL, Crew, Order, Row

_SPEED = 60.0
_VALUES = {"group.interval": "1s", "group.wait": "0s", "memory": "20s", "longest": "1m"}
_PATIENCE = 180.0


class _Vm:
    """One VM with its journal, its exporter, and the simulator that announces its events."""

    def __init__(self, name: str, order: Order, alertmanager: str, crew: Crew, stack: ExitStack) -> None:
        folder = order.folder / name
        folder.mkdir()
        self.name = name
        self._crew = crew
        self._flags = (*pushing(folder, alertmanager, _VALUES), *POLL, "--journal.path", str(folder / "journal"))
        self.vm = VirtualMachine(name, scale_set=name)
        self.simulator = stack.enter_context(Simulator(Scenario("waiting", "", (self.vm,), ()), speed=_SPEED))
        self.begun: list[str] = []
        self.runs: list[Run] = []
        self.exporter = self.start()

    def start(self) -> Exporter:
        """Start the exporter."""
        self.exporter = self._crew.start(self.simulator.url, *self._flags)
        self.runs.append(Run(self.exporter.output))
        return self.exporter

    def kill(self) -> None:
        """End the exporter with SIGKILL."""
        self.runs[-1].ended = time.time()
        self.exporter.kill()

    def announce(self, notice: float = 240, started_for: float = 240) -> None:
        """Announce an event; times are of the scenario, 60 times as fast."""
        event = PlannedEvent("Reboot", (self.name,), announced_at=0, notice=notice, started_for=started_for)
        before = len(self.simulator.record)
        self.simulator.play(Scenario(self.name, "", (self.vm,), (event,)), _SPEED)
        found = eventually(lambda: self.simulator.record[before:], "the event is announced")
        self.begun.append(found[0].event_id.upper())

    @property
    def is_over(self) -> bool:
        """Whether the event has come and gone."""
        return any(each.what in ENDED and each.event_id.upper() == self.begun[-1] for each in self.simulator.record)


class _Team:
    """The team's Alertmanager, which keeps its files and its address over restarts, and its pager."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.receiver = stack.enter_context(Receiver())
        self._settings = resolve({**receivers(self.receiver.url), **_VALUES})
        self._folder, self._stack = folder, stack
        self._port = free_port()
        self.runs: list[Run] = []
        self._alertmanager = self._start()
        self.url = self._alertmanager.url

    def restart(self) -> None:
        """End Alertmanager as a service manager does, and start it again."""
        run = self.runs[-1]
        run.ended = time.time()
        self._alertmanager.terminate()
        run.gone = time.time()
        run.log = run.log.rename(self._folder / f"{len(self.runs)}.log")
        self._alertmanager = self._start()

    def _start(self) -> Alertmanager:
        started = Alertmanager(self._folder, self._settings, port=self._port, flags=("--log.level=debug",))
        self.runs.append(Run(started.output))
        return self._stack.enter_context(started)


def run(order: Order) -> Row:
    """Kill, restart, and compare what the pager was told with the events that there were."""
    kills, vms, restarts = order.pick(200, 6), order.pick(4, 2), order.pick(20, 1)
    with ExitStack() as stack:
        team = _Team(order.folder / "alertmanager", stack)
        crew = stack.enter_context(Crew(order.folder / "crew"))
        fleet = [_Vm(f"vm_{number}", order, team.url, crew, stack) for number in range(vms)]
        pool = stack.enter_context(ThreadPoolExecutor(vms))
        torment = [pool.submit(_kill, each, kills // vms, order) for each in fleet]
        restarted = 0
        while restarted < restarts and not all(each.done() for each in torment):
            time.sleep(order.chance.uniform(2, 8))
            team.restart()
            restarted += 1
        for each in torment:
            each.result()
        away = [_Vm(f"away_{number}", order, team.url, crew, stack) for number in range(2)]
        order.say("the exporters have been killed")
        _go_down(team.receiver, *away, started=not order.short)
        order.say("the VMs have gone down")
        account = Account(
            [Event(each, vm.simulator.record, vm.runs) for vm in (*fleet, *away) for each in vm.begun],
            team.runs,
            team.receiver,
            prompt=order.pick(2.0, 5.0),
            recording=order.pick(0.25, 1.5),
        )
        end = time.monotonic() + _PATIENCE
        while not account.is_settled and time.monotonic() < end:
            time.sleep(0.1)
        order.say("every event is resolved" if account.is_settled else "not every event is resolved")
        time.sleep(order.pick(20, 5))  # what should not come has time to come
        explained = account.check(order.say)
    return Row(
        "pushes",
        f"{kills} SIGKILLs of {vms} exporters that push, {restarted} restarts of Alertmanager, "
        f"{len(account.events)} events, seed {order.seed}",
        f"one page and one resolve for each event, none left over{explained}",
    )


def _kill(vm: _Vm, kills: int, order: Order) -> None:
    """Let event follow event, and kill the exporter so often at moments left to chance."""
    left = kills
    while left:
        # After the last kill of the short form, enough of the event is left for a push that may be late.
        vm.announce(order.pick(240.0, 480.0))
        # One that comes and goes while the exporter is down is seen by nobody.
        vm.exporter.shows("the event", lambda scrape: scrape.series("event_info"))
        while not vm.is_over and left:
            time.sleep(order.chance.uniform(0.0, 2.0))
            vm.kill()
            vm.start()
            left -= 1
        eventually(lambda: vm.is_over, "the event is over", _PATIENCE)
        # The next one makes the simulator forget this one: the exporter has to have seen the end.
        vm.exporter.shows("no event", lambda scrape: scrape.value("up") == 1 and not scrape.series("event_info"))


def _go_down(receiver: Receiver, back: _Vm, never: _Vm, *, started: bool) -> None:
    """Let both VMs go down with their events, ``never`` once it has ``started`` or before; ``back`` returns."""
    for vm in (back, never):
        vm.announce()
    ids = {back.begun[0], never.begun[0]}
    eventually(lambda: {group(each) for each in notifications(receiver, "firing")} >= ids, "both have paged")
    if not started:
        never.kill()
    back.exporter.shows("Started", lambda scrape: scrape.total("started", scope="self") == 1)
    back.kill()
    never.kill()
    eventually(lambda: back.is_over and never.is_over, "both events are over", _PATIENCE)
    back.start()
