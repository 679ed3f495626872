"""A simulated VM and its exporter, and waiting for what they and Alertmanager show."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeVar

from azure_scheduled_events_exporter.config import ENVIRONMENT_PREFIX
from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.simulator import Scenario, Simulator

_Found = TypeVar("_Found")
_LOOK_SECONDS: Final = 0.05  # between two looks at Alertmanager
_START_SECONDS: Final = 10
_EVENTS: Final = "/metadata/scheduledevents"
_INSTANCE: Final = "/metadata/instance"


def until(look: Callable[[], _Found], end: float) -> _Found:
    """Return the first true value of ``look``, or its last value at monotonic time ``end``."""
    found = look()
    while not found and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)
        found = look()
    return found


@dataclass(frozen=True, slots=True)
class Stage:
    """A simulated VM that shows no event yet, and its running exporter."""

    simulator: Simulator
    exporter: subprocess.Popen[bytes]
    waiting: Scenario
    story: Scenario

    def ready(self) -> None:
        """Wait until the exporter polls and knows its VM, which its alerts name.

        Raises:
            ExporterError: the exporter has ended.
        """
        until(lambda: self._knows() or self.exporter.poll() is not None, time.monotonic() + _START_SECONDS)
        if self.exporter.poll() is not None:
            raise ExporterError("the exporter of the drill has ended; see its message above")

    def _knows(self) -> bool:
        """Return whether the exporter has polled after it asked for its VM."""
        paths = [request.path for request in self.simulator.requests]
        return _INSTANCE in paths and _EVENTS in paths[paths.index(_INSTANCE) :]

    def announce(self) -> str:
        """Announce the event; return its id."""
        self.simulator.play(self.story, 1)
        found = until(lambda: self.simulator.record, time.monotonic() + _START_SECONDS)
        return found[0].event_id.upper()

    def call_off(self) -> None:
        """End the event: it leaves the document."""
        self.simulator.play(self.waiting, 1)

    def stop(self) -> None:
        """End the exporter, and wait until it has ended."""
        self.exporter.terminate()
        self.exporter.wait()

    def serve(self, seconds: float) -> None:
        """Serve the metrics for so long, unless the exporter ends."""
        with suppress(subprocess.TimeoutExpired):
            self.exporter.wait(seconds)


@contextmanager
def staged(story: Scenario, listen: str, settings: Mapping[str, str] = MappingProxyType({})) -> Iterator[Stage]:
    """Run the first VM of ``story`` and its exporter, which both end with the context.

    ``settings`` are further ones of the exporter, by their names in the environment.
    """
    waiting = Scenario("waiting", "", story.vms, ())
    with Simulator(waiting) as simulator:
        command = [sys.executable, "-m", "azure_scheduled_events_exporter", "run"]
        command += ["--imds.endpoint", simulator.url, "--instance.name", story.vms[0].name, "--journal.path", "memory"]
        # Settings of the VM's own exporter (collector, users, policy) do not apply to this one.
        env = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", ENVIRONMENT_PREFIX))}
        command += ["--web.listen-address", listen]
        # In a session of its own, so that Ctrl-C does not end it before the event is called off.
        with subprocess.Popen(command, env={**env, **settings}, start_new_session=True) as exporter:  # noqa: S603 - this program
            try:
                yield Stage(simulator, exporter, waiting, story)
            finally:
                exporter.terminate()
