"""The settings that decide when an alert is due: the times that a person who judges a fleet has to know."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from alerts import Settings, resolve
from alerts.prometheus import prometheus_rules
from support.monitoring.promtool import RULES
from support.monitoring.random_fleets.lives import UNKNOWN_TYPE

_BRIEF = {
    "longest": "20m",
    "maintenance.longest.freeze": "5m",
    "maintenance.longest.reboot": "6m",
    "maintenance.longest.redeploy": "9m",
    "maintenance.longest.preempt": "7m",
    "maintenance.longest.terminate": "7m",
    "overdue.after": "5m",
    "started.limit": "8m",
}
"""So short that a fleet reaches every one of them."""

_FORGOTTEN_LATE = {**_BRIEF, "longest": "5m", "memory": "12m"}
"""An event is remembered for longer than alerts about it last while its VM is away."""


@dataclass(frozen=True)
class Limits:
    """The settings, in seconds; ``outages`` are the longest maintenance by the type of event."""

    name: str
    settings: Settings
    memory: float
    longest: float
    before: float
    after: float
    overdue: float
    started: float
    down: float
    outages: Mapping[str, float]

    def rules(self, folder: Path) -> Path:
        """Return the rules by these settings; those that are not shipped are written into ``folder``."""
        if self is SHIPPED:
            return RULES
        path = folder / f"{self.name}-rules.yml"
        if not path.exists():
            path.write_text(prometheus_rules(self.settings))
        return path


def _limits(name: str, settings: Settings) -> Limits:
    types = ("Freeze", "Reboot", "Redeploy", "Preempt", "Terminate")
    outages = {each: settings.seconds(f"maintenance.longest.{each.lower()}") for each in types}
    return Limits(
        name,
        settings,
        memory=settings.seconds("memory"),
        longest=settings.seconds("longest"),
        before=settings.seconds("maintenance.before"),
        after=settings.seconds("maintenance.after"),
        overdue=settings.seconds("overdue.after"),
        started=settings.seconds("started.limit"),
        down=settings.seconds("exporter-down.for"),
        outages={**outages, UNKNOWN_TYPE: outages["Reboot"]},
    )


SHIPPED = _limits("shipped", Settings())
LIMITS = (SHIPPED, _limits("brief", resolve(_BRIEF)), _limits("forgotten-late", resolve(_FORGOTTEN_LATE)))
"""The settings by which fleets are judged."""
