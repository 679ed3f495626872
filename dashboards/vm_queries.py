"""The queries of the dashboard of one VM by name. Its neighbors report its events too, even if it cannot."""

from .queries import IN_START, IN_WAIT, RANGE, RULES_MISSING, SELF, latest, of, series, with_trace
from .recorded import (
    APPROVED_BY,
    BLIND,
    EARLY_SECONDS,
    EVENT,
    EXPORTER_INFO,
    FIRST_SEEN,
    IMPACT_AT,
    LAST_STATE,
    PHASE,
    SECONDS_LEFT,
    STARTED_FOR,
    STATE,
    URGENCY,
    VM_LAST_STATE,
    VM_MAINTENANCE,
    VMS,
)
from .recorded import LENGTH as DURATION
from .recorded import PLANNED as NOT_BEFORE
from .style import QUIET, UNKNOWN

_NAMED = 'vm_name="$vm"'
TARGET = 'job="$job", instance="$instance"'
"""The exporter. Its variables have one value each, in which Grafana does not escape regular expressions."""
_OWN = of(EXPORTER_INFO, _NAMED)
_ON_IT = f"on (job, instance) {_OWN}"
_WAS_ON_IT = f"on (job, instance) last_over_time({_OWN}[1d])"
_TOUCHES = "resources=~`(?i)(.+,)?_?${vm:regex}(,.+)?`"  # as the exporter compares names; backquotes, for escapes


def _raw(name: str, *matchers: str) -> str:
    """One of the metrics of the exporter on this VM."""
    return f"{series(name, TARGET, *matchers)} and {_ON_IT}"


# ---- Now ------------------------------------------------------------------------------------------------------------

_UP = f"({_raw('up')})"
_BLIND = f"max({of(BLIND, TARGET)} and {_WAS_ON_IT})"
SIGHT = f"{_BLIND} or on () 0 * max({_UP} == 1) or on () {RULES_MISSING} or on () vector({UNKNOWN:g})"
"""0 while its exporter has current data, else why it has not."""
ANSWER_AGE = f"time() - max({_raw('last_success_timestamp_seconds')}) or on () vector({UNKNOWN:g})"
_PLACE = "vm_name, scale_set, resource_group, location, zone, fault_domain"
_VM_INFO = series("instance_info", _NAMED)
IDENTITY = f"topk(1, group by ({_PLACE}, vm_id, vm_size, priority, job, instance) (last_over_time({_VM_INFO}[1d])))"
INCARNATION = f"max({_raw('document_incarnation')})"

_SMALL = of(LAST_STATE, 'resources!~"|(.+,){9}.+"')
_OF_LARGE = f"{of(VM_LAST_STATE, _NAMED)} unless on (event_id) {_SMALL}"
_ITS = f"(({of(LAST_STATE, _TOUCHES)} or on (event_id) {_OF_LARGE}) and on (event_id) {EVENT})"
"""Events that name the VM. ``resources`` holds ten names; of larger events its own exporter reports that they do."""
_THEM = f"on (event_id) {_ITS}"


def _or_quiet(vector: str, quiet: float) -> str:
    """``vector`` or why it is empty: ``quiet`` while this VM's exporter sees, else unknown."""
    sees = f"{quiet:g} + 0" if quiet else "0"
    return f"{vector} or on () ({sees} * max({_UP} == 1)) or on () vector({UNKNOWN:g})"


IN_MAINTENANCE = 0.5
"""The VM does not answer, although its event is over."""
CURRENT_STATE = _or_quiet(f"max({_ITS}) or on () {IN_MAINTENANCE} * max({of(VM_MAINTENANCE, _NAMED)} ^ 0)", 0)
NEXT_IMPACT = _or_quiet(f"min({IMPACT_AT} and on (event_id) ({_ITS} < 3)) - time()", QUIET)
EVENTS = with_trace(f"({_ITS} + 0)")
EVENT_COLUMNS = tuple(
    f"({column}) and {_THEM}"
    for column in (
        f"{IMPACT_AT} - time()",
        f"1000 * {latest(NOT_BEFORE)}",
        f"max by (event_id) ({latest(VMS)})",
        f"max by (event_id) ({DURATION})",
        f"max by (event_id, approved_by) ({APPROVED_BY})",
        f"count by (event_id) ({series('event_info')} unless on (job, instance) {BLIND}) or 0 * {latest(URGENCY)}",
    )
)
"""In order: countdown, NotBefore, VMs, impact, approval, shown by."""

