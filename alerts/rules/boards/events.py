"""Recordings about events for the dashboards: states, times, approvals and VMs."""

from azure_scheduled_events_exporter.metrics.spec import PREFIX as METRIC

from ...settings import Settings
from ..fragments import slow_interval
from ..rule import Group, Recording, expression
from ..series import EVENT_APPROVED, INFO, INSTANCE, NOT_BEFORE, PLANNED
from .parts import BY_TARGET, PLACE, board_groups

STATE = "azure_scheduled_events:event_state"
LAST_STATE = "azure_scheduled_events:event_last_state"
FIRST_SEEN = "azure_scheduled_events:event_first_seen_timestamp_seconds"
STARTED_AT = "azure_scheduled_events:event_started_timestamp_seconds"
STARTED_FOR = "azure_scheduled_events:event_started_seconds"
SECONDS_LEFT = "azure_scheduled_events:event_last_seconds_left"
PHASE = "azure_scheduled_events:event_phase_seconds"
URGENCY = "azure_scheduled_events:event_urgency"
APPROVED_BY = "azure_scheduled_events:event_approved_by"
VMS = "azure_scheduled_events:event_vms"
VM_STATE = "azure_scheduled_events:vm_event_state"
VM_LAST_STATE = "azure_scheduled_events:vm_event_last_state"
IMPACT_AT = "azure_scheduled_events:event_impact_timestamp_seconds"

EARLY_SECONDS = 60
"""An event that starts more than so long before its NotBefore was approved.

It is longer than the usual time between two scrapes, and shorter than the usual notice.
"""
HELD = "1h5m"
"""For how long dashboards find the last row of an event that no exporter shows any more.

It is longer than the time for which the rules remember an event by default (1 h).

Which events are held is not known here: queries ask the recording of current events.
"""

_EVENT = "event_id, event_type, event_source, description, resources"


def event_groups(settings: Settings) -> tuple[Group, ...]:
    """Return the groups about events. States and approvals are recorded often, since a Freeze takes seconds."""
    fast, slow = settings.duration("evaluation.interval"), slow_interval(settings)
    return board_groups(
        {
            "events": (fast, _states(settings)),
            "starts": (fast, _starts(settings)),
            "approvals": (fast, _approvals(settings)),
            "vms": (slow, _vms()),
            "event-times": (slow, _times()),
            "impacts": (slow, (_impact(),)),
        }
    )


def _states(settings: Settings) -> tuple[Recording, ...]:
    """The state of events, and how long they were in it."""
    interval = settings.number("evaluation.interval")
    return (
        Recording(
            STATE,
            expression(f"""
                topk by (event_id) (1,
                  3 * max by ({_EVENT}) ({INFO}{{event_status="Started"}})
                  or on (event_id)
                  max by ({_EVENT}) ({INFO}{{event_status!="Started"}})
                  + on (event_id) group_left () max by (event_id) ({METRIC}event_approved)
                )
            """),
            "one row per event that an exporter shows: 1 waiting, 2 approved, 3 started",
        ),
        Recording(
            LAST_STATE,
            _last_state(),
            "the same, and the last row of an event that no exporter shows any more; whether it is current, "
            "azure_scheduled_events:event tells",
        ),
        Recording(
            PHASE,
            expression(f"""
                {interval} * group by (event_id, event_type, phase) (
                  label_replace({STATE} == 1, "phase", "waiting", "", "")
                  or label_replace({STATE} == 3, "phase", "started", "", "")
                )
            """),
            "the seconds that one sample stands for: the sum over time is how long an event waited or stayed Started",
        ),
    )


def _last_state() -> str:
    return expression(f"""
        {STATE}
        or on (event_id)
        topk by (event_id) (1, last_over_time({STATE}[{HELD}]) unless on (event_id) {STATE})
    """)


def _impact() -> Recording:
    """An event that waits and whose NotBefore nobody knows may begin at any moment, so it counts as due."""
    waiting = f"(({_last_state()}) < 3)"
    return Recording(
        IMPACT_AT,
        expression(f"""
            min by (event_id, event_type) (last_over_time({PLANNED}[{HELD}]) and on (event_id) {waiting})
            or on (event_id)
            min by (event_id, event_type) ({NOT_BEFORE} and on (event_id) {waiting})
            or on (event_id)
            group by (event_id, event_type) {waiting} * 0 + time() - 1
        """),
        "NotBefore of events that wait, also while no exporter shows them; without one, they may begin now",
    )


