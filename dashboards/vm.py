"""The dashboard of one VM: what happens to it, who can do what, and what happened.

Its neighbors show its events too, also while its own exporter cannot.
"""

import grafanalib.core as g  # type: ignore[import-untyped] # it carries no types

from . import titles
from .board import (
    PORTAL_LINK,
    STATUS_LINK,
    VM_BOARD,
    bars,
    board,
    in_doubt,
    manual,
    next_impact,
    runbook,
    stat,
)
from .events import Events, notice, table
from .grafana import Table, columns, hidden_variable, instant, panel, text_variable, variable
from .queries import (
    CLOCK_STEP,
    DAY,
    ENDED,
    EVENT_IMPACT,
    EVENT_INFO,
    FIRST_SEEN,
    HELD,
    INSTANCE_INFO,
    MOST,
    NOT_ADVISORY,
    OVER,
    PAST,
    PAUSE,
    RETRANSMITTED,
    SEEN,
    SELF,
    STARTED,
    TIMEOUTS,
    UNENDED,
    VM_IMPACT,
    cells,
    last,
    metric,
    selector,
    with_portal,
)
from .style import (
    FAILED,
    FINE,
    HAPPENING,
    NEUTRAL,
    QUIET,
    UNKNOWN,
    WAITING,
    Json,
    by_name,
    hidden,
    pattern,
    steps,
    values,
)
from .timeline import timeline, vm_query

_NAMED = 'vm_name="$vm"'
_AT = 'instance=~"$instance"'
# The VM is one of the names, which commas separate. They are compared as the exporter does: without
# regard to case, or to an underscore before the name. The text is in backquotes, because
# ${vm:regex} contains backslashes, which PromQL would read as escapes in quotes.
_TOUCHES = "resources=~`(?i)(.+,)?_?${vm:regex}(,.+)?`"
# ``resources`` has at most ten names. An event of more VMs is known from the VM's own exporter.
_CURRENT = f"({metric(EVENT_INFO, _TOUCHES)} or on (event_id) {metric(VM_IMPACT, _NAMED)})"
_FEW = f"topk({MOST}, max by (event_id) {_CURRENT})"
# Which events the table has; ``Events`` says what each part is. A VM has so few events that one
# query does for ``few`` and ``few_timed``. Past events are those that its own exporter recorded and
# that named it.
_EVENTS = Events(
    current=_CURRENT,
    few=_FEW,
    few_timed=_FEW,
    info=[],
    away=[_NAMED],
    past=[_AT, SELF],
    past_condition=(
        f"and on (event_id) ({last(EVENT_INFO, PAST, _AT, _TOUCHES)}"
        f" or on (event_id) {last(VM_IMPACT, PAST, _NAMED)})"
    ),
    returned=f"unless on (event_id) {metric(SEEN, _AT, SELF)}",
)


def _events() -> list[str]:
    """Return the queries of the table of events, with the two columns that only this board has."""
    lasted = f"{_EVENTS.latest(ENDED)} - {_EVENTS.latest(STARTED)}"
    return [*_EVENTS.queries(), notice(_EVENTS), _EVENTS.of_past("Started for", lasted)]


# ---- Numbers, identity, and what was counted


def _or_quiet(vector: str, quiet: float = 0) -> str:
    """Return ``vector``, or a number that says why it is empty.

    The number is ``quiet`` while this VM's exporter sees IMDS, else :data:`.style.UNKNOWN`.
    """
    sees = f"max({metric('up', _AT)} == 1)"
    return f"{vector} or on () {quiet:g} + 0 * {sees} or on () vector({UNKNOWN:g})"


# Current events of the VM, each with the value 1.
_SHOWN = metric(EVENT_INFO, _TOUCHES, NOT_ADVISORY)
_BEGAN = metric(EVENT_INFO, _TOUCHES, event_status="Started")
# Events that were on this board within the last hour; any number to the power of 0 is 1.
_HELD = f"{last(VM_IMPACT, HELD, _NAMED)} ^ 0"
# The greatest number of an event: 3 if it has begun, 2 if it is shown, 1 if it is only held. The
# texts of these numbers are in _state().
_STATE = _or_quiet(f"max((3 * {_BEGAN} or 2 * {_SHOWN} or {_HELD}) {UNENDED})")
# When the impact of each event begins that has not begun yet.
_WAITS = (
    f"{metric(EVENT_IMPACT)} and on (event_id) {_SHOWN}"
    f" unless on (event_id) ({metric(STARTED)} or {OVER})"
)
_NEXT = _or_quiet(f"min({_WAITS}) - time()", QUIET)
# The numbers of the answers in _sight(): 2 if the exporter is down, 1 if IMDS fails, else 0. The
# first ``up`` is Prometheus' own metric of a scrape; metric("up") is the exporter's, of IMDS. The
# power of 0 makes 1 of the 0 of an exporter that is down.
_SIGHT = (
    f"max(2 * ({selector('up', _AT)} == 0) ^ 0)"
    f" or on () max(1 - {metric('up', _AT)})"
    f" or on () vector({UNKNOWN:.0f})"
)
_NO_POLICY = 'label_replace(vector(1), "policy", "unknown", "", "")'
_POLICY = f"topk(1, {metric('approval_policy_info', _AT)}) or on () {_NO_POLICY}"
# What the VM is: up to three rows, because VMs with the same name have a row each.
_WHO = f"topk(3, {metric(INSTANCE_INFO, _NAMED)} or on () {last(INSTANCE_INFO, '[1d]', _NAMED)})"
# How many events were first seen on each day. Grafana asks for the moment at which each day begins:
# that is time(), and DAY reads the 24 hours after it. An event of an earlier day that is still
# there was first seen before time(), and does not count.
_DAYS = f"count(max by (event_id) (max_over_time({metric(FIRST_SEEN, _AT, SELF)}{DAY})) >= time())"


