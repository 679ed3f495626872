"""Exporters that push are killed again and again in mid event, Alertmanager restarts: one page, one resolve an event.

Every VM has a journal, and one event after another. There is no Prometheus. At the end, one VM goes down with its event
and comes back when that is over, and another one never does.
"""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
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


@dataclass(frozen=True, order=True)
class _Moment:
    """What happened, and when, in seconds since the epoch."""

    at: float
    what: str


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
        self.moments: list[_Moment] = []
        self.exporter = self.start()

    def start(self) -> Exporter:
        """Start the exporter."""
        self.exporter = self._crew.start(self.simulator.url, *self._flags)
        self.moments.append(_Moment(time.time(), f"the exporter of {self.name} listens"))
        return self.exporter

    def kill(self) -> None:
        """End the exporter with SIGKILL."""
        self.exporter.kill()
        self.moments.append(_Moment(time.time(), f"the exporter of {self.name} was killed"))

    def announce(self, notice: float = 240, started_for: float = 240) -> None:
        """Announce an event; times are of the scenario, 60 times as fast."""
        event = PlannedEvent("Reboot", (self.name,), announced_at=0, notice=notice, started_for=started_for)
        before = len(self.simulator.record)
        self.simulator.play(Scenario(self.name, "", (self.vm,), (event,)), _SPEED)
        found = eventually(lambda: self.simulator.record[before:], "the event is announced")
        self.begun.append(found[0].event_id.upper())
        self.moments.append(_Moment(time.time(), f"announced {self.begun[-1]}"))

    @property
    def is_over(self) -> bool:
        """Whether the event has come and gone."""
        return any(each.what in ENDED and each.event_id.upper() == self.begun[-1] for each in self.simulator.record)


class _Restarts:
    """The team's Alertmanager, which keeps its files and its address over restarts."""

    def __init__(self, folder: Path, settings: Settings, stack: ExitStack) -> None:
        self._folder, self._settings, self._stack = folder, settings, stack
        self._port = free_port()
        self._logs: list[str] = []
        self.moments: list[_Moment] = []
        self._current = self._start()
        self.url = self._current.url

    def restart(self) -> None:
        """End it as a service manager does, and start it again."""
        self.moments.append(_Moment(time.time(), "SIGTERM to Alertmanager"))
        self._current.terminate()
        self.moments.append(_Moment(time.time(), "Alertmanager has ended"))
        self._logs.append(self._current.log)
        self._current = self._start()

    def _start(self) -> Alertmanager:
        started = Alertmanager(self._folder, self._settings, port=self._port, flags=("--log.level=debug",))
        self.moments.append(_Moment(time.time(), "Alertmanager listens"))
        return self._stack.enter_context(started)

    def lines(self, text: str) -> Iterator[str]:
        """Yield the lines of its logs that contain ``text``."""
        return (line for log in (*self._logs, self._current.log) for line in log.splitlines() if text in line)


