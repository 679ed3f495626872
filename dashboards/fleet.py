"""The dashboard of the fleet: what is about to happen, to what, when, and whether this can be trusted."""

from collections.abc import Sequence

import grafanalib.core as g  # type: ignore[import-untyped] # it carries no types

from . import fleet_queries as q
from .board import (
    COUNTDOWN_STEPS,
    COUNTDOWN_UNIT,
    EVENT_COLUMNS,
    EVENT_LOOKS,
    FLEET,
    HISTORY,
    OVERDUE,
    board,
    colored,
    columns,
    countdown,
    manual,
    runbook,
    solid,
    values_of,
    vm_link,
)
from .grafana import datasource_variable, graph, instant, panel, row, tables, variable
from .style import (
    APPROVED_BY,
    BLIND,
    FINE,
    FIXED,
    IMPACT,
    MISSING,
    NEUTRAL,
    NO_RULES,
    OUTCOMES,
    QUIET,
    REASONS,
    STATES,
    TYPES,
    UNKNOWN,
    WAITING,
    Json,
    between,
    by_name,
    painted,
    steps,
    values,
)


def fleet() -> Json:
    """Return the dashboard."""
    everywhere = ".*"
    group = 'resource_group=~"$resource_group|"'
    return board(
        FLEET,
        "What Azure is about to do to which VMs, when, and whether the exporters that report it have current data.",
        [*_answer(), _events(), *_now(), row("The last 30 days"), *_history()],
        [
            datasource_variable("traces", "Traces", "tempo"),
            variable("resource_group", "Resource group", values_of("resource_group"), all_value=everywhere),
            variable("scale_set", "Scale set", values_of("scale_set", group), all_value=everywhere),
        ],
        time_from="now-3h",
    )


def _answer() -> list[g.Panel]:
    return [
        panel(
            g.Stat,
            "Is the data current?",
            "Exporters without current data: Prometheus cannot scrape them, IMDS does not answer them, or they stopped "
            "polling. Their events may be missing on this page. Also shows when the recording rules are missing.",
            (4, 5),
            [instant(q.TRUST)],
            unit="suffix: without data",
            thresholds=steps(FINE, (1, BLIND)),
            mappings=values({0: ("yes", FINE), UNKNOWN: ("no exporter", BLIND), MISSING: NO_RULES}),
            links=runbook("AzureScheduledEventExporterDown"),
        ),
        panel(
            g.Stat,
            "Next impact in",
            "Time to the earliest NotBefore of all waiting events. Azure does not start an event before it, unless the "
            "event is approved; after it, at any moment.",
            (5, 5),
            [instant(q.NEXT_IMPACT)],
            unit=COUNTDOWN_UNIT,
            thresholds=COUNTDOWN_STEPS,
            mappings=[
                OVERDUE,
                *values(
                    {
                        QUIET: ("nothing announced", FINE),
                        UNKNOWN: ("unknown", BLIND),
                    }
                ),
                between(QUIET + 1, UNKNOWN - 1, "none known, data incomplete", BLIND),
            ],
            links=manual("next-impact-in"),
        ),
        _count("VMs about to be hit", q.VMS_WAITING, WAITING, "VMs with an event that has not started"),
        _count("VMs being hit now", q.VMS_STARTED, IMPACT, "VMs with an event that has started"),
        panel(
            g.Table,
            "Exporters without current data",
            "At most 50: the VM that each was last known to run on, why it has no current data, and for how long "
            "it had none in the last 24 hours. Other VMs of the scale set may still report the events of this VM.",
            (7, 5),
            tables(q.BLIND_EXPORTERS, q.BLIND_FOR),
            links=runbook("AzureScheduledEventExporterDown"),
            transformations=columns(
                {
                    "Value #A": "Why",
                    "vm_name": "VM",
                    "Value #B": "In last 24 h",
                    "scale_set": "Scale set",
                    "instance": "Instance",
                },
                "job",
            ),
            options={"sortBy": [{"displayName": "In last 24 h", "desc": True}]},
            defaults={"noValue": "None is known."},
            overrides=[
                solid("Why", mappings=values(REASONS), width=115),
                by_name("VM", links=vm_link("VM"), custom__minWidth=70),
                by_name("Scale set", custom__minWidth=65),
                by_name("In last 24 h", unit=COUNTDOWN_UNIT, custom__width=100),
                by_name("Instance", custom__minWidth=95),
            ],
        ),
    ]