def _mean(name: str, **labels: str) -> str:
    """Return the query of the mean of a histogram, by the type of event."""
    total = f"sum by (event_type) ({last(f'{name}_sum', '[1d]', _AT, **labels)})"
    count = f"sum by (event_type) ({last(f'{name}_count', '[1d]', _AT, **labels)})"
    return f"{total} / {count} >= 0"  # without types that have no value: 0 / 0 is no number


def _approvals(by: str) -> str:
    """Return the query of how many events of each type were approved by one of ``by``, a regex."""
    latency = last("approval_latency_seconds_count", "[1d]", _AT, f'approved_by=~"{by}"')
    return f"sum by (event_type) ({latency}) > 0"


_COUNTS = ("Seen", "By exporter", "Elsewhere", "By nobody")
"""The columns of ``_COUNTED`` that count events; the others are means, in seconds."""
_COUNTED = {
    "Seen": (
        "sum by (event_type)"
        f" ({last('transitions_total', '[1d]', _AT, SELF, transition='detected')}) > 0"
    ),
    "By exporter": _approvals("exporter|operator|hook"),
    "Elsewhere": _approvals("external"),
    "By nobody": _approvals("deadline"),
    "Notice": _mean("notice_seconds"),
    "Scheduled": _mean("phase_duration_seconds", phase="scheduled"),
    "Started": _mean("phase_duration_seconds", phase="started"),
    "Pause": _mean("observed_pause_seconds"),
}


def vm() -> Json:
    """Return the dashboard."""
    return board(
        VM_BOARD,
        "What Azure is about to do to one VM, who approves it, and what happened to it.",
        [*_answer(), _identity(), _table(), _timeline(), _measured(), bars(_DAYS, 10), _counted()],
        [
            variable("vm", "VM", f"label_values({metric(INSTANCE_INFO)}, vm_name)", many=False),
            hidden_variable("instance", f"label_values({metric(INSTANCE_INFO, _NAMED)}, instance)"),
            text_variable("traces", "Traces (UID of Tempo)"),
        ],
        marked=[_TOUCHES],
    )


def _answer() -> list[g.Panel]:
    """Return the first row: what happens to the VM, when, and who can see and approve it."""
    return [
        _state(),
        next_impact(
            _NEXT, "Time to the earliest NotBefore of its events, or to their approval.", 6
        ),
        _sight(),
        _policy(),
    ]


def _state() -> g.Panel:
    """Return the panel of how far its events are."""
    states = {1: ("not seen", HAPPENING), 2: ("Scheduled", WAITING), 3: ("Started", HAPPENING)}
    return stat(
        titles.STATE,
        "The furthest of its current events. not seen: nobody shows its event any more, and"
        " nobody saw its end; the VM may be away with it.",
        6,
        _STATE,
        links=manual("vm"),
        mappings=[*values(states), *in_doubt("nothing")],
    )


def _sight() -> g.Panel:
    """Return the panel of whether its exporter sees IMDS."""
    answers = {
        0: ("yes", FINE),
        1: ("IMDS fails", FAILED),
        2: ("down", FAILED),
        UNKNOWN: ("no exporter", FAILED),
    }
    return stat(
        titles.SEES_IMDS,
        "Whether Prometheus can scrape the exporter on this VM, and IMDS answers it. If not,"
        " other VMs of its scale set may still show its events.",
        6,
        _SIGHT,
        links=runbook("AzureScheduledEventImdsUnreachable"),
        mappings=values(answers),
    )


def _policy() -> g.Panel:
    """Return the panel of its exporter's policy, whose name is the text."""
    return stat(
        titles.POLICY,
        "Which events the exporter on this VM approves by itself. off: people or programs"
        " approve, or nobody. unknown: it does not answer.",
        6,
        _POLICY,
        legend="{{policy}}",
        links=manual("vm"),
        thresholds=steps(NEUTRAL),
        text="name",
    )


