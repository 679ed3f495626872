"""The event of a drill: a simulated VM, and an exporter of this process that watches it.

Must not decide which alert an event raises: the exporter's kinds and ``alertmanager.alert`` do.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from azure_scheduled_events_exporter import logs
from azure_scheduled_events_exporter.alertmanager.alert import Alert, Catalog, alert_of
from azure_scheduled_events_exporter.commands.interruption import uninterrupted
from azure_scheduled_events_exporter.config.resolution import resolve
from azure_scheduled_events_exporter.errors import ExporterError, UsageError
from azure_scheduled_events_exporter.http_server.app import App
from azure_scheduled_events_exporter.http_server.listen_address import ListenAddress
from azure_scheduled_events_exporter.http_server.server import Server
from azure_scheduled_events_exporter.journal.file import MEMORY
from azure_scheduled_events_exporter.service.daemon import Exporter
from azure_scheduled_events_exporter.service.routes import routes
from azure_scheduled_events_exporter.simulator import Scenario, Simulator, VirtualMachine, find

DRILL: Final = "DRILL"
_LOOK_SECONDS: Final = 0.05  # between two looks at the exporter or at Alertmanager
_START_SECONDS: Final = 10
_Found = TypeVar("_Found")


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


def alert_of_story(story: Scenario, catalog: Catalog) -> Alert:
    """Return the alert for the event of ``story`` as the exporter of its VM first sees it.

    Raises:
        UsageError: the event raises none.
    """
    with staged(story) as stage:
        snapshot = stage.exporter.latest()
    [life] = snapshot.current.values()
    kind = snapshot.kinds[life.event_id]
    alert = alert_of(life, kind, snapshot.identity, catalog, {})
    if alert is None:
        raise UsageError(f"--scenario: its event is {kind} ({life.event.event_type}), which raises no alert")
    return alert


def until(look: Callable[[], _Found], end: float) -> _Found:
    """Return the first true value of ``look``, or its last value at monotonic time ``end``."""
    found = look()
    while not found and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)
        found = look()
    return found


@dataclass(frozen=True, slots=True)
class Stage:
    """A simulated VM, and the exporter that watches it."""

    simulator: Simulator
    exporter: Exporter

    def knows_vm(self) -> bool:
        """Return whether the exporter has polled, and knows its VM, which its alerts name."""
        snapshot = self.exporter.latest()
        return snapshot.polls.up and snapshot.identity is not None

    def announce(self, story: Scenario) -> str:
        """Announce the event of ``story``; return its id."""
        self.simulator.play(story)
        return until(lambda: self.simulator.record, time.monotonic() + _START_SECONDS)[0].event_id.upper()

    @contextmanager
    def served(self, address: ListenAddress) -> Iterator[None]:
        """Serve the exporter's metrics, in a thread. Raises ExporterError: the address cannot be used."""
        log = logs.set_up("warning", "logfmt")
        server = Server(address, App(routes(self.exporter.latest, "/metrics"), None, log), log)
        loop = asyncio.new_event_loop()
        loop.run_until_complete(server.start())
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        try:
            yield
        finally:
            with uninterrupted():
                asyncio.run_coroutine_threadsafe(server.stop(), loop).result()
                loop.call_soon_threadsafe(loop.stop)
                thread.join()
                loop.close()


@contextmanager
def staged(scenario: Scenario, **settings: str) -> Iterator[Stage]:
    """Play ``scenario`` to an exporter with these ``settings``, from when it knows its VM until the context ends.

    Settings of the VM's own exporter (collector, users, policy) do not apply to this one.
    """
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        del os.environ[name]  # OpenTelemetry's library reads them
    with Simulator(scenario) as simulator:
        own = {"imds.endpoint": simulator.url, "instance.name": scenario.vms[0].name, "journal.path": MEMORY}
        stage = Stage(simulator, Exporter(resolve({**own, **settings}, {}), logs.set_up("warning", "logfmt")))
        try:
            stage.exporter.start()
            if not until(stage.knows_vm, time.monotonic() + _START_SECONDS):
                raise ExporterError(f"the exporter of the drill cannot poll: {stage.exporter.latest().polls.failure}")
            yield stage
        finally:
            with uninterrupted():
                stage.exporter.stop()
