"""The dashboard of one VM: what happens to it now, what happened to it, and whether it can see."""

from . import vm_queries as q
from .board import (
    APPROVED_BY,
    COUNTDOWN_STEPS,
    COUNTDOWN_UNIT,
    OVERDUE,
    VM,
    board,
    columns,
    events_panel,
    manual,
    runbook,
    trace_link,
)
from .panel import Panel, Query, Row
from .style import (
    APPROVED,
    BLIND,
    FINE,
    IMPACT,
    NEUTRAL,
    POLLS,
    QUIET,
    REASONS,
    SIGHT,
    STATES,
    UNKNOWN,
    WAITING,
    Json,
    above,
    by_name,
    hidden,
    painted,
    pattern,
    steps,
    values,
)

_PAST = "30d"
_OUTCOMES: dict[float, tuple[str, str]] = {
    0: ("current", WAITING),
    1: ("completed", IMPACT),
    2: ("cancelled", NEUTRAL),
    3: ("lost", BLIND),
}


def vm() -> Json:
    """Return the dashboard."""
    return board(
        VM,
        "Azure Scheduled Events / VM",
        "One VM: its events now and over the last 30 days, and whether its exporter sees.",
        [
            *_answer(),
            events_panel(
                (0, 8, 24, 6), (q.EVENTS, *q.EVENT_COLUMNS), "No exporter knows of an event that touches this VM."
            ),
            *_past(),
            Row("Approvals, pauses and document", 31),
            *(panel.below(32) for panel in _approvals()),
        ],
        time_from="now-24h",
        one_vm=True,
    )


def _answer() -> list[Panel]:
    states = {0: ("nothing announced", FINE), **STATES, UNKNOWN: ("unknown", BLIND)}
    return [
        Panel(
            "stat",
            "Does it see?",
            "Whether the exporter on this VM can ask IMDS, and if not, why.",
            (0, 0, 5, 4),
            [Query(q.SIGHT, instant=True)],
            "none",
            steps(FINE),
            values({0: ("It sees IMDS", FINE), **REASONS, UNKNOWN: ("no exporter known", BLIND)}),
            links=runbook("AzureScheduledEventExporterDown"),
        ),
        Panel(
            "stat",
            "What happens to it",
            "The furthest state of the events that touch this VM, whoever sees them.",
            (5, 0, 6, 4),
            [Query(q.STATE, instant=True)],
            "none",
            steps(NEUTRAL),
            values(states),
            links=manual("vm"),
        ),
        Panel(
            "stat",
            "Next impact in",
            "Time to the earliest NotBefore of its waiting events.",
            (11, 0, 6, 4),
            [Query(q.NEXT_IMPACT, instant=True)],
            COUNTDOWN_UNIT,
            COUNTDOWN_STEPS,
            [OVERDUE, *values({QUIET: ("nothing waiting", FINE), UNKNOWN: ("unknown", BLIND)})],
            links=manual("vm"),
        ),
        Panel(
            "stat",
            "Last answer of IMDS",
            "How long ago its exporter last got a valid answer, as far as Prometheus knows.",
            (17, 0, 4, 4),
            [Query(q.ANSWER_AGE, instant=True)],
            "s",
            steps(FINE, (120, BLIND)),
            [above(1e9, "never", BLIND)],
            defaults={"decimals": 0, "noValue": "unknown"},
            links=runbook("AzureScheduledEventExporterDown"),
        ),
        Panel(
            "stat",
            "Incarnation",
            "DocumentIncarnation of the newest document; IMDS changes it with the events. Empty answers carry none.",
            (21, 0, 3, 4),
            [Query(q.INCARNATION, instant=True)],
            "none",
            steps(NEUTRAL),
            options={"colorMode": "value"},
            defaults={"noValue": "unknown"},
            links=manual("vm"),
        ),
        Panel(
            "table",
            "Identity",
            "What the instance metadata says about this VM, as of today.",
            (0, 4, 24, 4),
            [Query(q.IDENTITY, table=True)],
            "none",
            links=manual("vm"),
            transformations=columns(
                {
                    "vm_name": "VM",
                    "scale_set": "Scale set",
                    "resource_group": "Resource group",
                    "location": "Location",
                    "zone": "Zone",
                    "fault_domain": "Fault domain",
                    "vm_size": "Size",
                    "priority": "Priority",
                    "vm_id": "VM id",
                    "instance": "Instance",
                    "job": "Job",
                },
                "Value",
            ),
            defaults={"noValue": "No exporter has named this VM within a day."},
            overrides=[
                by_name("VM id", custom__width=305),
                by_name("Zone", custom__width=60),
                by_name("Fault domain", custom__width=105),
                by_name("Priority", custom__width=80),
                *(by_name(name, custom__minWidth=95) for name in ("VM", "Scale set", "Location", "Size", "Job")),
                *(by_name(name, custom__minWidth=130) for name in ("Resource group", "Instance")),
            ],
        ),
    ]


