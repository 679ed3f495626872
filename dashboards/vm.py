"""The dashboard of one VM: what happens to it now, what happened to it, and whether its exporter has current data."""

import grafanalib.core as g  # type: ignore[import-untyped] # it carries no types

from . import vm_queries as q
from .board import (
    COUNTDOWN_STEPS,
    COUNTDOWN_UNIT,
    EVENT_COLUMNS,
    EVENT_LOOKS,
    HISTORY,
    OVERDUE,
    VM,
    board,
    colored,
    columns,
    countdown,
    manual,
    runbook,
    values_of,
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
    REQUESTS,
    STATES,
    UNKNOWN,
    WAITING,
    Json,
    between,
    by_name,
    painted,
    steps,
    values,
)


def vm() -> Json:
    """Return the dashboard."""
    everywhere = ".*"
    group, scale_set = 'resource_group=~"$resource_group|"', 'scale_set=~"$scale_set|"'
    this = 'vm_name="$vm"'
    return board(
        VM,
        "One VM: its events now and over the last 30 days, and whether its exporter has current data.",
        [*_answer(), _identity(), _events(), *_past(), row("What its exporter counted"), *_counted()],
        [
            datasource_variable("traces", "Traces", "tempo"),
            variable("resource_group", "Resource group", values_of("resource_group"), all_value=everywhere),
            variable("scale_set", "Scale set", values_of("scale_set", group), all_value=everywhere),
            variable("vm", "VM", values_of("vm_name", group, scale_set), all_value=None),
            variable("job", "Job", values_of("job", this), all_value=None),
            variable("instance", "Instance", values_of("instance", this, 'job="$job"'), all_value=None),
        ],
        time_from="now-24h",
    )


def _answer() -> list[g.Panel]:
    return [
        panel(
            g.Stat,
            "Is its data current?",
            "Whether the exporter on this VM gets answers from IMDS, and if not, why.",
            (5, 4),
            [instant(q.SIGHT)],
            mappings=values({0: ("yes", FINE), **REASONS, UNKNOWN: ("no exporter known", BLIND), MISSING: NO_RULES}),
            links=runbook("AzureScheduledEventExporterDown"),
        ),
        panel(
            g.Stat,
            "What happens to it",
            "The furthest state of the events of this VM, whichever exporter reports them. It is in "
            "maintenance while it does not answer although its event is over.",
            (6, 4),
            [instant(q.CURRENT_STATE)],
            thresholds=steps(NEUTRAL),
            mappings=values(
                {
                    0: ("nothing announced", FINE),
                    q.IN_MAINTENANCE: ("in maintenance", WAITING),
                    **STATES,
                    UNKNOWN: ("unknown", BLIND),
                }
            ),
            links=manual("vm"),
        ),
        panel(
            g.Stat,
            "Next impact in",
            "Time to the earliest NotBefore of its waiting events.",
            (6, 4),
            [instant(q.NEXT_IMPACT)],
            unit=COUNTDOWN_UNIT,
            thresholds=COUNTDOWN_STEPS,
            mappings=[OVERDUE, *values({QUIET: ("nothing waiting", FINE), UNKNOWN: ("unknown", BLIND)})],
            links=manual("vm"),
        ),
        panel(
            g.Stat,
            "Last answer of IMDS",
            "How long ago its exporter got its last valid answer. Without a scrape in the last 5 minutes, unknown.",
            (4, 4),
            [instant(q.ANSWER_AGE)],
            unit="s",
            thresholds=steps(FINE, (120, BLIND)),
            mappings=[*values({UNKNOWN: ("unknown", BLIND)}), between(1e9, UNKNOWN - 1, "never", BLIND)],
            defaults={"decimals": 0, "noValue": "unknown"},
            links=runbook("AzureScheduledEventExporterDown"),
        ),
        panel(
            g.Stat,
            "Incarnation",
            "DocumentIncarnation of the newest document. IMDS changes it with the events.",
            (3, 4),
            [instant(q.INCARNATION)],
            thresholds=steps(NEUTRAL),
            options={"colorMode": "value"},
            defaults={"noValue": "unknown"},
            links=manual("vm"),
        ),
    ]


def _identity() -> g.Panel:
    return panel(
        g.Table,
        "Identity",
        "What the instance metadata says about this VM, as of the last 24 hours.",
        (24, 4),
        tables(q.IDENTITY),
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
    )


def _events() -> g.Panel:
    return panel(
        g.Table,
        "Events now",
        "The current events that name this VM, each once, whichever exporter reports them.",
        (24, 6),
        tables(q.EVENTS, *q.EVENT_COLUMNS),
        links=manual("events-now"),
        transformations=columns(
            {
                "Value #A": "State",
                "event_type": "Type",
                "Value #B": "Starts in",
                "resources": "VMs",
                "Value #D": "VMs hit",
                "Value #E": "Impact",
                "Value #C": "NotBefore",
                "approved_by": "Approved by",
                "event_source": "Source",
                "Value #G": "Shown by",
                "description": "Description",
                "event_id": "EventId",
                "first_vm": "",
                "trace_id": "",
            },
            "Value #F",
        ),
        options={"sortBy": [{"displayName": "Starts in", "desc": False}]},
        defaults={"noValue": "No exporter knows of an event of this VM."},
        overrides=[
            *EVENT_LOOKS,
            *(look for name, look in EVENT_COLUMNS.items() if name != "Unwatched"),
            countdown("Starts in"),
            colored("Approved by", 150, mappings=APPROVED_BY, noValue="not yet"),
        ],
    )


