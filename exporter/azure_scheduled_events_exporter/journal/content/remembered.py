"""What is known after all entries of a journal: events, statistics, numbers, and whose it is.

Data only.
"""

import os
from dataclasses import dataclass, field

from azure_scheduled_events_exporter.core.lifecycle import Lifecycles
from azure_scheduled_events_exporter.core.statistics import Statistics
from azure_scheduled_events_exporter.core.timestamp import Timestamp

from .look import Look


@dataclass(frozen=True, slots=True)
class Remembered:
    """What is known after all entries. If the file is lost in use, a new one begins with this.

    Attributes:
        lifecycles: the current events, and the last ended ones in the order in which they ended.
        statistics: of all transitions.
        last_number: of the newest transition.
        epoch: a random id of this journal, within which the numbers of transitions are unique.
        vm_id: of the VM that the journal belongs to; ``""`` while that is not known.
        heartbeat: the last moment at which an exporter is known to have run, written while an event
            of this VM is Started, and when the process ends while one is current; otherwise None.
    """

    lifecycles: Lifecycles = field(default_factory=Lifecycles)
    statistics: Statistics = field(default_factory=Statistics)
    last_number: int = 0
    epoch: str = field(default_factory=lambda: os.urandom(4).hex())
    vm_id: str = ""
    heartbeat: Timestamp | None = None


@dataclass(frozen=True, slots=True)
class Restored:
    """What was read from a file at the start.

    Attributes:
        remembered: what earlier runs have left.
        look: what the file has for the exporter's other threads.
        problem: why the file cannot be written now, ``""`` if it can.
    """

    remembered: Remembered = field(default_factory=Remembered)
    look: Look = field(default_factory=Look)
    problem: str = ""
