"""The dashboard of the fleet: what is about to happen, to what, when, and whether this can be trusted."""

from . import event_queries as q
from . import exporter_queries
from .board import (
    APPROVED_BY,
    COUNTDOWN_STEPS,
    COUNTDOWN_UNIT,
    FLEET,
    OVERDUE,
    board,
    columns,
    countdown,
    events_panel,
    manual,
    runbook,
    solid,
    vm_link,
)
from .panel import Panel, Query, Row
from .selection import mine
from .style import (
    BLIND,
    DOUBTFUL,
    FINE,
    IMPACT,
    NEUTRAL,
    QUIET,
    REASONS,
    STATES,
    TYPES,
    UNKNOWN,
    WAITING,
    Json,
    by_name,
    painted,
    steps,
    values,
)

_HISTORY = "30d"
_MAPPED = {"mode": "fixed", "fixedColor": NEUTRAL}  # not by thresholds, which would hide the texts of values
_NOT_KNOWN = values({DOUBTFUL: ("0 seen, some blind", BLIND), UNKNOWN: ("unknown", BLIND)})


def fleet() -> Json:
    """Return the dashboard."""
    return board(
        FLEET,
        "Azure Scheduled Events / Fleet",
        "What Azure is about to do to which VMs, when, and whether the exporters that say so can see.",
        [
            *_answer(),
            events_panel(
                (0, 5, 24, 9),
                (q.EVENTS, *q.event_columns(mine)),
                "No current event is known. Look at 'Can I trust this?' first.",
            ),
            *_now(),
            Row("The last 30 days", 31),
            *(panel.below(32) for panel in _history()),
        ],
        time_from="now-3h",
    )


def _answer() -> list[Panel]:
    return [
        Panel(
            "stat",
            "Can I trust this?",
            "Exporters that cannot see IMDS: not to be scraped, refused by IMDS, or no longer polling. What they "
            "would say is not on this page.",
            (0, 0, 4, 5),
            [Query(exporter_queries.TRUST, instant=True)],
            "suffix: blind",
            steps(FINE, (1, BLIND)),
            values({0: ("Yes: all see", FINE), UNKNOWN: ("No: nobody sees", BLIND)}),
            links=runbook("AzureScheduledEventExporterDown"),
        ),
        Panel(
            "stat",
            "Next impact in",
            "Time to the earliest NotBefore of all waiting events. Azure does not begin before it, unless the event is "
            "approved; after it, at any moment.",
            (4, 0, 5, 5),
            [Query(q.NEXT_IMPACT, instant=True)],
            COUNTDOWN_UNIT,
            COUNTDOWN_STEPS,
            [
                OVERDUE,
                *values(
                    {
                        QUIET: ("nothing announced", FINE),
                        DOUBTFUL: ("none seen, some blind", BLIND),
                        UNKNOWN: ("unknown", BLIND),
                    }
                ),
            ],
            links=manual("next-impact-in"),
        ),
        _count("VMs about to be hit", q.VMS_WAITING, WAITING, (9, 0, 4, 5), "VMs with an event that has not started"),
        _count("VMs being hit now", q.VMS_STARTED, IMPACT, (13, 0, 4, 5), "VMs with an event that has started"),
        Panel(
            "table",
            "Exporters that cannot see",
            "Each with the VM it was last known to run on, why it is blind, and since when nobody knows about that VM "
            "from itself. Its neighbours in the scale set may still see its events.",
            (17, 0, 7, 5),
            [Query(q.BLIND_EXPORTERS, table=True), Query(q.BLIND_SINCE, table=True)],
            "none",
            links=runbook("AzureScheduledEventExporterDown"),
            transformations=columns(
                {
                    "Value #A": "Why",
                    "vm_name": "VM",
                    "Value #B": "Blind for",
                    "scale_set": "Scale set",
                    "instance": "Instance",
                },
                "job",
                "zone",
            ),
            options={"sortBy": [{"displayName": "Blind for", "desc": True}]},
            defaults={"noValue": "None is known to be blind."},
            overrides=[
                solid("Why", mappings=values(REASONS), width=105),
                by_name("VM", links=vm_link("VM"), custom__minWidth=80),
                by_name("Scale set", custom__minWidth=65),
                by_name("Blind for", unit=COUNTDOWN_UNIT, custom__width=80),
                by_name("Instance", custom__minWidth=105),
            ],
        ),
    ]