_IDENTITY = {
    "vm_name": "VM",
    "instance": "Status page",
    "portal": "Azure portal",
    "scale_set": "Scale set",
    "resource_group": "Resource group",
    "zone": "Zone",
    "fault_domain": "Fault domain",
    "vm_size": "Size",
    "priority": "Priority",
    "version": "Exporter",
}
_MIN_WIDTHS = {
    "VM": 90,
    "Resource group": 115,
    "Size": 130,
    "Zone": 60,
    "Priority": 60,
    "Exporter": 60,
    "Scale set": 60,
}


def _identity() -> g.Panel:
    """Return the table of what the VM is, and of links to it."""
    opens = pattern(".+", "open")
    return panel(
        Table,
        titles.THIS_VM,
        "The VM as its instance metadata describes it, and where to act on it. VMs with the same"
        " name have a row each.",
        (24, 4),
        instant(cells("row", with_portal(_WHO)), cells("row", metric("build_info", _AT))),
        links=manual("vm"),
        transformations=columns(_IDENTITY, "subscription_id"),
        defaults={"noValue": "No exporter reported this VM in the last day."},
        overrides=[
            by_name("Status page", links=[STATUS_LINK], custom__minWidth=130),
            by_name("Azure portal", links=[PORTAL_LINK], mappings=opens, custom__width=110),
            by_name("Fault domain", custom__width=110),
            *(by_name(name, custom__minWidth=width) for name, width in _MIN_WIDTHS.items()),
            *hidden("subscription_id"),
        ],
    )


def _table() -> g.Panel:
    """Return the table of its current and past events."""
    return table(
        "Its current events first, then those that ended in the last 30 days, as its own exporter"
        " saw them. Notice: from first seen to the last NotBefore. Started for: until it ended,"
        " which is longer than the impact. Announced, Paused: how long Azure said, and the longest"
        " pause that the VM measured.",
        8,
        _events(),
        own=("Notice", "Started for"),
        part="vm",
    )


def _timeline() -> g.Panel:
    """Return the timeline of its events."""
    return timeline(
        "The events of this VM by their type.", 4, vm_query(_NAMED, _AT), "{{event_type}}"
    )


def _measured() -> g.Panel:
    """Return the table of what was measured; its rows are events with a pause."""
    measured = {
        "Announced": "event_duration_seconds",
        "Paused": PAUSE,
        "TCP segments sent again": RETRANSMITTED,
        "TCP timeouts": TIMEOUTS,
        "Clock set forward": CLOCK_STEP,
    }
    rows = f"topk({MOST // 2}, {_by_event(STARTED)} and on (event_id) {last(PAUSE, PAST, _AT)})"
    return panel(
        Table,
        titles.MEASURED,
        "What its exporter measured while each event was Started, beside the duration that Azure"
        " announced: the longest pause, TCP segments sent again and retransmission timeouts, and"
        " by how much the clock was set forward.",
        (24, 5),
        instant(
            f"sort_desc({cells('Started', f'1000 * {rows}')})",  # dateTimeAsIso counts ms
            *(cells(title, _by_event(name)) for title, name in measured.items()),
        ),
        links=manual("what-happened"),
        transformations=columns(
            {
                "event_type": "Type",
                "Started": "Started",
                **{title: title for title in measured},
            },
            "event_id",
            needed="Started",
        ),
        defaults={"noValue": "Nothing was measured in the last 30 days: no event was Started."},
        overrides=[
            by_name("Started", unit="dateTimeAsIso"),
            by_name("Announced", unit="s"),
            by_name("Paused", unit="s", decimals=1),
            by_name("Clock set forward", unit="s", decimals=1),
            *hidden("event_id"),
        ],
    )


def _by_event(name: str) -> str:
    """Return the query of the last value of a metric, for each of its events."""
    return f"max by (event_id, event_type) ({last(name, PAST, _AT, SELF)})"


def _counted() -> g.Panel:
    """Return the table of what its exporter counted, by the type of event."""
    return panel(
        Table,
        titles.COUNTED,
        "Events of this VM by type, who approved them, and means: of the notice, of the time"
        " Scheduled and Started, and of the longest pause that the VM measured.",
        (14, 8),
        instant(*(cells(name, query) for name, query in _COUNTED.items())),
        links=manual("vm"),
        transformations=columns({"event_type": "Type", **{name: name for name in _COUNTED}}),
        unit="s",
        custom={"minWidth": 55},
        defaults={
            "decimals": 0,
            "noValue": "Its exporter counted no event, or no exporter answers.",
        },
        overrides=[
            by_name("Type", custom__width=90),
            *(by_name(name, unit="none") for name in _COUNTS),
            by_name("Pause", decimals=1),
        ],
    )
