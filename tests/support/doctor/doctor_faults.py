"""A fault that ``doctor`` has to find: the check that finds it, the text of its hint, and how it comes about.

Each plants one thing that is wrong in a chain that is otherwise well.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from support.doctor.doctor_chain import Chain

Flags = dict[str, str | None]


@dataclass(frozen=True)
class Fault:
    """A fault; ``plant`` returns the flags and variables with which doctor then looks at the chain."""

    name: str
    check: str
    hint: str
    plant: Callable[[Chain], tuple[Flags, Mapping[str, str]]] = field(repr=False)
    mark: str = "wrong"


def flags(**changed: str | None) -> Callable[[Chain], tuple[Flags, Mapping[str, str]]]:
    """Plant a fault by flags alone, underscores for dashes and dots by the names of settings."""
    names = {
        "imds": "imds.endpoint",
        "journal": "journal.path",
        "listen": "web.listen-address",
        "otlp": "otlp.endpoint",
    }
    given = {names.get(name, name): value for name, value in changed.items()}
    return lambda chain: ({**chain.here, **given}, {})


def variables(**changed: str) -> Callable[[Chain], tuple[Flags, Mapping[str, str]]]:
    """Plant a fault by the environment."""
    return lambda chain: (chain.here, changed)


def by(plant: Callable[[Chain], Mapping[str, str | None]]) -> Callable[[Chain], tuple[Flags, Mapping[str, str]]]:
    """Plant a fault that has to be started first; ``plant`` returns the flags that lead to it."""
    return lambda chain: ({**chain.here, **plant(chain)}, {})


def beyond(plant: Callable[[Chain], Mapping[str, str | None]]) -> Callable[[Chain], tuple[Flags, Mapping[str, str]]]:
    """Plant a fault beyond this machine; ``plant`` returns the flags that lead to it."""
    return lambda chain: ({**chain.beyond, **plant(chain)}, {})
