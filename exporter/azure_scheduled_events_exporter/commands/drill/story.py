"""The event of a drill: its scenario, its alert, and an exporter that watches its VM.

Must not decide which alert an event raises: the exporter's kinds and ``alertmanager.alert`` do.
"""

import math
import os
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from azure_scheduled_events_exporter.alertmanager.alert import Catalog, EventAlert, alert_of
from azure_scheduled_events_exporter.commands.waiting import until
from azure_scheduled_events_exporter.config.settings import ENVIRONMENT_PREFIX, environment_name
from azure_scheduled_events_exporter.core.document_parser import parse_document
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.lifecycle import Lifecycles
from azure_scheduled_events_exporter.core.observation import observe
from azure_scheduled_events_exporter.core.observation_context import ObservationContext
from azure_scheduled_events_exporter.errors import ExporterError, UsageError
from azure_scheduled_events_exporter.journal.disk.location import MEMORY
from azure_scheduled_events_exporter.own_program import own_command
from azure_scheduled_events_exporter.polling.clock import system_clock
from azure_scheduled_events_exporter.simulator import Scenario, Simulator, VirtualMachine, find
from azure_scheduled_events_exporter.simulator.document import document_body
from azure_scheduled_events_exporter.simulator.stage import Playlist, Stage

DRILL: Final = "DRILL"
"""The word by which people see that an alert, a VM or a scale set belongs to a drill."""


def story_of(name: str) -> Scenario:
    """Return a scenario that announces the first event of the scenario ``name`` at once.

    It has only the first VM of that event, with a name and a scale set that say that it is a drill.
    The VM keeps its priority, because routes may depend on it.

    Raises:
        UsageError: there is no such scenario, or it has no event of a VM.
    """
    scenarios = find(name)
    if len(scenarios) != 1 or not scenarios[0].events or not scenarios[0].events[0].resources:
        raise UsageError(
            f"--scenario: '{name}' is not one scenario with events: choose another one of 'simulate"
            " --list'"
        )
    [scenario] = scenarios
    event = scenario.events[0]
    vm_name = event.resources[0]
    [priority] = [vm.priority for vm in scenario.vms if vm.name == vm_name]
    vm = VirtualMachine(f"{DRILL}-{vm_name}", scale_set=DRILL, priority=priority)
    drilled = replace(event, resources=(vm.name,), announced_at=0.0)
    return Scenario("drill", "", (vm,), (drilled,))


def alert_of_story(story: Scenario, catalog: Catalog) -> EventAlert:
    """Return the alert for the event of ``story`` as the exporter of its VM first sees it.

    Raises:
        UsageError: the event raises none.
    """
    clock = system_clock()
    now = clock()
    stage = Stage(Playlist((story,)), at=now.wall, seed=uuid.uuid4().hex)
    stage.advance(now.wall)
    vm = story.vms[0]
    document = parse_document(document_body(stage.events, stage.incarnation))
    known, _ = observe(Lifecycles(), document, ObservationContext(now, vm.name))
    [life] = known.current.values()
    kind = life.kind
    instance = Instance(vm.name, resource_group=vm.resource_group)
    alert = alert_of(life, kind, instance, catalog, extra={})
    if alert is None:
        raise UsageError(
            f"--scenario: its event is {kind} ({life.event.event_type}), which raises no alert"
        )
    return alert


@contextmanager
def watched(story: Scenario, settings: Mapping[str, str]) -> Iterator[Simulator]:
    """Start a simulator with the VM of ``story`` and no event, and an exporter that polls it.

    Yields the simulator once the exporter has polled it: the caller places the event. This exporter
    has these ``settings`` alone: those of the exporter that runs on this machine (collector, users,
    policy) do not apply.
    """
    with Simulator(replace(story, events=())) as simulator:
        own = {
            "imds.endpoint": simulator.url,
            "instance.name": story.vms[0].name,
            "journal.path": MEMORY,
            "web.listen-address": "127.0.0.1:0",
            "log.level": "warning",
            **settings,
        }
        environment = _environment(own)
        command = own_command("run")
        with subprocess.Popen(command, env=environment) as exporter:  # noqa: S603 - this program
            try:
                until(lambda: simulator.requests or exporter.poll() is not None, math.inf)
                if not simulator.requests:
                    raise ExporterError("the exporter of the drill has ended: its error is above")
                yield simulator
            finally:
                exporter.terminate()


def _environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of this process with ``settings`` in place of those of an exporter."""
    others = (ENVIRONMENT_PREFIX, "OTEL_")
    kept = {name: text for name, text in os.environ.items() if not name.startswith(others)}
    return kept | {environment_name(flag): text for flag, text in settings.items()}