def _starts(settings: Settings) -> tuple[Recording, ...]:
    """How long events stayed Started, from the first to the last sample: a VM may be down in between."""
    interval, longest = settings.number("evaluation.interval"), settings.duration("longest")
    started = f'{INFO}{{event_status="Started"}}'
    return (
        Recording(
            STARTED_AT,
            expression(f"""
                min by (event_id, event_type) (min_over_time({STARTED_AT}[{longest}]) and on (event_id) {started})
                or on (event_id)
                group by (event_id, event_type) ({started}) * time()
            """),
            "when an event was first seen Started, while an exporter shows it so",
        ),
        Recording(
            STARTED_FOR,
            f"{interval} + time() - {STARTED_AT}",
            "how long it has been Started, also if nobody showed it in between",
        ),
    )


def _vms() -> tuple[Recording, ...]:
    """The state of the VMs that events happen to."""
    return (
        Recording(
            VM_STATE,
            expression(f"""
                max by (event_id, event_type, vm_name, fault_domain, {PLACE}) (
                  max by (event_id, event_type, job, instance) (
                    3 * {INFO}{{scope="self", event_status="Started"}}
                    or on (job, instance, event_id)
                    1 + {METRIC}event_approved{{scope="self"}}
                  )
                  * {BY_TARGET} group_left (vm_name, fault_domain, {PLACE})
                  topk by (job, instance) (1, {INSTANCE} and {BY_TARGET} {INFO}{{scope="self"}})
                )
            """),
            "the same state for each VM that an event happens to, with its place",
        ),
        Recording(
            VM_LAST_STATE,
            expression(f"""
                {VM_STATE}
                or
                (
                  {VM_LAST_STATE}
                  and last_over_time({VM_STATE}[{HELD}])
                  unless on (vm_name, {PLACE}) group by (vm_name, {PLACE}) ({INSTANCE})
                  unless ({VM_LAST_STATE}{{resource_group=""}} and on (vm_name) {INSTANCE})
                )
            """),
            "the same, and the last row of a VM whose exporter has not answered since",
        ),
    )


def _times() -> tuple[Recording, ...]:
    """How many VMs an event names, and when it was first seen."""
    return (
        Recording(
            VMS,
            f"max by (event_id, event_type) ({METRIC}event_resources)",
            "the number of VMs that an event names, also those without an exporter",
        ),
        Recording(
            FIRST_SEEN,
            f"min by (event_id, event_type) ({METRIC}event_first_seen_timestamp_seconds)",
            "when the first exporter saw the event",
        ),
    )


def _approvals(settings: Settings) -> tuple[Recording, ...]:
    """Who approved an event, how long before NotBefore that was, and the order of events in tables.

    The last value before a punctual start is as large as a scrape and an evaluation are apart. Boards compare it with
    a fixed number, so it is recorded as so much less if they are rare.
    """
    apart = settings.seconds("scrape.interval") + settings.seconds("evaluation.interval") - EARLY_SECONDS
    late = f" - {apart:.15g}" if apart > 0 else ""
    return (
        Recording(
            SECONDS_LEFT,
            f"min by (event_id, event_type) ({METRIC}event_seconds_until_not_before){late}",
            "time to NotBefore while the event waits; the last value tells an early start from a punctual one",
        ),
        Recording(
            APPROVED_BY,
            expression(f"""
                max by (event_id, event_type, approved_by) (
                  label_replace(
                    max_over_time({EVENT_APPROVED}[1h]) == 1 and on (event_id) {STATE},
                    "approved_by", "exporter or operator", "", ""
                  )
                  or on (event_id)
                  label_replace(
                    {STATE} == 3 and on (event_id) last_over_time({SECONDS_LEFT}[1h]) > {EARLY_SECONDS},
                    "approved_by", "elsewhere", "", ""
                  ) - 1
                  or on (event_id)
                  label_replace({STATE} == 3, "approved_by", "nobody", "", "")
                )
            """),
            "events that may start, by who approved them: 1 an exporter or operator, also while that exporter is down, "
            "2 elsewhere, 3 nobody: they started at NotBefore. Of several values over time the least is right",
        ),
        Recording(
            URGENCY,
            expression(f"""
                1e11 * max by (event_id) ({STATE})
                - on (event_id)
                (max by (event_id) ({SECONDS_LEFT}) or on (event_id) 0 * max by (event_id) ({STATE}))
            """),
            "the order in which tables show events: started ones, approved ones, then by NotBefore",
        ),
    )
