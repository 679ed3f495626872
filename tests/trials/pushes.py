"""Exporters that push are killed again and again in mid event, Alertmanager restarts: one page, one resolve an event.

Every VM has a journal, and one event after another. There is no Prometheus. At the end, one VM goes down with its event
and comes back when that is over, and another one never does.
"""

import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from alerts import Settings, resolve
from azure_scheduled_events_exporter.simulator import PlannedEvent, Scenario, Simulator, VirtualMachine
from support.monitoring.paging import Alertmanager, Receiver, receivers
from support.monitoring.plays import ENDED, pushing
from support.programs import Exporter, eventually, free_port
from trials.trial import POLL, Crew, Order, Row

_SPEED = 60.0
_VALUES = {"group.interval": "1s", "group.wait": "0s", "memory": "20s", "longest": "1m"}
_PATIENCE = 180.0


class _Vm:
    """One VM with its journal, its exporter, and the simulator that announces its events."""

    def __init__(self, name: str, folder: Path, alertmanager: str, crew: Crew, stack: ExitStack) -> None:
        folder.mkdir()
        self._name = name
        self._crew = crew
        self._flags = (*pushing(folder, alertmanager, _VALUES), *POLL, "--journal.path", str(folder / "journal"))
        self.vm = VirtualMachine(name, scale_set=name)
        self.simulator = stack.enter_context(Simulator(Scenario("waiting", "", (self.vm,), ()), speed=_SPEED))
        self.begun: list[str] = []
        self.exporter = self.start()

    def start(self) -> Exporter:
        """Start the exporter."""
        self.exporter = self._crew.start(self.simulator.url, *self._flags)
        return self.exporter

    def announce(self, notice: float = 240, started_for: float = 240) -> None:
        """Announce an event; times are of the scenario, 60 times as fast."""
        event = PlannedEvent("Reboot", (self._name,), announced_at=0, notice=notice, started_for=started_for)
        before = len(self.simulator.record)
        self.simulator.play(Scenario(self._name, "", (self.vm,), (event,)), _SPEED)
        found = eventually(lambda: self.simulator.record[before:], "the event is announced")
        self.begun.append(found[0].event_id.upper())

    @property
    def is_over(self) -> bool:
        """Whether the event has come and gone."""
        return any(each.what in ENDED and each.event_id.upper() == self.begun[-1] for each in self.simulator.record)


def run(order: Order) -> Row:
    """Kill, restart, and compare what the pager was told with the events that there were."""
    kills, vms, restarts = order.pick(200, 6), order.pick(4, 2), order.pick(5, 1)
    with ExitStack() as stack:
        receiver = stack.enter_context(Receiver())
        settings = resolve({**receivers(receiver.url), **_VALUES})
        port = free_port()
        alertmanager = [stack.enter_context(Alertmanager(order.folder / "alertmanager", settings, port=port))]
        crew = stack.enter_context(Crew(order.folder / "crew"))
        url = alertmanager[0].url
        fleet = [_Vm(f"vm_{number}", order.folder / f"vm_{number}", url, crew, stack) for number in range(vms)]
        torment = [threading.Thread(target=_kill, args=(each, kills // vms, order)) for each in fleet]
        for each in torment:
            each.start()
        for _ in range(restarts):
            time.sleep(order.chance.uniform(2, 6))
            alertmanager.append(_restarted(alertmanager[-1], order.folder, settings, port, stack))
        for each in torment:
            each.join()
        away = [_Vm(f"away_{number}", order.folder / f"away_{number}", url, crew, stack) for number in range(2)]
        order.say("the exporters have been killed")
        _go_down(receiver, *away, started=not order.short)
        order.say("the VMs have gone down")
        events = [event_id for each in (*fleet, *away) for event_id in each.begun]
        # Nobody can page for an event that comes and goes while Alertmanager or its exporter is down.
        pushed = {event_id for event_id in events if _was_pushed(order.folder / "crew", event_id)}
        assert len(set(events) - pushed) <= restarts, f"never pushed: {set(events) - pushed}"
        end = time.monotonic() + _PATIENCE
        while not _told(receiver, "resolved").keys() >= pushed and time.monotonic() < end:
            time.sleep(0.1)
        assert not pushed - _told(receiver, "resolved").keys(), "not every event that was pushed is resolved"
        order.say("every event is resolved")
        time.sleep(order.pick(20, 5))  # what should not come has time to come
        for status in ("firing", "resolved"):
            wrong = {each: count for each, count in _told(receiver, status).items() if count != 1}
            assert not wrong, f"{status} more than once: {wrong}"
            assert _told(receiver, status).keys() == pushed
    return Row(
        "pushes",
        f"{kills} SIGKILLs of {vms} exporters that push, {restarts} restarts of Alertmanager, {len(events)} events",
        "one page and one resolve for each event, none left over",
    )


def _kill(vm: _Vm, kills: int, order: Order) -> None:
    """Let event follow event, and kill the exporter so often at moments left to chance."""
    left = kills
    while left:
        vm.announce()
        # One that comes and goes while the exporter is down is seen by nobody.
        vm.exporter.shows("the event", lambda scrape: scrape.series("event_info"))
        while not vm.is_over and left:
            time.sleep(order.chance.uniform(0.0, 2.0))
            vm.exporter.kill()
            vm.start()
            left -= 1
        eventually(lambda: vm.is_over, "the event is over", _PATIENCE)
        # The next one makes the simulator forget this one: the exporter has to have seen the end.
        vm.exporter.shows("no event", lambda scrape: scrape.value("up") == 1 and not scrape.series("event_info"))


def _restarted(old: Alertmanager, folder: Path, settings: Settings, port: int, stack: ExitStack) -> Alertmanager:
    old.terminate()
    return stack.enter_context(Alertmanager(folder / "alertmanager", settings, port=port))


def _go_down(receiver: Receiver, back: _Vm, never: _Vm, *, started: bool) -> None:
    """Let both VMs go down with their events, ``never`` once it has ``started`` or before; ``back`` returns."""
    for vm in (back, never):
        vm.announce()
    eventually(lambda: _told(receiver, "firing").keys() >= {back.begun[0], never.begun[0]}, "both have paged")
    if not started:
        never.exporter.kill()
    back.exporter.shows("Started", lambda scrape: scrape.total("started", scope="self") == 1)
    back.exporter.kill()
    never.exporter.kill()
    eventually(lambda: back.is_over, "the event is over", _PATIENCE)
    back.start()


def _was_pushed(logs: Path, event_id: str) -> bool:
    """Return whether Alertmanager accepted the alert of the event while it held, by the logs of the exporters."""
    wanted = f"event_id={event_id} "
    lines = (line for path in logs.glob("*.log") for line in path.read_text(errors="replace").splitlines())
    return any('msg="alert pushed"' in line and wanted in line for line in lines)


def _told(receiver: Receiver, status: str) -> Mapping[str, int]:
    """Return how many notifications of ``status`` there were, by event."""
    told: dict[str, int] = {}
    for each in receiver.webhooks():
        if each.body["status"] == status:
            event_id = each.body["groupLabels"]["event_id"]
            told[event_id] = told.get(event_id, 0) + 1
    return told
