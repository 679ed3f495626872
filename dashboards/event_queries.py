"""The queries of the fleet's events by name: what is current, and what was."""

from collections.abc import Callable, Sequence

from .selection import (
    BLIND,
    EARLY_SECONDS,
    INFO,
    OTHER_STATUS,
    OUTSIDE,
    SELF,
    STARTED_STATUS,
    VM,
    grown,
    here,
    labelled,
    mine,
    or_quiet,
    over,
    placed,
    seeing,
    series,
    with_names,
    with_trace,
)
from .style import QUIET

_EVENT = "event_id, event_type"
_NOT_BEFORE = "event_not_before_timestamp_seconds"
_FIRST_SEEN = "event_first_seen_timestamp_seconds"
EVENT_ROW = "event_id, event_type, event_source, description, resources"

# ---- Now ------------------------------------------------------------------------------------------------------------

_ALL = mine("event_info")
_IN_START = mine("event_info", STARTED_STATUS)
_IN_WAIT = mine("event_info", OTHER_STATUS)
_APPROVED = mine("event_approved")
_STARTED = f"group by ({_EVENT}) ({_IN_START})"
_PENDING = f"(group by ({_EVENT}) ({_IN_WAIT}) unless on (event_id) {_STARTED})"  # one exporter may be a poll behind
_COUNTDOWN = f"(min by ({_EVENT}) ({mine(_NOT_BEFORE)}) - time() unless on (event_id) {_STARTED})"


def _hit(by: str, *matchers: str, labels: str = VM) -> str:
    """The VMs that current events touch, each once for each value of ``by``; ``labels`` are those of VMs."""
    return f"group by ({by}) ({placed(mine('event_info', SELF, *matchers), labels)})"


_WATCHED = f"count by (event_id) (group by (event_id, {VM}) ({placed(series('event_info', SELF), VM)}))"


def _unwatched(vms: str, events: str) -> str:
    """Of the VMs of each event, how many have no exporter that shows it: there is none, or it is down."""
    watched = f"({_WATCHED} or on (event_id) 0 * max by (event_id) ({events}))"
    return f"clamp_min({vms} - on (event_id) group_left () {watched}, 0)"


def _hit_vms(status: str, events: str, by: str = "") -> str:
    """How many VMs the ``events`` touch: those watched, each once, and the unwatched of each event."""
    count, total = (f"count by ({by})", f"sum by ({by})") if by else ("count", "sum")
    label = f"{by}, {VM}" if by else VM
    vms = f"max by ({_EVENT}) ({mine('event_resources')})"
    rest = f"{total} ({_unwatched(vms, _ALL)} and on (event_id) {events})"
    return f"({count} ({_hit(label, status)}) or 0 * {count} ({events})) + {rest}"


NEXT_IMPACT = or_quiet(f"min({_COUNTDOWN})", QUIET)
VMS_WAITING = or_quiet(_hit_vms(OTHER_STATUS, _PENDING))
VMS_STARTED = or_quiet(_hit_vms(STARTED_STATUS, _STARTED))


def state(labels: str) -> str:
    """Return for each event 1 waiting, 2 approved, 3 started, by ``labels``, among which is its id."""
    approved = f"max by (event_id) ({_APPROVED})"
    waits = f"max by ({labels}) ({_IN_WAIT}) + on (event_id) group_left () {approved}"
    return f"(3 * max by ({labels}) ({_IN_START}) or on (event_id) {waits})"


EVENTS = with_trace(f"topk by (event_id) (1, {state(EVENT_ROW)})")


def event_columns(look: Callable[..., str]) -> Sequence[str]:
    """Return what a table says of each current event: queries by ``event_id``.

    ``look`` gives the vector of a metric: :func:`.selection.mine`, or :func:`.selection.series` for a VM whose own
    exporter may be blind while its neighbours see. In order: countdown, NotBefore, VMs, unwatched VMs, impact,
    approval, approver, seen by.
    """
    every, started = look("event_info"), look("event_info", STARTED_STATUS)
    none = f"0 * max by (event_id) ({every})"
    not_before, approved = look(_NOT_BEFORE), look("event_approved")
    vms = f"max by (event_id) ({look('event_resources')})"
    left = f"min by (event_id) ({over('last_over_time', 'event_seconds_until_not_before', window='1h')})"
    # 0 not approved, 1 by an exporter or operator, 3 elsewhere, since it started early, 2 by nobody: NotBefore came.
    approval = (
        f"max by (event_id) ({approved} == 1)"
        f" or on (event_id) (3 * max by (event_id) ({started}) and on (event_id) {left} > {EARLY_SECONDS})"
        f" or on (event_id) 2 * max by (event_id) ({started}) or on (event_id) {none}"
    )
    approver = f"topk by (event_id) (1, max by (event_id, vm_name) ({placed(f'({approved} == 1)', 'vm_name')}))"
    return (
        f"min by (event_id) ({not_before}) - time() unless on (event_id) {started}",
        f"1000 * min by (event_id) ({not_before})",
        vms,
        _unwatched(vms, every),
        f"max by (event_id) ({look('event_duration_seconds')})",
        approval,
        f'label_replace({approver}, "approver", "$1", "vm_name", "(.*)")',
        f"count by (event_id) ({every} and on (job, instance) {seeing(look)}) or on (event_id) {none}",
    )