def _count(title: str, expr: str, colour: str, at: tuple[int, int, int, int], what: str) -> Panel:
    return Panel(
        "stat",
        title,
        f"{what}. A VM with an exporter counts once; VMs that nobody watches count for each event that names them.",
        at,
        [Query(expr, instant=True)],
        "none",
        steps(NEUTRAL, (1, colour)),
        _NOT_KNOWN,
        links=manual("vms"),
    )


def _now() -> list[Panel]:
    per_type = (
        q.TYPE_EVENTS_WAITING,
        q.TYPE_VMS_WAITING,
        q.TYPE_COUNTDOWN,
        q.TYPE_EVENTS_STARTED,
        q.TYPE_VMS_STARTED,
    )
    numbers = {
        "thresholds": steps(NEUTRAL, (1, WAITING)),
        "custom__width": 72,
        "custom__cellOptions": {"type": "color-text"},
    }
    started = {
        "thresholds": steps(NEUTRAL, (1, IMPACT)),
        "custom__width": 72,
        "custom__cellOptions": {"type": "color-text"},
    }
    return [
        Panel(
            "table",
            "VMs that are hit",
            "A row for each VM and event, from the VM's own exporter. A VM's name leads to its dashboard.",
            (0, 14, 10, 9),
            [Query(q.VM_STATES, table=True), Query(q.VM_COUNTDOWNS, table=True)],
            "none",
            links=manual("vms"),
            transformations=columns(
                {
                    "Value #A": "State",
                    "event_type": "Type",
                    "vm_name": "VM",
                    "Value #B": "Starts in",
                    "scale_set": "Scale set",
                    "zone": "Zone",
                    "fault_domain": "Fault domain",
                },
                "event_id",
            ),
            options={"sortBy": [{"displayName": "Starts in", "desc": False}]},
            defaults={"noValue": "No exporter says that its VM is hit."},
            overrides=[
                solid("State", mappings=values(STATES), width=90),
                by_name("Type", custom__width=90),
                by_name("VM", links=vm_link("VM"), custom__minWidth=80),
                countdown("Starts in"),
                by_name("Scale set", custom__minWidth=80),
                by_name("Zone", custom__width=55),
                by_name("Fault domain", custom__width=105),
            ],
        ),
        Panel(
            "table",
            "By type",
            "Events and VMs by type of event, each event and each VM once.",
            (10, 14, 8, 9),
            [Query(expr, table=True) for expr in per_type],
            "none",
            links=manual("vms"),
            transformations=columns(
                {
                    "event_type": "Type",
                    "Value #A": "Waiting",
                    "Value #B": "on VMs",
                    "Value #C": "Next in",
                    "Value #D": "Started",
                    "Value #E": "on VMs ",
                }
            ),
            defaults={"noValue": " "},
            overrides=[
                by_name("Type", custom__width=90),
                *(by_name(name, **numbers) for name in ("Waiting", "on VMs")),
                countdown("Next in", without=" "),
                *(by_name(name, **started) for name in ("Started", "on VMs ")),
            ],
        ),
        Panel(
            "bargauge",
            "Share that is affected",
            "VMs with a current event, of all watched VMs of the same scale set and of the same zone.",
            (18, 14, 6, 9),
            [
                Query(q.SCALE_SETS_HIT, "{{scale_set}}", instant=True),
                Query(q.ZONES_HIT, "{{location}}-{{zone}}", instant=True),
            ],
            "percentunit",
            steps(NEUTRAL, (0.001, WAITING), (0.5, IMPACT)),
            links=manual("share-that-is-affected"),
            defaults={"min": 0, "max": 1, "decimals": 0, "noValue": "no exporter names its scale set or zone"},
        ),
        Panel(
            "state-timeline",
            "Events over time",
            "Each event from its announcement to its end, by what the exporters showed.",
            (0, 23, 24, 8),
            [Query(q.EVENT_STATES, "{{event_type}} {{vms}}")],
            "none",
            mappings=values(STATES),
            links=manual("events-over-time"),
            defaults={"color": _MAPPED, "noValue": "no event in this time range, as far as the exporters saw"},
        ),
    ]


