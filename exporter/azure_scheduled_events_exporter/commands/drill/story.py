"""The event of a drill, and the alert that the exporter of its simulated VM raises for it.

Must not decide which alert an event raises: ``alertmanager.alert`` does.
"""

import uuid
from dataclasses import replace
from typing import Final

from azure_scheduled_events_exporter.alertmanager.alert import Alert, Catalog, alert_of
from azure_scheduled_events_exporter.core.document import parse_document
from azure_scheduled_events_exporter.core.instance import parse_instance
from azure_scheduled_events_exporter.core.kinds import kind_of
from azure_scheduled_events_exporter.core.lifecycle import Lifecycles
from azure_scheduled_events_exporter.core.observation import ObservationContext, observe
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.simulator import Scenario, VirtualMachine, find
from azure_scheduled_events_exporter.simulator.document import document_body, to_json
from azure_scheduled_events_exporter.simulator.instance import instance
from azure_scheduled_events_exporter.simulator.timeline import begin

DRILL: Final = "DRILL"


def story_of(name: str) -> Scenario:
    """Return a scenario that announces the first event of the scenario ``name`` at once.

    It has only the first VM of that event, whose name and scale set are those of a drill. Of its own values it keeps
    the priority, because routes may depend on it.

    Raises:
        UsageError: there is no such scenario, or it has no event of a VM.
    """
    scenarios = find(name)
    if len(scenarios) != 1 or not scenarios[0].events or not scenarios[0].events[0].resources:
        raise UsageError(
            f"--scenario: '{name}' is not one scenario with events: choose another one of 'simulate --list'"
        )
    [scenario] = scenarios
    event, priority = scenario.events[0], {vm.name: vm.priority for vm in scenario.vms}
    name = event.resources[0]
    vm = VirtualMachine(f"{DRILL}-{name}", DRILL, priority=priority[name])
    return Scenario("drill", "", (vm,), (replace(event, resources=(vm.name,), announced_at=0.0),))


def alert_of_story(story: Scenario, catalog: Catalog, now: float) -> Alert:
    """Return the alert for the event of ``story`` as the exporter of its VM first sees it, at ``now``.

    Raises:
        UsageError: the event raises none.
    """
    [planned] = begin(story, at=now, speed=1, event_id=lambda _: f"{DRILL}-{uuid.uuid4()}".upper())
    planned.advance(now)
    document = parse_document(document_body([planned.on_wire()], 1))
    vm = parse_instance(to_json(instance(story.vms[0])))
    known, _ = observe(Lifecycles(), document, ObservationContext(Timestamp(now), vm.vm_name))
    [life] = known.current.values()
    kind = kind_of(life, now)
    alert = alert_of(life, kind, vm, catalog, {})
    if alert is None:
        raise UsageError(f"--scenario: its event is {kind} ({life.event.event_type}), which raises no alert")
    return alert