_MY_APPROVED = mine("event_approved", SELF)
_STATE_ON_VM = f"(3 * {mine('event_info', SELF, STARTED_STATUS)} or on (job, instance, event_id) 1 + {_MY_APPROVED})"
_SPOT = "vm_name, scale_set, zone, fault_domain"
VM_STATES = f"max by ({_EVENT}, {_SPOT}) ({placed(_STATE_ON_VM, _SPOT)})"
_LEFT_ON_VM = f"({mine(_NOT_BEFORE, SELF)} - time())"
VM_COUNTDOWNS = f"min by (event_id, vm_name) ({placed(_LEFT_ON_VM, 'vm_name')})"

_EACH_TYPE = f"or on (event_type) 0 * max by (event_type) ({mine('pending')} or {mine('started')})"
TYPE_EVENTS_WAITING = f"count by (event_type) ({_PENDING}) {_EACH_TYPE}"
TYPE_EVENTS_STARTED = f"count by (event_type) ({_STARTED}) {_EACH_TYPE}"
TYPE_VMS_WAITING = f"{_hit_vms(OTHER_STATUS, _PENDING, 'event_type')} {_EACH_TYPE}"
TYPE_VMS_STARTED = f"{_hit_vms(STARTED_STATUS, _STARTED, 'event_type')} {_EACH_TYPE}"
TYPE_COUNTDOWN = f"min by (event_type) ({_COUNTDOWN})"


def _share_hit(labels: str, named: str) -> str:
    """The share of the watched VMs with the same ``labels`` that current events touch."""
    vms = f"count by ({labels}) (group by ({labels}, {VM}) ({mine('instance_info', named)}))"
    hit = f"count by ({labels}) ({_hit(f'{labels}, {VM}', labels=f'{labels}, {VM}')})"
    return f"({hit} or on ({labels}) 0 * {vms}) / on ({labels}) {vms}"


SCALE_SETS_HIT = _share_hit("scale_set", 'scale_set!=""')
ZONES_HIT = _share_hit("location, zone", 'zone!=""')
EVENT_STATES = with_names(state("event_id, event_type, resources"))

# ---- History --------------------------------------------------------------------------------------------------------

_ELSEWHERE_THAT_DAY = " or ".join(f"present_over_time({series(*outside)}[1d:10m] offset -1d)" for outside in OUTSIDE)
_THAT_DAY = f"min_over_time({series(_FIRST_SEEN)}[1d] offset -1d) unless on (job, instance) ({_ELSEWHERE_THAT_DAY})"
EVENTS_PER_DAY = f"count by (event_type) (min by ({_EVENT}) ({_THAT_DAY}) >= time())"
"""Events by the day they were first seen on. A bar stands at the beginning of its day, hence the look ahead."""
_SEEN = f"min by ({_EVENT}) ({here(over('min_over_time', _FIRST_SEEN))})"
_CURRENT = f"group by ({_EVENT}) ({_ALL})"
_HAPPENED = f"group by ({_EVENT}) ({here(over('present_over_time', 'event_info', STARTED_STATUS))})"
_LAST_LEFT = f"min by ({_EVENT}) ({here(over('last_over_time', 'event_seconds_until_not_before'))})"
_ENDED = f"({_SEEN} unless on (event_id) {_CURRENT})"
_WITNESSED = f"({over('present_over_time', 'event_info')} and on (job, instance) {series('up')})"
_EARLY_END = f"{_LAST_LEFT} > {EARLY_SECONDS} and on (event_id) {_WITNESSED}"  # else it may just be unseen
_CALLED_OFF = f"({_ENDED} unless on (event_id) {_HAPPENED} and on (event_id) ({_EARLY_END}))"
ENDED_COMPLETED = f"count by (event_type) ({_ENDED} and on (event_id) {_HAPPENED})"
ENDED_CANCELLED = f"count by (event_type) ({_CALLED_OFF})"
ENDED_LOST = f"count by (event_type) ({_ENDED} unless on (event_id) {_HAPPENED} unless on (event_id) {_CALLED_OFF})"
STILL_CURRENT = f"count by (event_type) ({_SEEN} and on (event_id) {_CURRENT})"

