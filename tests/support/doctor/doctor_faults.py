"""A fault that ``doctor`` has to find: the check that finds it, the text of its hint, and how it
comes about.

Each plants one thing that is wrong in a chain that is otherwise well.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from support.doctor.doctor_chain import Chain

Flags = dict[str, str | None]
Plant = Callable[[Chain], tuple[Flags, Mapping[str, str]]]
"""Starts what is wrong; returns the flags and variables with which doctor then looks at the chain.
"""


@dataclass(frozen=True)
class Fault:
    """A fault."""

    name: str
    check: str
    hint: str
    plant: Plant = field(repr=False)
    mark: str = "wrong"


def flags(changed: Flags) -> Plant:
    """Plant a fault by flags alone."""
    return by(lambda _: changed)


def variables(**changed: str) -> Plant:
    """Plant a fault by the environment."""
    return lambda chain: (chain.here, changed)


def by(plant: Callable[[Chain], Flags]) -> Plant:
    """Plant a fault that has to be started first; ``plant`` returns the flags that lead to it."""
    return lambda chain: ({**chain.here, **plant(chain)}, {})


def beyond(plant: Callable[[Chain], Flags]) -> Plant:
    """Plant a fault beyond this machine; ``plant`` returns the flags that lead to it."""
    return lambda chain: ({**chain.beyond, **plant(chain)}, {})