def _count(title: str, expr: str, color: str, what: str) -> g.Panel:
    return panel(
        g.Stat,
        title,
        f"{what}. A VM counts for each event that names it, whether it has an exporter or not.",
        (4, 5),
        [instant(expr)],
        thresholds=steps(NEUTRAL, (1, color)),
        mappings=[*values({UNKNOWN: ("unknown", BLIND)}), between(1e5, UNKNOWN - 1, "0 known, data incomplete", BLIND)],
        links=manual("vms"),
    )


def _events() -> g.Panel:
    return panel(
        g.Table,
        "Events now",
        "The 50 most urgent events, each once, whatever the number of exporters that report it: started ones first, "
        "then by NotBefore.",
        (24, 9),
        tables(q.EVENTS, *q.EVENT_COLUMNS),
        links=manual("events-now"),
        transformations=columns(
            {
                "Value #A": "State",
                "event_type": "Type",
                "Value #B": "Starts in",
                "resources": "VMs",
                "Value #D": "VMs hit",
                "Value #F": "Impact",
                "Value #C": "NotBefore",
                "approved_by": "Approved by",
                "approver": "Approved on",
                "event_source": "Source",
                "Value #E": "Unwatched",
                "Value #I": "Shown by",
                "description": "Description",
                "event_id": "EventId",
                "first_vm": "",
                "trace_id": "",
            },
            "Value #G",
            "Value #H",
            "vm_name",
            "job",
            "instance",
            "scope",
        ),
        options={"sortBy": [{"displayName": "Starts in", "desc": False}]},
        defaults={"noValue": "No current event is known. Look at 'Is the data current?' first."},
        overrides=[
            *EVENT_LOOKS,
            *EVENT_COLUMNS.values(),
            countdown("Starts in"),
            by_name("Approved on", custom__width=105, noValue=" "),
            colored("Approved by", 150, mappings=APPROVED_BY, noValue="not yet"),
        ],
    )


def _now() -> list[g.Panel]:
    waiting, started = steps(NEUTRAL, (1, WAITING)), steps(NEUTRAL, (1, IMPACT))
    return [
        panel(
            g.Table,
            "VMs that are hit",
            "A row for each VM and event, the 50 most urgent ones, as the VM's own exporter reported it. A VM's name "
            "leads to its dashboard.",
            (10, 9),
            tables(q.VM_STATES, q.VM_COUNTDOWNS),
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
                "location",
                "resource_group",
            ),
            options={"sortBy": [{"displayName": "Starts in", "desc": False}]},
            defaults={"noValue": "No exporter reports an event of its own VM."},
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
        panel(
            g.Table,
            "By type",
            "Current events by type, and how many VMs they name. Each event counts once.",
            (8, 9),
            tables(q.TYPE_WAITING, q.TYPE_VMS_WAITING, q.TYPE_NEXT, q.TYPE_STARTED, q.TYPE_VMS_STARTED),
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
            defaults={"noValue": "No current event is known."},
            overrides=[
                by_name("Type", custom__width=90),
                *(colored(name, 72, thresholds=waiting, noValue=" ") for name in ("Waiting", "on VMs")),
                countdown("Next in", without=" "),
                *(colored(name, 72, thresholds=started, noValue=" ") for name in ("Started", "on VMs ")),
            ],
        ),
        panel(
            g.Table,
            "Share that is affected",
            "VMs with a current event, of all VMs with an exporter in the same scale set and in the same zone: the ten "
            "highest of each.",
            (6, 9),
            tables(q.SCALE_SETS_HIT, q.ZONES_HIT),
            unit="percentunit",
            links=manual("share-that-is-affected"),
            transformations=columns({"place": "Place", "Value #A": "Scale set", "Value #B": "Zone"}),
            thresholds=steps(NEUTRAL, (0.001, WAITING), (0.5, IMPACT)),
            options={"sortBy": [{"displayName": "Scale set", "desc": True}]},
            defaults={"min": 0, "max": 1, "decimals": 0, "noValue": "No VM is known to be hit."},
            overrides=[
                by_name("Place", custom__minWidth=100),
                *(colored(name, 80, noValue=" ") for name in ("Scale set", "Zone")),
            ],
        ),
        panel(
            g.StateTimeline,
            "Events over time",
            "The 30 events that were seen last, each from its announcement to its end.",
            (24, 8),
            [graph(q.EVENT_STATES, "{{event_type}} {{vms}}")],
            mappings=values(STATES),
            links=manual("events-over-time"),
            defaults={"color": FIXED, "noValue": "no event in this time range, as far as the exporters saw"},
        ),
    ]