_LAST_NOT_BEFORE = f"max by ({_EVENT}) ({here(over('last_over_time', _NOT_BEFORE))})"
_EVER_APPROVED = f"max by (event_id) ({over('max_over_time', 'event_approved')}) == 1"
_NO_NOTICE = f"0 * ({_SEEN} unless on (event_id) {_EVER_APPROVED})"  # approved at once: nobody scraped its NotBefore
_NOTICE = f"clamp_min({_LAST_NOT_BEFORE} - on ({_EVENT}) {_SEEN} or on (event_id) {_NO_NOTICE}, 0)"
NOTICE_MEDIAN = f"quantile by (event_type) (0.5, {_NOTICE})"
NOTICE_WORST = f"min by (event_type) ({_NOTICE})"
"""Warning that the events of the time range gave; 0 for one that was first seen as Started."""

_BY = "event_type, approved_by"
_HERE_ONLY = 'approved_by=~"exporter|operator"'
_WAITED = f"({_LAST_NOT_BEFORE} - on ({_EVENT}) {_LAST_LEFT} - on ({_EVENT}) {_SEEN} and on (event_id) {_HAPPENED})"
_NOT_HERE = f"{_WAITED} unless on (event_id) {_EVER_APPROVED}"
_EXTERNAL = f"({_NOT_HERE} and on (event_id) {_LAST_LEFT} > {EARLY_SECONDS})"
_DEADLINE = f"({_NOT_HERE} unless on (event_id) {_LAST_LEFT} > {EARLY_SECONDS})"


def _quantile(share: float, name: str, by: str, *matchers: str) -> str:
    buckets = here(grown(f"{name}_bucket", *matchers))
    return f"histogram_quantile({share}, sum by (le, {by}) ({buckets})) >= 0"


def _approvals(from_here: str, how: str) -> str:
    """Approvals from here by the histogram; events that others or nobody let begin by their gauges, each once.

    The histogram counts an event that one exporter approved as external on every other exporter.
    """
    external = labelled(how.format(_EXTERNAL), "approved_by", "external")
    return f"{from_here} or {external} or {labelled(how.format(_DEADLINE), 'approved_by', 'deadline')}"


_COUNT = here(grown("approval_latency_seconds_count", _HERE_ONLY))
APPROVALS = _approvals(f"round(sum by ({_BY}) ({_COUNT})) > 0", "count by (event_type) ({})")
APPROVAL_MEDIAN = _approvals(
    _quantile(0.5, "approval_latency_seconds", _BY, _HERE_ONLY), "quantile by (event_type) (0.5, {})"
)
APPROVAL_SLOWEST = _approvals(_quantile(1, "approval_latency_seconds", _BY, _HERE_ONLY), "max by (event_type) ({})")
STARTED_MEDIAN = _quantile(0.5, "phase_duration_seconds", "event_type", 'phase="started"')
STARTED_LONGEST = _quantile(1, "phase_duration_seconds", "event_type", 'phase="started"')

# ---- Who cannot see -------------------------------------------------------------------------------------------------

_NAMES = "vm_name, scale_set, zone"
_LAST_TIMES = (
    f"max_over_time(timestamp({INFO})[1h:30s]) or max_over_time(timestamp({INFO})[1d:10m]) or timestamp({INFO})"
)
_LAST_PLACES = f"topk by (job, instance) (1, max by (job, instance, {_NAMES}) ({_LAST_TIMES})) ^ 0"
BLIND_EXPORTERS = f"{BLIND} * on (job, instance) group_left ({_NAMES}) ({_LAST_PLACES}) or on (job, instance) {BLIND}"
"""With the VM that an exporter was last known to run on; a down exporter does not tell."""
_ANSWER = series("last_success_timestamp_seconds")
_LAST_ANSWERS = f"{_ANSWER} or last_over_time({_ANSWER}[1h]) or max_over_time({_ANSWER}[1d:10m])"
BLIND_SINCE = f"time() - (max by (job, instance) ({_LAST_ANSWERS}) > 0) and on (job, instance) {BLIND}"

# ---- Marks on graphs ------------------------------------------------------------------------------------------------


def _marked(now: str, other: str) -> str:
    """The events of ``now`` that ``other`` does not have."""
    first = f"group by (event_id, event_type, resources) ({now})"
    return with_names(f"({first} unless on (event_id) group by (event_id) ({other}))")


_INFO, _INFO_STARTED = series("event_info"), series("event_info", STARTED_STATUS)
DETECTED = _marked(_INFO, f"{_INFO} offset 1m")
BEGUN = _marked(_INFO_STARTED, f"{_INFO_STARTED} offset 1m")
ENDED = _marked(f"{_INFO} offset 1m", _INFO)
