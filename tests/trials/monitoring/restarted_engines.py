"""Prometheus, or VictoriaMetrics and vmalert: the rules' engines, with the restarts that a trial
does while they notify the Alertmanagers of a cluster.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType

from azure_scheduled_events_exporter.alerts import Settings
from support.monitoring.paging import RuledPrometheus
from support.monitoring.victoria import VictoriaStack

Restart = tuple[str, Callable[[], None]]
"""What restarts, such as "vmagent restarts", and the function that does it."""


class Prometheus:
    """Prometheus with the rules."""

    def __init__(
        self, folder: Path, settings: Settings, alertmanagers: Sequence[str], targets: list[str]
    ) -> None:
        self._folder = folder
        addresses = ",".join(url.removeprefix("http://") for url in alertmanagers)
        self._start = partial(RuledPrometheus, folder, settings, addresses, targets)
        self._program = self._start()

    @property
    def url(self) -> str:
        """Where it answers queries."""
        return self._program.url

    def close(self) -> None:
        """End the program."""
        self._program.kill()

    def restarts(self) -> list[Restart]:
        """Return the restarts after which it knows what it knew."""
        return [("Prometheus restarts", self._restart)]

    def losses(self) -> list[Restart]:
        """Return the restarts with which it loses its data."""
        return [("Prometheus restarts without its data", partial(self._restart, keeps_data=False))]

    def _restart(self, *, keeps_data: bool = True) -> None:
        self._program.terminate()
        if not keeps_data:
            shutil.rmtree(self._folder / "tsdb")
        self._program = self._start()


class Victoria:
    """vmagent, VictoriaMetrics, and vmalert with the rules."""

    def __init__(
        self, folder: Path, _: Settings, alertmanagers: Sequence[str], targets: list[str]
    ) -> None:
        own = folder / "victoria"  # it writes an Alertmanager's configuration of its own
        own.mkdir()
        self._stack = VictoriaStack(own, {}, targets, notified=alertmanagers)

    @property
    def url(self) -> str:
        """Where it answers queries."""
        return self._stack.url

    def close(self) -> None:
        """End the three programs."""
        self._stack.__exit__(None, None, None)

    def restarts(self) -> list[Restart]:
        """Return the restarts after which it knows what it knew."""
        return [
            (f"{name} restarts", partial(self._stack.restart, name))
            for name in ("vmalert", "vmagent", "victoria-metrics")
        ]

    def losses(self) -> list[Restart]:
        """Return the restarts with which it loses its data: none."""
        return []


ENGINES: Mapping[
    str, Callable[[Path, Settings, Sequence[str], list[str]], Prometheus | Victoria]
] = MappingProxyType({"Prometheus": Prometheus, "VictoriaMetrics": Victoria})
"""By name, what starts an engine: it takes a folder, the settings of the rules, the URLs of the
Alertmanagers, and the addresses of the exporters.
"""
