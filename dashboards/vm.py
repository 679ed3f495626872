"""The dashboard of one VM: what happens to it, who can do what, what happened, and what its exporter counted.

Its neighbors show its events too, also while its own exporter cannot.
"""

import grafanalib.core as g  # type: ignore[import-untyped] # it carries no types

from .board import (
    PORTAL_LINK,
    STATUS_LINK,
    VM,
    bars,
    board,
    events,
    in_doubt,
    manual,
    next_impact,
    runbook,
    stat,
)
from .grafana import Table, columns, hidden_variable, instant, panel, text_variable, variable
from .queries import (
    DAY,
    ENDED,
    FIRST_SEEN,
    HELD,
    IMPACT,
    INFO,
    MOST,
    NOT_BEFORE,
    PAST,
    STARTED,
    STARTED_FIRST,
    TRACED,
    approval,
    cells,
    first_vm,
    last,
    metric,
    one,
    selector,
    times,
    with_portal,
    with_trace,
)
from .queries import VM as IDENTITY
from .style import (
    BLIND,
    FINE,
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
from .style import IMPACT as HAPPENS

_NAMED = 'vm_name="$vm"'
_AT = 'instance=~"$instance"'
_SELF = 'scope="self"'
# as the exporter compares names; backquotes, for escapes
_TOUCHES = "resources=~`(?i)(.+,)?_?${vm:regex}(,.+)?`"
_ENDED = f"unless on (event_id) {metric(ENDED)}"

# ---- Events: the rows of each part of the table, and its columns
# ----------------------------------------------------


def _its(*matchers: str) -> str:
    """``resources`` holds ten names; of larger events, its own exporter tells."""
    return (
        f"({metric(INFO, _TOUCHES, *matchers)} or on (event_id)"
        f" {metric(IMPACT, _NAMED, *matchers)})"
    )


_NOW = f"topk({MOST // 2}, min by (event_id) ({times()}) {_ENDED} and on (event_id) {_its()})"
_ROWS_NOW = f"topk({MOST}, max by (event_id) {_its()})"
_AWAY = (
    f"(max by (event_id) ({last(IMPACT, HELD, _NAMED)}) unless on (event_id) {metric(FIRST_SEEN)}"
    f" unless on (event_id) {last(ENDED, HELD)})"
)
_WERE = f"({last(INFO, PAST, _AT, _TOUCHES)} or on (event_id) {last(IMPACT, PAST, _NAMED)})"
_ROWS_OVER = f"topk({MOST // 2}, max by (event_id) ({last(ENDED, PAST, _AT, _SELF)}))"
_OVER = f"{_ROWS_OVER} and on (event_id) {_WERE} unless on (event_id) {metric(FIRST_SEEN)}"
_TEXTS = "group by (event_id, event_type, resources, description)"


def _of(rows: str, column: str, vector: str) -> str:
    return cells(column, f"({vector}) and on (event_id) {rows}")


def _latest(name: str) -> str:
    return f"max by (event_id) ({last(name, PAST, _AT, _SELF)})"


def _events() -> list[str]:
    not_seen = (
        f'label_replace({one(last(INFO, HELD, _AT, _SELF))}, "event_status", "not seen", "", "")'
    )
    outcome = (
        f"{one(f'group by (event_id, outcome) ({last(ENDED, PAST, _AT, _SELF)})')} and on"
        f" (event_id) {_ROWS_OVER}"
    )
    return [
        f"sort({cells('When', f'1000 * {_NOW}')})",
        cells("When", f"1000 * {_AWAY}"),
        f"sort_desc({cells('When', f'1000 * ({_OVER})')})",
        _of(_ROWS_NOW, "row", first_vm(one(STARTED_FIRST))),
        _of(_AWAY, "row", not_seen),
        _of(_ROWS_OVER, "row", first_vm(one(f"{_TEXTS} ({last(INFO, PAST, _AT)})"))),
        f'label_replace({cells("row", outcome)}, "event_status", "$1", "outcome", "(.*)")',
        cells("traced", with_trace(f"topk({MOST}, max by (event_id) {_its(TRACED)})")),
        cells(
            "traced", with_trace(f"{_ROWS_OVER} and on (event_id) {last(ENDED, PAST, _AT, TRACED)}")
        ),
        _of(_ROWS_NOW, "Approved", approval()),
        _of(_ROWS_OVER, "Approved", approval(PAST, _AT)),
        _of(
            _ROWS_NOW,
            "Policy",
            f"1000 * min by (event_id) ({metric('event_approval_due_timestamp_seconds')})",
        ),
        _of(_ROWS_NOW, "Impact", f"max by (event_id) ({metric('event_duration_seconds')})"),
        _of(
            _ROWS_OVER, "Impact", f"max by (event_id) ({last('event_duration_seconds', PAST, _AT)})"
        ),
        _of(_ROWS_OVER, "Notice", f"clamp_min({_latest(NOT_BEFORE)} - {_latest(FIRST_SEEN)}, 0)"),
        _of(_ROWS_OVER, "Started for", f"{_latest(ENDED)} - {_latest(STARTED)}"),
    ]


# ---- Numbers, identity, and what was counted
# ------------------------------------------------------------------------

_SEES = f"({metric('up', _AT)} or {selector('up', _AT)} == 0)"


def _or_quiet(vector: str, quiet: float = 0) -> str:
    """``vector`` or why it is empty: ``quiet`` while this VM's exporter sees IMDS, else unknown."""
    return f"{vector} or on () {quiet:.0f} + 0 * max({_SEES} == 1) or on () vector({UNKNOWN:.0f})"


_SHOWN = metric(INFO, _TOUCHES, 'kind!="advisory"')
_BEGAN = metric(INFO, _TOUCHES, event_status="Started")
_WAITS = (
    f"{metric(NOT_BEFORE)} and on (event_id) {_SHOWN} unless on (event_id) {metric(STARTED)}"
    f" {_ENDED}"
)
_STATE = _or_quiet(
    f"max((3 * {_BEGAN} ^ 0 or 2 * {_SHOWN} ^ 0 or {last(IMPACT, HELD, _NAMED)} ^ 0) {_ENDED})"
)
_NEXT = _or_quiet(f"min({_WAITS}) - time()", QUIET)
_SIGHT = (
    f"max(2 * ({selector('up', _AT)} == 0) ^ 0) or on () max(1 - {metric('up', _AT)}) or on ()"
    f" vector({UNKNOWN:.0f})"
)
_NO_POLICY = 'label_replace(vector(1), "policy", "unknown", "", "")'
_POLICY = f"topk(1, {metric('approval_policy_info', _AT)}) or on () {_NO_POLICY}"
_WHO = f"topk(3, {metric(IDENTITY, _NAMED)} or on () {last(IDENTITY, '[1d]', _NAMED)})"
_DAYS = f"count(max by (event_id) (max_over_time({metric(FIRST_SEEN, _AT, _SELF)}{DAY})) >= time())"


def _mean(name: str, **labels: str) -> str:
    series = (last(f"{name}_{each}", "[1d]", _AT, **labels) for each in ("sum", "count"))
    total, count = (f"sum by (event_type) ({each})" for each in series)
    return f"{total} / {count} >= 0"  # 0 / 0 is no number


def _approvals(by: str) -> str:
    latency = last("approval_latency_seconds_count", "[1d]", _AT, f'approved_by=~"{by}"')
    return f"sum by (event_type) ({latency}) > 0"


_COUNTED = {
    "Seen": (
        "sum by (event_type)"
        f" ({last('transitions_total', '[1d]', _AT, _SELF, transition='detected')}) > 0"
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
        VM,
        "What Azure is about to do to one VM, who approves it, and what happened to it.",
        [*_answer(), _identity(), _table(), bars(_DAYS, 10), _counted()],
        [
            variable("vm", "VM", f"label_values({metric(IDENTITY)}, vm_name)", many=False),
            hidden_variable("instance", f"label_values({metric(IDENTITY, _NAMED)}, instance)"),
            text_variable("traces", "Traces (UID of Tempo)"),
        ],
        marked=[_TOUCHES],
    )


def _answer() -> list[g.Panel]:
    return [
        stat(
            "What happens to it?",
            "The furthest of its current events. not seen: nobody shows its event any more, and"
            " nobody saw its end; the VM may be away with it.",
            6,
            _STATE,
            links=manual("vm"),
            mappings=[
                *values(
                    {1: ("not seen", HAPPENS), 2: ("Scheduled", WAITING), 3: ("Started", HAPPENS)}
                ),
                *in_doubt("nothing"),
            ],
        ),
        next_impact(_NEXT, "Time to the earliest NotBefore of its Scheduled events.", 6),
        stat(
            "Does its exporter see IMDS?",
            "Whether Prometheus can scrape the exporter on this VM, and IMDS answers it. If not,"
            " other VMs of its scale set may still show its events.",
            6,
            _SIGHT,
            links=runbook("AzureScheduledEventImdsUnreachable"),
            mappings=values(
                {
                    0: ("yes", FINE),
                    1: ("IMDS fails", BLIND),
                    2: ("down", BLIND),
                    UNKNOWN: ("no exporter", BLIND),
                }
            ),
        ),
        stat(
            "Approval policy",
            "Which events the exporter on this VM approves by itself. off: people or programs"
            " approve, or nobody. unknown: it does not answer.",
            6,
            _POLICY,
            legend="{{policy}}",
            links=manual("vm"),
            thresholds=steps(NEUTRAL),
            text="name",
        ),
    ]


def _identity() -> g.Panel:
    return panel(
        Table,
        "This VM",
        "The VM as its instance metadata describes it, and where to act on it. VMs with the same"
        " name have a row each.",
        (24, 4),
        instant(cells("row", with_portal(_WHO)), cells("row", metric("build_info", _AT))),
        links=manual("vm"),
        transformations=columns(
            {
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
            },
            "subscription_id",
        ),
        defaults={"noValue": "No exporter reported this VM in the last day."},
        overrides=[
            by_name("VM", custom__minWidth=90),
            by_name("Status page", links=[STATUS_LINK], custom__minWidth=130),
            by_name("Resource group", custom__minWidth=115),
            by_name(
                "Azure portal",
                links=[PORTAL_LINK],
                mappings=pattern(".+", "open"),
                custom__width=110,
            ),
            *(
                by_name(name, custom__minWidth=60)
                for name in ("Zone", "Priority", "Exporter", "Scale set")
            ),
            by_name("Fault domain", custom__width=110),
            by_name("Size", custom__minWidth=130),
            *hidden("subscription_id"),
        ],
    )


def _table() -> g.Panel:
    return events(
        "Its current events first, then those that ended in the last 30 days, as its own exporter"
        " saw them. Notice: from first seen to the last NotBefore. Started for: until it ended,"
        " which is longer than the impact.",
        7,
        _events(),
        manual("vm"),
        ("Notice", "Started for"),
    )


def _counted() -> g.Panel:
    return panel(
        Table,
        "What its exporter counted since its journal began",
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
            *(by_name(name, unit="none") for name in list(_COUNTED)[:4]),
            by_name("Pause", decimals=1),
        ],
    )