# ---- The past -------------------------------------------------------------------------------------------------------

TIMELINE = f"max by (event_type) (max_over_time({of(STATE, _TOUCHES)}[$__interval]))"
"""What it went through, for steps of any length: an event between two points of a month's graph is not lost."""
SIGHT_HISTORY = (
    f"max(max_over_time({of(BLIND, TARGET)}[$__interval]) and {_WAS_ON_IT})"
    f" or on () 0 * max(max_over_time({of(EXPORTER_INFO, _NAMED, TARGET)}[$__interval]))"
)

_PAST = f"last_over_time({of(STATE, _TOUCHES)}[{RANGE}])"
_PAST_ROWS = f"topk(50, group by (event_id, event_type, event_source, description, resources) ({_PAST}))"
_THOSE = f"on (event_id) {_PAST}"
_FIRST_SEEN = f"min by (event_id) (min_over_time({FIRST_SEEN}[{RANGE}]))"
PAST_EVENTS = with_trace(f"topk by (event_id) (1, {_PAST_ROWS}) * on (event_id) group_left () (1000 * {_FIRST_SEEN})")
PAST_NOTICE = f"clamp_min(last_over_time({NOT_BEFORE}[{RANGE}]) - on (event_id) {_FIRST_SEEN}, 0) and {_THOSE}"
PAST_WAITED = f"sum by (event_id) (sum_over_time({PHASE}{IN_WAIT}[{RANGE}])) and {_THOSE}"
PAST_STARTED = f"max by (event_id) (max_over_time({STARTED_FOR}[{RANGE}])) and {_THOSE}"
PAST_OUTCOME = (
    f"(0 * group by (event_id) ({EVENT})"
    f" or on (event_id) group by (event_id) (last_over_time({PHASE}{IN_START}[{RANGE}]))"
    f" or on (event_id) 2 * group by (event_id) (last_over_time({SECONDS_LEFT}[{RANGE}]) > {EARLY_SECONDS})"
    f" or on (event_id) 3 * group by (event_id) ({_PAST})) and {_THOSE}"
)
OUTCOMES = ("current", "completed", "cancelled", "lost")
"""The numbers of :data:`PAST_OUTCOME` from 0 on; lost: it was gone by its NotBefore, and nobody saw it start."""

# ---- What its own exporter counted ----------------------------------------------------------------------------------
# The journal keeps histograms over restarts and beyond its retention: their last value counts since it began.


def _known(name: str, *matchers: str) -> str:
    return f"last_over_time({series(name, TARGET, *matchers)}[1d]) and {_WAS_ON_IT}"


def _increase(name: str, *matchers: str) -> str:
    return f"increase({series(name, TARGET, *matchers)}[{RANGE}]) and {_WAS_ON_IT}"


def _mean(name: str, by: str, *matchers: str) -> str:
    total, count = (_known(f"{name}_{each}", *matchers) for each in ("sum", "count"))
    return f"sum by ({by}) ({total}) / sum by ({by}) ({count}) >= 0"  # 0 / 0 is no number


_BY = "event_type, approved_by"
APPROVALS = f"sum by ({_BY}) ({_known('approval_latency_seconds_count')}) > 0"
APPROVAL_MEAN = _mean("approval_latency_seconds", _BY)
APPROVAL_REQUESTS = f"sum by (outcome) ({_increase('approval_requests_total')})"
PAUSES = f"sum by (event_type) ({_known('observed_pause_seconds_count')}) > 0"
PAUSE_MEAN = _mean("observed_pause_seconds", "event_type")
SCHEDULED_MEAN, STARTED_MEAN = (
    _mean("phase_duration_seconds", "event_type", f'phase="{phase}"') for phase in ("scheduled", "started")
)
NOTICE_MEAN = _mean("notice_seconds", "event_type")
# Not increase(): on Prometheus it misses the first event of a source that has no series before.
TRANSITIONS = f"sum by (transition) ({_known('transitions_total', SELF)})"
DOCUMENT_CHANGES = f"sum(increase({series('document_changes_total', TARGET)}[$__rate_interval]) and {_WAS_ON_IT})"
PENDING, STARTED = (f"sum({_raw(name, SELF)})" for name in ("pending", "started"))
