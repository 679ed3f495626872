"""A fleet that raises every alert: all scenarios of the simulator, events with odd names, and what
is wrong with exporters.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from azure_scheduled_events_exporter.simulator import Scenario, Simulator, VirtualMachine
from deploy.stack.free_port import free_port
from support.events.imds_bodies import entry
from support.programs import Exporter
from trials.monitoring.pushes import scenario_of
from trials.monitoring.troubles import TROUBLES, Trouble
from trials.trial import Crew

PREFIX = "AzureScheduledEvent"
GROUP = "shop"
LONG_GROUP = "g" * 90
SPEED = 30.0
SCENARIOS: Mapping[str, Mapping[str, str]] = {
    "live-migration": {},
    "host-maintenance": {"Freeze": "Freeze"},
    "user-reboot": {"Reboot": "Requested"},
    "user-redeploy": {"Redeploy": "Requested"},
    "spot-preempt": {"Preempt": "Preempt"},
    "terminate": {"Terminate": "Requested"},
    "cancelled": {"Freeze": "Freeze"},
    "host-failure": {"Reboot": "WithoutNotice"},
    "degraded-host": {"Freeze": "DegradedHost", "Redeploy": "DegradedHost"},
    "rollout": {},
    "waiting-neighbors": {"Terminate": "Requested", "Reboot": "Requested"},
    "single-fault-domain": {"Reboot": "Reboot"},
    "automatic-approval": {"Reboot": "Requested"},
    "spot-advice": {"SpotRebalanceRecommendation": "EvictionRisk", "Preempt": "Preempt"},
}
"""By scenario, the alert of each type; none for a scenario that notifies nobody."""
TEN = tuple(f"{number}-{'n' * 62}" for number in range(10))
HOSTILE = ('we"b\\0', "{{ .x }}", "${y}", "<b>&'", "line\nbreak", "%!s(int=1)", "tab\tv")
IN_DAYS = 3 * 86_400.0
IN_MINUTES = 1_800.0


@dataclass(frozen=True)
class Placed:
    """An event of one VM that stays as it is."""

    alert: str
    event_type: str
    vms: tuple[str, ...] = ()
    group: str = GROUP
    begins_in: float | None = IN_MINUTES
    status: str = "Scheduled"
    source: str = "Platform"
    duration: int = -1


PLACED = (
    Placed("Freeze", "Freeze", duration=30),
    Placed("Reboot", "Reboot", ("web_0", "web_1", "web_2")),
    Placed("Reboot", "Reboot", tuple(f"many_{number}" for number in range(12))),
    Placed("Redeploy", "Redeploy"),
    Placed("Redeploy", "Redeploy", TEN),
    Placed("Redeploy", "Redeploy", HOSTILE),
    Placed("Redeploy", "Redeploy", ("{{ $x }}<b>&'\"",)),
    Placed("Preempt", "Preempt"),
    Placed("Preempt", "Preempt", begins_in=None),
    Placed("Terminate", "Terminate"),
    Placed("WithoutNotice", "Reboot", begins_in=None, status="Started"),
    Placed("Requested", "Reboot", source="User"),
    Placed("Requested", "Terminate", TEN, source="User", group=LONG_GROUP),
    Placed("UnknownType", "Defrag"),
    Placed("UnknownType", "T" * 128, TEN, group=LONG_GROUP),
    Placed("DegradedHost", "Freeze", begins_in=IN_DAYS),
    Placed("DegradedHost", "Redeploy", begins_in=IN_DAYS),
    Placed("DegradedHost", "U" * 128, TEN, begins_in=IN_DAYS, group=LONG_GROUP),
    Placed("Reboot", "Reboot", group=""),
    Placed("Freeze", "Freeze", group="Büro(x).y"),
    Placed("Redeploy", "Redeploy", TEN, group=LONG_GROUP),
)


@dataclass(frozen=True)
class Subject:
    """What is known of what an alert is about: its VMs, and their resource group."""

    vms: tuple[str, ...]
    group: str | None = GROUP


class Fleet:
    """Simulators, exporters and stand-ins; a context manager.

    ``targets`` are the addresses to scrape. ``alertmanager`` is whom the exporters push to.
    """

    def __init__(self, folder: Path, alertmanager: str, values: Path) -> None:
        self._flags = (
            *("--alertmanager.url", alertmanager),
            *("--alerts.values", str(values)),
            *("--imds.api-version", "auto"),
        )
        self._stack = ExitStack()
        self._crew = self._stack.enter_context(Crew(folder))
        self._simulators: list[tuple[Simulator, Scenario]] = []
        self.targets: list[str] = []
        self.placed: dict[tuple[str, str], Subject] = {}
        self.troubles: list[Trouble] = []

    def __enter__(self) -> Self:
        self._add_scenarios()
        self._add_placed()
        self._add_nameless()
        self._add_troubles()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._stack.__exit__(kind, *rest)  # type: ignore[arg-type]  # as it came

    def play(self) -> None:
        """Begin the scenarios, and let VMs go away."""
        for simulator, scenario in self._simulators:
            simulator.play(scenario, SPEED)
        for each in self.troubles:
            if each.alert in {"VmNotBack", "ExporterDown"}:
                each.go_away()

    def scenario_events(self) -> dict[tuple[str, str], Subject]:
        """Return the alerts of the scenarios' events so far, by alert and event."""
        found = {}
        for simulator, scenario in self._simulators:
            names = tuple(vm.name for vm in scenario.vms)
            for happening in simulator.record:
                alert = SCENARIOS[scenario.name].get(happening.event_type)
                if alert:
                    found[PREFIX + alert, happening.event_id.upper()] = Subject(names, None)
        return found

    def scenario_sets(self) -> dict[str, Subject]:
        """Return the VMs of each scenario, whose scale set has its name."""
        return {
            scenario.name: Subject(tuple(vm.name for vm in scenario.vms), None)
            for _, scenario in self._simulators
        }

    def is_played(self) -> bool:
        """Return whether each scenario has announced all its events."""
        return all(
            len({each.event_id for each in simulator.record}) >= len(scenario.events)
            for simulator, scenario in self._simulators
        )

    def _start(self, simulator: Simulator, vm: str) -> Exporter:
        port = free_port()
        listen = ("--web.listen-address", f"127.0.0.1:{port}")
        self.targets.append(f"127.0.0.1:{port}")
        return self._crew.start(simulator.vm_url(vm), *listen, *self._flags)

    def _simulate(self, *vms: VirtualMachine, speed: float = 1.0) -> Simulator:
        simulator = Simulator(Scenario("waiting", "", vms, ()), speed=speed)
        self._stack.enter_context(simulator)
        for vm in vms:
            self._start(simulator, vm.name)
        return simulator

    def _add_scenarios(self) -> None:
        for name in SCENARIOS:
            scenario = scenario_of(name)
            simulator = self._simulate(*scenario.vms, speed=SPEED)
            self._simulators.append((simulator, scenario))

    def _add_placed(self) -> None:
        """Each event has a first VM of its own, which sees no other event."""
        vms = []
        events = []
        for number, each in enumerate(PLACED):
            names = each.vms or (f"vm_{number}",)
            own = f"{number}-{names[0]}"[: len(names[0])] if len(names[0]) > 8 else names[0]
            names = (own, *names[1:])
            vm = VirtualMachine(own, f"set-{number}", resource_group=each.group, vm_id=f"{number}")
            vms.append(replace(vm, own_events_only=True))
            event_id = f"{number:08X}-AFDC-4513-B24B-AA5F13A16123"
            events.append(_wire(event_id, each, names))
            self.placed[PREFIX + each.alert, event_id] = Subject(names, each.group)
        self._simulate(*vms).set_document(events)

    def _add_nameless(self) -> None:
        """Add an event without VMs: nobody's own, so nobody pushes it."""
        simulator = self._simulate(VirtualMachine("witness", resource_group=GROUP, vm_id="w"))
        simulator.set_document([_wire("NAMELESS", Placed("Reboot", "Reboot"), ())])

    def _add_troubles(self) -> None:
        for alert in TROUBLES:
            count = 3 if alert == "ScaleSetHit" else 1
            for _ in range(count):
                vm = f"node_{len(self.troubles)}"
                scale_set = "quorum" if count > 1 else ""
                trouble = self._stack.enter_context(Trouble(vm, alert, GROUP, scale_set))
                self.troubles.append(trouble)
                self.targets.append(trouble.target)


def _wire(event_id: str, placed: Placed, names: Sequence[str]) -> dict[str, object]:
    not_before = ""
    if placed.begins_in is not None:
        moment = time.gmtime(time.time() + placed.begins_in)
        not_before = time.strftime("%a, %d %b %Y %H:%M:%S GMT", moment)
    fields: dict[str, object] = {
        "EventId": event_id,
        "EventType": placed.event_type,
        "EventStatus": placed.status,
        "EventSource": placed.source,
        "Resources": list(names),
        "NotBefore": not_before,
    }
    return entry(**fields, DurationInSeconds=placed.duration)
