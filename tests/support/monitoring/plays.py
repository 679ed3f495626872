"""Cases that are played from the simulator to the pager, with any engine for the rules."""

import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from azure_scheduled_events_exporter.simulator import PlannedEvent, Scenario, Simulator, VirtualMachine, What, find
from azure_scheduled_events_exporter.times import format_duration, parse_duration
from support.programs import Exporter

SPEED = 60.0
# What lasts a quarter of an hour on Azure lasts 15 s here, and so do the thresholds.
VALUES = {
    "scrape.interval": "1s",
    "evaluation.interval": "1s",
    "evaluation.slow-interval": "3s",
    "evaluation.watcher-interval": "5s",
    "group.wait": "1s",
    "group.interval": "1s",
    "memory": "1m",
    "longest": "2m",
    "notice.freeze": "12s",
    "notice.reboot": "12s",
    "notice.redeploy": "7s",
    "notice.terminate": "4s",
    "degraded-host.notice": "24m",
    "overdue.after": "10s",
    # An event is Started for 10 s, and where scrapes fail at its end, it is remembered for a minute more.
    "started.limit": "2m",
    "hit.together": "15s",
}
_POLL_MILLISECONDS = 500
_FAULT_SECONDS = 480.0  # of the scenario
ENDED = {What.COMPLETED, What.CANCELLED}


def slowed(factor: int) -> dict[str, str]:
    """Return :data:`VALUES` for plays that are ``factor`` times slower: each duration is so many times as long."""
    return {name: format_duration(factor * parse_duration(value)) for name, value in VALUES.items()}


def ticket(name: str) -> list[tuple[str, str, str]]:
    """Return the notifications of a ticket's receiver about one event from beginning to end."""
    return [(f"AzureScheduledEvent{name}", "warning", status) for status in ("firing", "resolved")]


def page(name: str) -> list[tuple[str, str, str]]:
    """Return the notifications of a pager about one event from beginning to end."""
    return [(f"AzureScheduledEvent{name}", "critical", status) for status in ("firing", "resolved")]


@dataclass(frozen=True)
class Case:
    """A scenario and all that it may cause: pages, tickets, and what only shows."""

    name: str
    pages: tuple[tuple[str, str, str], ...] = ()
    tickets: tuple[tuple[str, str, str], ...] = ()
    shows: tuple[str, ...] = ()
    exporters: int = 2
    speed: float = SPEED  # how many times as fast as written it is played, unless the play is slowed
    faults: tuple[str, ...] = ()
    first_answer_delay: float = 0.0
    empty_body: bool = False
    restart: bool = False
    events: tuple[PlannedEvent, ...] | None = None
    vms: int = 0
    pushes: bool = False  # whether its exporters push their alerts themselves
    journal: bool = False  # whether they keep one over a restart


def scenario(case: Case) -> Scenario:
    """Return the case's scenario, in a scale set and a zone of its own so that no case disturbs another."""
    if case.events is None:
        (found,) = find(case.name)
        events = tuple(
            replace(each, started_for=min(each.started_for, 120 if case.speed < SPEED else 600))
            for each in found.events
        )
        found = replace(found, events=events)
    else:
        vms = tuple(VirtualMachine(f"vmss_{number}") for number in range(case.vms or 2))
        found = Scenario(case.name, "", vms, case.events)
    return replace(found, vms=tuple(_of_its_own(vm, case.name) for vm in found.vms))


def _of_its_own(vm: VirtualMachine, case: str) -> VirtualMachine:
    """Return ``vm`` in a scale set and a zone of the case, with an id that no VM of another case has."""
    return replace(vm, scale_set=case, zone=case, vm_id=str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{vm.name}.{case}")))


def pushing(folder: Path, alertmanager: str, values: Mapping[str, str] = VALUES) -> tuple[str, ...]:
    """Return the flags of an exporter that pushes to ``alertmanager`` what rules with ``values`` would send."""
    file = folder / "values.yaml"
    file.write_text("".join(f"{name}: {value}\n" for name, value in values.items()))
    return "--alertmanager.url", alertmanager, "--alerts.values", str(file)


class Play:
    """One case that is being played: a simulator and the exporters of its VMs.

    With ``slowed_by``, the scenario and the polls are so many times slower, and pushes follow settings that are, too.
    """

    def __init__(self, case: Case, folder: Path, stack: ExitStack, alertmanager: str = "", slowed_by: int = 1) -> None:
        self.case = case
        self._speed = case.speed / slowed_by
        self._poll = f"{_POLL_MILLISECONDS * slowed_by}ms"
        self._pushing = pushing(folder, alertmanager, slowed(slowed_by)) if case.pushes else ()
        self._folder = folder
        self._stack = stack
        self.simulator = stack.enter_context(
            Simulator(
                Scenario("waiting", "", scenario(case).vms, ()),
                speed=self._speed,
                first_answer_delay=case.first_answer_delay,
                empty_body=case.empty_body,
            )
        )
        self.exporters: list[Exporter] = []

    def start(self, number: int) -> None:
        """Start the exporter of one VM."""
        self.exporters.append(self._start(number))

    def _start(self, number: int, *flags: str) -> Exporter:
        name = f"vmss_{number}"
        output = self._folder / f"{self.case.name}-{number}{'-again' * bool(flags)}.log"
        journal = ("--journal.path", str(self._folder / f"{self.case.name}-{number}")) if self.case.journal else ()
        given = ("--instance.name", name, "--poll.interval", self._poll, *self._pushing, *journal, *flags)
        return self._stack.enter_context(Exporter(self.simulator.vm_url(name), output, *given))

    @property
    def targets(self) -> list[str]:
        """The addresses to scrape."""
        return [f"127.0.0.1:{exporter.port}" for exporter in self.exporters]

    def begin(self) -> None:
        """Let the scenario begin now."""
        self.simulator.play(scenario(self.case), self._speed)
        for fault in self.case.faults:
            name, _, _ = fault.partition("@")
            self.simulator.inject(name, seconds=_FAULT_SECONDS / self._speed)

    def restart(self) -> None:
        """Kill the exporter and start it again at the same address."""
        port = self.exporters[0].port
        self.exporters[0].kill()
        self.exporters[0] = self._start(0, "--web.listen-address", f"127.0.0.1:{port}")

    @property
    def over(self) -> bool:
        """Whether all its events have come and gone."""
        ended = [each for each in self.simulator.record if each.what in ENDED]
        return len(ended) >= len(scenario(self.case).events)
