"""The scenarios that come with the package, and how a user chooses one of them or an own file."""

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from azure_scheduled_events_exporter.errors import UsageError

from .scenario import Scenario
from .scenario_file import load

SHIPPED: Final = (
    "live-migration",
    "host-maintenance",
    "user-reboot",
    "user-redeploy",
    "spot-preempt",
    "terminate",
    "cancelled",
    "host-failure",
    "degraded-host",
    "rollout",
    "waiting-neighbors",
    "single-fault-domain",
    "automatic-approval",
    "spot-advice",
)
"""The names of the scenarios that come with the package, in the order in which ``all`` plays them.

Each is a file in the folder ``scenarios``.
"""

Choice = str | Path | Scenario
"""A shipped scenario's name (or ``all``), the path of a file, or a scenario."""

_FOLDER: Final = Path(__file__).parent / "scenarios"
_FILE_SUFFIXES: Final = (".yaml", ".yml", ".json")


@cache
def shipped() -> tuple[Scenario, ...]:
    """Return the scenarios of :data:`SHIPPED`, in that order. Their files are read once."""
    return tuple(load(_FOLDER / f"{name}.yaml") for name in SHIPPED)


def find(choice: Choice | Sequence[Choice]) -> tuple[Scenario, ...]:
    """Return the scenarios of one choice, or of several in their order.

    Raises:
        UsageError: there is no such scenario, or the file is invalid.
    """
    if isinstance(choice, Scenario):
        return (choice,)
    if isinstance(choice, Path):
        return (load(choice),)
    if isinstance(choice, str):
        return _named(choice)
    return tuple(scenario for each in choice for scenario in find(each))


def _named(name: str) -> tuple[Scenario, ...]:
    """Return the scenarios of a name: ``all``, one that is shipped, or the path of a file."""
    if name == "all":
        return shipped()
    if name in SHIPPED:
        return (shipped()[SHIPPED.index(name)],)
    path = Path(name)
    is_file = os.path.isfile(path)  # noqa: PTH113 - Path.is_file raises for names that are too long
    # With a suffix, it is the path of a file, also if there is none: then load() says so.
    if not is_file and path.suffix not in _FILE_SUFFIXES:
        raise UsageError(
            f"'{name}' is no scenario: choose from all, {', '.join(SHIPPED)}, or give the path of a"
            " .yaml file or of a recording"
        )
    return (load(path),)