def _by_type(
    title: str,
    description: str,
    size: tuple[int, int],
    queries: Sequence[str],
    names: dict[str, str],
    part: str,
    overrides: Sequence[Json] = (),
) -> g.Panel:
    """A table of the last 30 days with a row per type; ``names`` are the titles of its columns."""
    return panel(
        g.Table,
        title,
        description,
        size,
        tables(*queries),
        unit=COUNTDOWN_UNIT,
        links=manual(part),
        time_from=HISTORY,
        transformations=columns({"event_type": "Type", **names}),
        defaults={"noValue": "no event is recorded"},
        overrides=[by_name("Type", custom__width=95), *overrides],
    )


def _history() -> list[g.Panel]:
    ended = (q.ENDED_COMPLETED, q.ENDED_CANCELLED, q.ENDED_LOST, q.STILL_CURRENT)
    return [
        panel(
            g.TimeSeries,
            "Events per day",
            "Events by the day on which they were first seen, each once.",
            (8, 8),
            [graph(q.EVENTS_PER_DAY, "{{event_type}}")],
            links=manual("history"),
            time_from=HISTORY,
            interval="1d",
            custom={
                "drawStyle": "bars",
                "fillOpacity": 90,
                "lineWidth": 0,
                "stacking": {"mode": "normal", "group": "A"},
            },
            defaults={"decimals": 0, "min": 0, "noValue": "no event is recorded"},
            overrides=painted(TYPES),
        ),
        panel(
            g.BarChart,
            "How they ended",
            "completed: seen Started. cancelled: gone more than a minute before NotBefore. lost: gone later, and no "
            "exporter saw it start. Each event counts once.",
            (8, 8),
            tables(*ended),
            links=manual("history"),
            time_from=HISTORY,
            transformations=columns(
                {"event_type": "Type", **{f"Value #{ref}": name for ref, name in zip("ABCD", OUTCOMES, strict=True)}}
            ),
            options={"xField": "Type"},
            defaults={"color": FIXED, "decimals": 0, "min": 0, "noValue": "no event is recorded"},
            overrides=painted(OUTCOMES),
        ),
        _by_type(
            "Notice given",
            "From first seen to the last NotBefore announced; 0 for an event first seen as Started. Azure documents no "
            "notice for Preempt.",
            (8, 8),
            (q.NOTICE_MEDIAN, q.NOTICE_LEAST),
            {"Value #A": "Median", "Value #B": "Least"},
            "history",
            [by_name("Least", thresholds=steps(IMPACT, (30, NEUTRAL)), custom__cellOptions={"type": "color-text"})],
        ),
        _by_type(
            "Approvals",
            "Events by who approved them, and the time from first seen to the approval, or to the start when "
            "they were not approved here.",
            (12, 8),
            (q.APPROVALS, q.APPROVAL_MEDIAN, q.APPROVAL_SLOWEST),
            {"approved_by": "Approved by", "Value #A": "Events", "Value #B": "Median", "Value #C": "Slowest"},
            "approvals",
            [
                by_name(
                    "Approved by",
                    mappings=APPROVED_BY,
                    custom__cellOptions={"type": "color-text"},
                    custom__minWidth=180,
                ),
                by_name("Events", unit="none", decimals=0, custom__width=80),
                *(by_name(name, noValue="did not wait") for name in ("Median", "Slowest")),
            ],
        ),
        _by_type(
            "How long events stayed Started",
            "The phase Started, which is longer than the impact itself. Each event counts once.",
            (12, 8),
            (q.STARTED_MEDIAN, q.STARTED_LONGEST),
            {"Value #A": "Median", "Value #B": "Longest"},
            "history",
        ),
    ]
