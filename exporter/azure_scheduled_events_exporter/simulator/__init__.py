"""A stand-in for IMDS on the wire, so that people drill their paging off Azure. Only re-exports."""

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