def _past() -> list[Panel]:
    return [
        Panel(
            "state-timeline",
            "Its last 30 days",
            "By type, the furthest state of the events that touched it, and what its exporter could see. Gaps in the "
            "last line: Prometheus knew of no exporter on it.",
            (0, 14, 24, 8),
            [Query(q.TIMELINE, "{{event_type}}"), Query(q.SIGHT_HISTORY, "exporter")],
            "none",
            mappings=values({1: ("announced", WAITING), 3: ("STARTED", IMPACT)}),
            links=manual("vm"),
            time_from=_PAST,
            points=8640,  # five minutes each
            defaults={
                "color": {"mode": "fixed", "fixedColor": NEUTRAL},
                "noValue": "neither an event nor an exporter in 30 days",
            },
            overrides=[by_name("exporter", mappings=values(SIGHT))],
        ),
        Panel(
            "table",
            "Its last events",
            "Events that touched it in the last 30 days: the warning given, how long they waited and stayed Started "
            "(to the scrape and to half a minute), and how they ended.",
            (0, 22, 24, 9),
            [
                Query(expr, table=True)
                for expr in (q.PAST_EVENTS, q.PAST_NOTICE, q.PAST_WAITED, q.PAST_STARTED, q.PAST_OUTCOME)
            ],
            "s",
            links=manual("vm"),
            time_from=_PAST,
            transformations=columns(
                {
                    "Value #A": "First seen",
                    "event_type": "Type",
                    "Value #E": "Outcome",
                    "Value #B": "Notice",
                    "Value #C": "Waited",
                    "Value #D": "Started for",
                    "resources": "VMs",
                    "event_source": "Source",
                    "description": "Description",
                    "event_id": "EventId",
                    "trace_id": "",
                },
                "first_vm",
            ),
            options={"sortBy": [{"displayName": "First seen", "desc": True}]},
            defaults={"decimals": 0, "noValue": "no event in 30 days"},
            overrides=[
                by_name("First seen", unit="dateTimeAsIso", custom__width=170),
                by_name(
                    "Outcome",
                    mappings=values(_OUTCOMES),
                    custom__cellOptions={"type": "color-text"},
                    custom__width=100,
                ),
                *(
                    by_name(name, unit=COUNTDOWN_UNIT, noValue=without, custom__width=100)
                    for name, without in (("Notice", "none"), ("Waited", "not at all"), ("Started for", " "))
                ),
                by_name("Type", custom__width=95),
                by_name("Source", custom__width=80),
                by_name("EventId", links=trace_link(), mappings=pattern("^(.{8}).*", "$1 …"), custom__width=110),
                *hidden("trace_id"),
            ],
        ),
    ]


def _approvals() -> list[Panel]:
    return [
        Panel(
            "table",
            "Approvals that its exporter knows of",
            "Events by who let them begin, and the mean time from first seen to then. External: it started early, and "
            "not by this exporter.",
            (0, 0, 9, 7),
            [Query(q.APPROVALS, table=True), Query(q.APPROVAL_MEAN, table=True)],
            "s",
            links=manual("approvals"),
            time_from=_PAST,
            transformations=columns(
                {
                    "event_type": "Type",
                    "approved_by": "Approved by",
                    "Value #A": "Events",
                    "Value #B": "Mean time to approval",
                }
            ),
            defaults={"decimals": 0, "noValue": "none known in 30 days"},
            overrides=[
                by_name(
                    "Approved by",
                    mappings=APPROVED_BY,
                    custom__cellOptions={"type": "color-text"},
                    custom__minWidth=170,
                ),
                by_name("Type", custom__width=95),
                by_name("Events", unit="none", decimals=0, custom__width=80),
            ],
        ),
        Panel(
            "bargauge",
            "Requests to approve",
            "What its exporter asked of IMDS in the last 30 days, by answer.",
            (9, 0, 4, 7),
            [Query(q.APPROVAL_REQUESTS, "{{outcome}}", instant=True)],
            "none",
            steps(NEUTRAL),
            links=runbook("AzureScheduledEventApprovalRefused"),
            time_from=_PAST,
            defaults={"decimals": 0, "min": 0, "noValue": "unknown"},
            overrides=painted({"accepted": APPROVED, "rejected": BLIND, "error": POLLS["http_error"]}),
        ),
        Panel(
            "table",
            "How long it stood still",
            "The longest pause of each event that ended in the last 30 days, as this VM measured it.",
            (13, 0, 6, 7),
            [Query(q.PAUSES, table=True), Query(q.PAUSE_MEAN, table=True)],
            "s",
            links=manual("vm"),
            time_from=_PAST,
            transformations=columns({"event_type": "Type", "Value #A": "Events", "Value #B": "Mean pause"}),
            defaults={"decimals": 1, "noValue": "none measured in 30 days"},
            overrides=[
                by_name("Type", custom__width=95),
                by_name("Events", unit="none", decimals=0, custom__width=80),
            ],
        ),
        Panel(
            "timeseries",
            "DocumentIncarnation",
            "Changes whenever the events do, and starts over when the service was disabled in between.",
            (19, 0, 5, 7),
            [Query(q.INCARNATION, "incarnation")],
            "none",
            links=manual("vm"),
            custom={"lineInterpolation": "stepAfter"},
            defaults={"decimals": 0, "color": {"mode": "fixed", "fixedColor": NEUTRAL}, "noValue": "none in this time"},
        ),
    ]
