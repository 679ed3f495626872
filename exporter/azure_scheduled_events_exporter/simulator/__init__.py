"""A server that answers as IMDS does, so that people can test their paging outside Azure.

Must not use the parts that it tests: the client, the poller and the journal.
"""

from .faults import Fault, FaultPlan
from .scenario import PlannedEvent, Scenario, Starts, VirtualMachine, find, load, parse, shipped
from .server import Simulator
from .service import Seen
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
