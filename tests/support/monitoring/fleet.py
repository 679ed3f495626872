"""A fleet on loopback: groups of simulated VMs, an exporter for each, and a Prometheus that scrapes them all."""

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import yaml

from azure_scheduled_events_exporter.simulator import Simulator
from support.programs import Exporter, Prometheus


@dataclass(frozen=True, slots=True)
class Group:
    """A placement group: its VMs all see the same events. ``events`` are those of a scenario file."""

    scale_set: str
    zones: tuple[str, ...]
    events: tuple[dict[str, object], ...]
    priority: str = "Regular"

    def vm(self, index: int) -> str:
        """Return the name of one of its VMs."""
        return f"{self.scale_set}_{index}"

    def scenario(self, *, calm: bool = False) -> str:
        """Return it as the text of a scenario file; a ``calm`` one has no events for a day."""
        events = [{"type": "Freeze", "announced_at": "1d"}] if calm else list(self.events)
        vms = [
            {
                "name": self.vm(index),
                "scale_set": self.scale_set,
                "zone": zone,
                "fault_domain": index,
                "size": "Standard_D8s_v5",
                "priority": self.priority,
                "location": "westeurope",
                "resource_group": "production",
            }
            for index, zone in enumerate(self.zones)
        ]
        return yaml.safe_dump({"description": f"Group {self.scale_set}.", "vms": vms, "events": events})


@dataclass(slots=True)
class Fleet:
    """Runs while the ``with`` block does; its files are in ``folder``. The story begins when everybody watches.

    ``copy_to``: the URL of a VictoriaMetrics that Prometheus writes all series to.
    """

    folder: Path
    groups: tuple[Group, ...]
    interval: str = "1s"
    flags: tuple[str, ...] = ()
    rules: Path | None = None
    copy_to: str = ""
    simulators: list[Simulator] = field(default_factory=list)
    exporters: dict[str, Exporter] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)
    _prometheus: Prometheus | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for group in self.groups:
                path = self.folder / f"{group.scale_set}.yaml"
                path.write_text(group.scenario(calm=True))
                simulator = stack.enter_context(Simulator(str(path)))
                self.simulators.append(simulator)
                for name in simulator.vms:
                    output = self.folder / f"{name}.log"
                    own = ("--instance.name", name, "--journal.path", str(self.folder / f"{name}.db"))
                    exporter = Exporter(simulator.vm_url(name), output, *own, *self.flags)
                    self.exporters[name] = stack.enter_context(exporter)
            targets = [f"127.0.0.1:{exporter.port}" for exporter in self.exporters.values()]
            settings: dict[str, Any] = {"interval": self.interval, "rules": self.rules, "copy_to": self.copy_to}
            self._prometheus = stack.enter_context(Prometheus(self.folder, *targets, **settings))
            for group, simulator in zip(self.groups, self.simulators, strict=True):
                path = self.folder / f"{group.scale_set}.yaml"
                path.write_text(group.scenario())
                simulator.play(str(path), 1)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def prometheus(self) -> Prometheus:
        """The Prometheus that scrapes them."""
        assert self._prometheus
        return self._prometheus
