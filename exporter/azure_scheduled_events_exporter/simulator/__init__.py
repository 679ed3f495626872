"""A server that answers as IMDS does, so that people can test their paging outside Azure.

The package does not use what people test with it: the client of IMDS, the poller and the journal.
"""

from .catalog import find, shipped
from .exchange import Seen
from .faults import Fault, FaultPlan
from .scenario import PlannedEvent, Scenario, Starts, VirtualMachine
from .scenario_file import load, parse
from .server import Simulator
from .timeline import Happening, What

__all__ = [
    "Fault",
    "FaultPlan",
    "Happening",
    "PlannedEvent",
    "Scenario",
    "Seen",
    "Simulator",
    "Starts",
    "VirtualMachine",
    "What",
    "find",
    "load",
    "parse",
    "shipped",
]
