"""The timeline on the boards of the fleet and of a VM: when events were Scheduled and Started.

A query returns a state as a number. ``_SCHEDULED`` and ``_STARTED`` are negative; a number from 0
on is the longest pause that was measured, in seconds, which the exporter shows for an hour after
the end.
"""

import grafanalib.core as g  # type: ignore[import-untyped] # it carries no types

from . import titles
from .board import manual
from .grafana import over_time, panel
from .queries import (
    EVENT_IMPACT,
    MOST,
    PAUSE,
    SELF,
    VM_IMPACT,
    any_vm_impact,
    last,
    metric,
)
from .style import HAPPENING, NEUTRAL, WAITING, values

_SCHEDULED = -2
_STARTED = -1
_PLACE = "(resource_group, vm_name)"
"""The labels that tell the VMs of a fleet apart, as a list of PromQL."""


def fleet_query(group: str) -> str:
    """Return the query for the state of each VM that had an event in the time range, at most 50.

    ``group`` matches the chosen resource groups.
    """
    # A pause has no label with the name of the VM. The impact has it, so it is added, as 0.
    named = f"0 * {last(VM_IMPACT, '[2h]')}"
    pauses = f"{metric(PAUSE)} + on (job, instance, event_id) group_left {_PLACE} {named}"
    latest = f"max by {_PLACE} (last_over_time({any_vm_impact(group)}[$__range] @ end()))"
    # At a moment at which a VM has both an event and a pause, `or` keeps the state of the event.
    return (
        f"(max by {_PLACE} ({_state(any_vm_impact())})"
        f" or max by {_PLACE} ({pauses}))"
        f" and on {_PLACE} topk({MOST}, {latest})"
    )


def vm_query(name: str, instance: str) -> str:
    """Return the query for the state of the events of one VM, by their type.

    ``name`` matches the VM, and ``instance`` matches its exporter.
    """
    own = metric(EVENT_IMPACT, instance, SELF)
    impacts = f"({own} or {any_vm_impact(name)})"
    return (
        f"max by (event_type) ({_state(impacts)})"
        f" or max by (event_type) ({metric(PAUSE, instance, SELF)})"
    )


def _state(impacts: str) -> str:
    """Return the query for the state of each event, as a number.

    An event counts as Started once its impact has begun: then the comparison is 1, and else 0.
    ``impacts`` is a query for the times at which the impacts begin.
    """
    return f"{_SCHEDULED} + ({impacts} <= bool time())"


def timeline(description: str, height: int, query: str, legend: str) -> g.Panel:
    """Return the timeline: a row for each series of the query."""
    states = {_SCHEDULED: ("Scheduled", WAITING), _STARTED: ("Started", HAPPENING)}
    return panel(
        g.StateTimeline,
        titles.TIMELINE,
        f"{description} Blue: scheduled. Orange: started. Gray, for an hour after the end: the"
        " longest pause that the VM measured.",
        (24, height),
        over_time(query, legend),
        links=manual("timeline"),
        unit="s",
        mappings=values(states),
        maxDataPoints=1440,
        defaults={
            "color": {"mode": "fixed", "fixedColor": NEUTRAL},
            "decimals": 1,
            "noValue": "No event in this time range, as far as exporters saw.",
        },
    )