def _past() -> list[g.Panel]:
    announced = {1: ("announced", WAITING), 2: STATES[2], 3: STATES[3]}
    return [
        panel(
            g.StateTimeline,
            "Its last 30 days",
            "By type, the furthest state of its events, and whether its exporter had current data. Gaps in the last "
            "line: Prometheus knew of no exporter on it.",
            (24, 8),
            [graph(q.TIMELINE, "{{event_type}}"), graph(q.SIGHT_HISTORY, "exporter")],
            mappings=values(announced),
            links=manual("vm"),
            time_from=HISTORY,
            points=8640,  # five minutes each
            defaults={"color": FIXED, "noValue": "neither an event nor an exporter is recorded"},
            overrides=[by_name("exporter", mappings=values({0: ("current data", FINE), **REASONS}))],
        ),
        panel(
            g.Table,
            "Its last events",
            "Events of the last 30 days that named it: the notice given, how long they waited and stayed Started, and "
            "how they ended.",
            (24, 9),
            tables(q.PAST_EVENTS, q.PAST_NOTICE, q.PAST_WAITED, q.PAST_STARTED, q.PAST_OUTCOME),
            unit="s",
            links=manual("vm"),
            time_from=HISTORY,
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
            defaults={"decimals": 0, "noValue": "no event is recorded"},
            overrides=[
                by_name("First seen", unit="dateTimeAsIso", custom__width=170),
                colored(
                    "Outcome",
                    100,
                    mappings=values({float(number): (name, OUTCOMES[name]) for number, name in enumerate(q.OUTCOMES)}),
                ),
                *(
                    by_name(name, unit=COUNTDOWN_UNIT, noValue=without, custom__width=100)
                    for name, without in (("Notice", "none"), ("Waited", "not at all"), ("Started for", " "))
                ),
                *(look for look in EVENT_LOOKS if look["matcher"]["options"] not in {"State", "first_vm"}),
            ],
        ),
    ]


def _counted() -> list[g.Panel]:
    known = "none in its journal"
    return [
        panel(
            g.Table,
            "Approvals that its exporter knows of",
            "Events in its journal by who let them start, and the mean time from first seen to then.",
            (9, 7),
            tables(q.APPROVALS, q.APPROVAL_MEAN),
            unit="s",
            links=manual("approvals"),
            transformations=columns(
                {
                    "event_type": "Type",
                    "approved_by": "Approved by",
                    "Value #A": "Events",
                    "Value #B": "Mean time to approval",
                }
            ),
            defaults={"decimals": 0, "noValue": known},
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
        panel(
            g.Table,
            "How long its events took",
            "Mean notice, and mean time in each phase, of the events in its journal.",
            (8, 7),
            tables(q.NOTICE_MEAN, q.SCHEDULED_MEAN, q.STARTED_MEAN),
            unit="s",
            links=manual("vm"),
            transformations=columns(
                {"event_type": "Type", "Value #A": "Notice", "Value #B": "Scheduled", "Value #C": "Started"}
            ),
            defaults={"decimals": 0, "noValue": known},
            overrides=[by_name("Type", custom__width=95)],
        ),
        panel(
            g.Table,
            "How long it paused",
            "The longest pause that this VM measured during each event in its journal.",
            (7, 7),
            tables(q.PAUSES, q.PAUSE_MEAN),
            unit="s",
            links=manual("vm"),
            transformations=columns({"event_type": "Type", "Value #A": "Events", "Value #B": "Mean pause"}),
            defaults={"decimals": 1, "noValue": known},
            overrides=[
                by_name("Type", custom__width=95),
                by_name("Events", unit="none", decimals=0, custom__width=80),
            ],
        ),
        panel(
            g.Table,
            "Requests to approve",
            "What its exporter requested from IMDS in the last 30 days, by answer.",
            (6, 7),
            tables(q.APPROVAL_REQUESTS),
            links=runbook("AzureScheduledEventApprovalRefused"),
            time_from=HISTORY,
            transformations=columns({"outcome": "Answer", "Value": "Requests"}),
            defaults={"decimals": 0, "noValue": "unknown"},
            overrides=[by_name("Answer", mappings=REQUESTS, custom__cellOptions={"type": "color-text"})],
        ),
        panel(
            g.Table,
            "Transitions",
            "What happened to its own events in its journal.",
            (6, 7),
            tables(q.TRANSITIONS),
            links=manual("vm"),
            transformations=columns({"transition": "Transition", "Value": "Events"}),
            defaults={"decimals": 0, "noValue": "unknown"},
        ),
        panel(
            g.TimeSeries,
            "Events by state",
            "How many events of this VM its exporter reports.",
            (6, 7),
            [graph(q.PENDING, "pending"), graph(q.STARTED, "started")],
            links=manual("vm"),
            custom={"lineInterpolation": "stepAfter"},
            defaults={"decimals": 0, "min": 0, "noValue": "no exporter on it"},
            overrides=painted({"pending": WAITING, "started": IMPACT}),
        ),
        panel(
            g.TimeSeries,
            "DocumentIncarnation",
            "Changes whenever the events do, and restarts when Scheduled Events was disabled in between.",
            (6, 7),
            [graph(q.INCARNATION, "incarnation"), graph(q.DOCUMENT_CHANGES, "changes of the document")],
            links=manual("vm"),
            custom={"lineInterpolation": "stepAfter"},
            defaults={"decimals": 0, "color": FIXED, "noValue": "no document in this time"},
            overrides=painted({"changes of the document": WAITING}),
        ),
    ]