def _history() -> list[Panel]:
    outcomes = {"completed": IMPACT, "cancelled": NEUTRAL, "lost": BLIND, "current": WAITING}
    ended = (q.ENDED_COMPLETED, q.ENDED_CANCELLED, q.ENDED_LOST, q.STILL_CURRENT)
    return [
        Panel(
            "timeseries",
            "Events per day",
            "Events by the day on which they were first seen, each once.",
            (0, 0, 8, 8),
            [Query(q.EVENTS_PER_DAY, "{{event_type}}")],
            "none",
            links=manual("history"),
            time_from=_HISTORY,
            interval="1d",
            custom={
                "drawStyle": "bars",
                "fillOpacity": 90,
                "lineWidth": 0,
                "stacking": {"mode": "normal", "group": "A"},
            },
            defaults={"decimals": 0, "min": 0, "noValue": "no event in 30 days"},
            overrides=painted(TYPES),
        ),
        Panel(
            "barchart",
            "How they ended",
            "completed: seen Started. cancelled: gone more than a minute before NotBefore. lost: gone later, and "
            "nobody saw it start. Each event once.",
            (8, 0, 8, 8),
            [Query(expr, table=True) for expr in ended],
            "none",
            links=manual("history"),
            time_from=_HISTORY,
            transformations=columns(
                {"event_type": "Type", **{f"Value #{ref}": name for ref, name in zip("ABCD", outcomes, strict=True)}}
            ),
            options={"xField": "Type"},
            defaults={"decimals": 0, "min": 0, "noValue": "no event in 30 days"},
            overrides=painted(outcomes),
        ),
        Panel(
            "table",
            "Notice really given",
            "From first seen to the last NotBefore announced; 0 for an event first seen as Started.",
            (16, 0, 8, 8),
            [Query(q.NOTICE_MEDIAN, table=True), Query(q.NOTICE_WORST, table=True)],
            COUNTDOWN_UNIT,
            links=manual("history"),
            time_from=_HISTORY,
            transformations=columns({"event_type": "Type", "Value #A": "Median", "Value #B": "Worst"}),
            defaults={"noValue": "no event in 30 days"},
            overrides=[
                by_name(
                    "Worst",
                    thresholds=steps(IMPACT, (30, NEUTRAL)),
                    custom__cellOptions={"type": "color-text"},
                ),
            ],
        ),
        Panel(
            "table",
            "Approvals",
            "From first seen to approved, by who approved. Approvals by an exporter or an operator are as their "
            "exporters measured; for the others, which nobody tells, from first seen to the start.",
            (0, 8, 12, 8),
            [Query(expr, table=True) for expr in (q.APPROVALS, q.APPROVAL_MEDIAN, q.APPROVAL_SLOWEST)],
            "s",
            links=manual("approvals"),
            time_from=_HISTORY,
            transformations=columns(
                {
                    "event_type": "Type",
                    "approved_by": "Approved by",
                    "Value #A": "Events",
                    "Value #B": "Median",
                    "Value #C": "Slowest",
                }
            ),
            defaults={"decimals": 1, "noValue": "no event started in 30 days"},
            overrides=[
                by_name(
                    "Approved by",
                    mappings=APPROVED_BY,
                    custom__cellOptions={"type": "color-text"},
                    custom__minWidth=180,
                ),
                by_name("Type", custom__width=95),
                by_name("Events", unit="none", decimals=0, custom__width=80),
            ],
        ),
        Panel(
            "table",
            "How long events stayed Started",
            "The phase Started, which is longer than the impact itself. By histogram: an event weighs as much as the "
            "number of exporters that saw it, and values are read between bounds.",
            (12, 8, 12, 8),
            [Query(q.STARTED_MEDIAN, table=True), Query(q.STARTED_LONGEST, table=True)],
            "s",
            links=manual("history"),
            time_from=_HISTORY,
            transformations=columns({"event_type": "Type", "Value #A": "Median", "Value #B": "At most"}),
            defaults={"decimals": 1, "noValue": "no event ended in 30 days"},
            overrides=[],
        ),
    ]