def run(order: Order) -> Row:
    """Kill, restart, and compare what the pager was told with the events that there were."""
    kills, vms, restarts = order.pick(200, 6), order.pick(4, 2), order.pick(20, 1)
    with ExitStack() as stack:
        receiver = stack.enter_context(Receiver())
        settings = resolve({**receivers(receiver.url), **_VALUES})
        alertmanager = _Restarts(order.folder / "alertmanager", settings, stack)
        crew = stack.enter_context(Crew(order.folder / "crew"))
        fleet = [_Vm(f"vm_{number}", order, alertmanager.url, crew, stack) for number in range(vms)]
        pool = stack.enter_context(ThreadPoolExecutor(vms))
        torment = [pool.submit(_kill, each, kills // vms, order) for each in fleet]
        restarted = 0
        while restarted < restarts and not all(each.done() for each in torment):
            time.sleep(order.chance.uniform(2, 8))
            alertmanager.restart()
            restarted += 1
        for each in torment:
            each.result()
        away = [_Vm(f"away_{number}", order, alertmanager.url, crew, stack) for number in range(2)]
        order.say("the exporters have been killed")
        _go_down(receiver, *away, started=not order.short)
        order.say("the VMs have gone down")
        account = _Account(order.folder / "crew", receiver, alertmanager, [*fleet, *away])
        end = time.monotonic() + _PATIENCE
        while not account.settled and time.monotonic() < end:
            time.sleep(0.1)
        order.say("every event is resolved" if account.settled else "not every event is resolved")
        time.sleep(order.pick(20, 5))  # what should not come has time to come
        untold = account.check(order)
    return Row(
        "pushes",
        f"{kills} SIGKILLs of {vms} exporters that push, {restarted} restarts of Alertmanager, "
        f"{len(account.events)} events, seed {order.seed}",
        f"one page and one resolve for each event, none left over{untold}",
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
    eventually(lambda: _told(receiver, "firing").keys() >= {back.begun[0], never.begun[0]}, "both have paged")
    if not started:
        never.kill()
    back.exporter.shows("Started", lambda scrape: scrape.total("started", scope="self") == 1)
    back.kill()
    never.kill()
    eventually(lambda: back.is_over, "the event is over", _PATIENCE)
    back.start()


class _Account:
    """Compares what the pager was told with the events, the logs of the exporters, and those of Alertmanager."""

    def __init__(self, logs: Path, receiver: Receiver, alertmanager: _Restarts, vms: Sequence[_Vm]) -> None:
        self._logs, self._receiver, self._alertmanager = logs, receiver, alertmanager
        self._vms = vms
        self.events = {event_id: vm for vm in vms for event_id in vm.begun}

    @property
    def settled(self) -> bool:
        """Whether the end of every event that was pushed has been told."""
        return _told(self._receiver, "resolved").keys() >= {each for each in self.events if self._pushed(each)}

    def _lines(self, event_id: str) -> list[str]:
        """Return what the exporters logged about pushes of the event."""
        wanted = f"event_id={event_id} "
        lines = (line for path in self._logs.glob("*.log") for line in path.read_text(errors="replace").splitlines())
        return sorted(line for line in lines if wanted in line and 'msg="alert ' in line)

    def _pushed(self, event_id: str) -> bool:
        """Return whether Alertmanager accepted the alert of the event while it held."""
        return any('msg="alert pushed"' in line for line in self._lines(event_id))

    def check(self, order: Order) -> str:
        """Fail if the pager was told anything else than one page and one resolve for each event."""
        wrong = [each for each in self.events if not self._is_told_once(each)]
        for event_id in wrong:
            order.say(f"{event_id} of {self.events[event_id].name}:\n  " + "\n  ".join(self._story(event_id)))
        assert not wrong, f"not one page and one resolve: {', '.join(wrong)}"
        return ""

    def _is_told_once(self, event_id: str) -> bool:
        return all(_told(self._receiver, status).get(event_id) == 1 for status in ("firing", "resolved"))

    def _story(self, event_id: str) -> list[str]:
        """Return all that is known about the event, in order."""
        vm = self.events[event_id]
        moments = [*vm.moments, *self._alertmanager.moments]
        offset = time.time() - time.monotonic()
        for each in self._receiver.webhooks():
            if each.body["groupLabels"]["event_id"] == event_id:
                alerts = ", ".join(" ".join(alert) for alert in each.alerts())
                moments.append(_Moment(each.at + offset, f"NOTIFIED {each.body['status']}: {alerts}"))
        texts = [*self._lines(event_id), *self._alertmanager.lines(event_id)]
        moments += [_Moment(_time(line), line) for line in texts]
        moments += [
            _Moment(each.at, f"simulator: {each.what}")
            for each in vm.simulator.record
            if each.event_id.upper() == event_id
        ]
        ours = [each.at for each in moments if each.what.startswith("simulator:")]
        near = [each for each in moments if min(ours) - 5 < each.at < max(ours) + 15 or event_id in each.what]
        return [f"{datetime.fromtimestamp(each.at, UTC):%H:%M:%S.%f} {each.what}" for each in sorted(near)]


def _time(line: str) -> float:
    """Return the time of a line of log, in seconds since the epoch."""
    found = re.search(r"\bts=(\S+)", line)
    assert found, line
    return datetime.fromisoformat(found[1]).timestamp()


def _told(receiver: Receiver, status: str) -> Mapping[str, int]:
    """Return how many notifications of ``status`` there were, by event."""
    told: dict[str, int] = {}
    for each in receiver.webhooks():
        if each.body["status"] == status:
            event_id = each.body["groupLabels"]["event_id"]
            told[event_id] = told.get(event_id, 0) + 1
    return told
