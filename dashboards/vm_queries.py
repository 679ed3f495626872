"""The queries about one VM by name. Its neighbours see its events too, so it is not unknown while it is blind."""

from .event_queries import EVENT_ROW, event_columns
from .selection import (
    EARLY_SECONDS,
    OTHER_STATUS,
    PLACE,
    RANGE,
    REASON,
    SELECTED,
    SELF,
    STARTED_STATUS,
    grown,
    over,
    series,
    with_trace,
)
from .style import QUIET, UNKNOWN

_INFO = series("instance_info", 'vm_name="$vm"')
_LAST_INFO = over("last_over_time", "instance_info", 'vm_name="$vm"', window="1d")
_ON_IT = f"on (job, instance) {_INFO}"
_WAS_ON_IT = f"on (job, instance) {_LAST_INFO}"
_TOUCHES = "resources=~`(.+,)?${vm:regex}(,.+)?`"  # backquotes, for the escapes of a regular expression
_NOT_BEFORE, _FIRST_SEEN = "event_not_before_timestamp_seconds", "event_first_seen_timestamp_seconds"
_LEFT = "event_seconds_until_not_before"


def _current(*matchers: str) -> str:
    """The events that touch this VM, whoever sees them; its own exporter also knows those of more than ten VMs."""
    own = f"{series('event_info', SELF, *matchers)} and {_ON_IT}"
    return f"({series('event_info', _TOUCHES, *matchers)} or {own})"


# ---- Now ------------------------------------------------------------------------------------------------------------

_UP = f"max({series('up')} and {_ON_IT})"
SIGHT = f"max({REASON} and {_WAS_ON_IT}) or on () 0 * {_UP} or on () vector({UNKNOWN:.0f})"
"""0 while its exporter sees IMDS, else why it does not."""
ANSWER_AGE = f"min(time() - {over('last_over_time', 'last_success_timestamp_seconds', window='1d')} and {_WAS_ON_IT})"
IDENTITY = f"topk(1, max by ({PLACE}, vm_id, location, vm_size, priority, job, instance) ({_LAST_INFO}))"
INCARNATION = f"max({series('document_incarnation')} and {_ON_IT})"


def state(labels: str) -> str:
    """Return for each event that touches the VM 1 waiting, 2 approved, 3 started, by ``labels``."""
    approved = f"max by (event_id) ({series('event_approved')})"
    waits = f"max by ({labels}) ({_current(OTHER_STATUS)}) + on (event_id) group_left () {approved}"
    return f"(3 * max by ({labels}) ({_current(STARTED_STATUS)}) or on (event_id) {waits})"


def _or_quiet(vector: str, quiet: float) -> str:
    """``vector`` or why it is empty: ``quiet`` while this VM's exporter sees, else unknown."""
    return f"{vector} or on () ({quiet:.0f} + 0 * ({_UP} == 1)) or on () vector({UNKNOWN:.0f})"


EVENTS = with_trace(f"topk by (event_id) (1, {state(EVENT_ROW)})")
EVENT_COLUMNS = tuple(f"({column}) and on (event_id) {_current()}" for column in event_columns(series))
STATE = _or_quiet(f"max({state('event_id')})", 0)
_COUNTDOWN = (
    f"min by (event_id) ({series(_NOT_BEFORE)}) - time() and on (event_id) {_current(OTHER_STATUS)}"
    f" unless on (event_id) {_current(STARTED_STATUS)}"
)
NEXT_IMPACT = _or_quiet(f"min({_COUNTDOWN})", QUIET)

# ---- The past -------------------------------------------------------------------------------------------------------


def _worst(*matchers: str) -> str:
    return f"max by (event_type) ({over('max_over_time', 'event_info', _TOUCHES, *matchers, window='$__interval')})"


TIMELINE = f"3 * {_worst(STARTED_STATUS)} or on (event_type) {_worst()}"
"""What it went through, for steps of any length: an event between two points of a month's graph is not lost."""
SIGHT_HISTORY = f"max({series('up')} and {_ON_IT}) + 1 or on () max(up{{{SELECTED}}} == 0 and {_WAS_ON_IT})"

_PAST = f"group by ({EVENT_ROW}) ({over('present_over_time', 'event_info', _TOUCHES)})"
_PAST_HAPPENED = f"group by (event_id) ({over('present_over_time', 'event_info', _TOUCHES, STARTED_STATUS)})"
_PAST_FIRST_SEEN = f"min by (event_id) ({over('last_over_time', _FIRST_SEEN)})"
_PAST_NOT_BEFORE = f"max by (event_id) ({over('last_over_time', _NOT_BEFORE)})"
_PAST_LEFT = f"min by (event_id) ({over('last_over_time', _LEFT)})"
_STARTED_TIMES = f"timestamp({series('event_info', _TOUCHES, STARTED_STATUS)})[{RANGE}:30s]"
PAST_EVENTS = with_trace(f"topk by (event_id) (1, {_PAST}) * on (event_id) group_left () (1000 * {_PAST_FIRST_SEEN})")
PAST_NOTICE = f"{_PAST_NOT_BEFORE} - on (event_id) {_PAST_FIRST_SEEN} and on (event_id) {_PAST}"
PAST_WAITED = (
    f"{_PAST_NOT_BEFORE} - on (event_id) {_PAST_LEFT} - on (event_id) {_PAST_FIRST_SEEN} and on (event_id) {_PAST}"
)
PAST_STARTED = (
    f"max by (event_id) (max_over_time({_STARTED_TIMES}))"
    f" - on (event_id) min by (event_id) (min_over_time({_STARTED_TIMES}))"
)
"""How long an event was seen Started, to half a minute."""
PAST_OUTCOME = (
    f"0 * group by (event_id) ({_current()}) or on (event_id) {_PAST_HAPPENED}"
    f" or on (event_id) (2 * {_PAST_LEFT} ^ 0 and on (event_id) {_PAST_LEFT} > {EARLY_SECONDS}"
    f" and on (event_id) {_PAST})"
    f" or on (event_id) 3 * group by (event_id) ({_PAST})"
)
"""0 still current, 1 completed, 2 cancelled, 3 lost: it was gone by its NotBefore, and nobody saw it start."""
APPROVAL_REQUESTS = f"sum by (outcome) ({over('increase', 'approval_requests_total')} and {_WAS_ON_IT})"
_BY = "event_type, approved_by"
_COUNTS = f"sum by ({_BY}) ({grown('approval_latency_seconds_count')} and {_WAS_ON_IT}) > 0"
APPROVALS = f"round({_COUNTS})"
APPROVAL_MEAN = f"sum by ({_BY}) ({grown('approval_latency_seconds_sum')} and {_WAS_ON_IT}) / ({_COUNTS})"
_PAUSES = f"sum by (event_type) ({grown('observed_pause_seconds_count')} and {_WAS_ON_IT}) > 0"
PAUSES = f"round({_PAUSES})"
PAUSE_MEAN = f"sum by (event_type) ({grown('observed_pause_seconds_sum')} and {_WAS_ON_IT}) / ({_PAUSES})"
