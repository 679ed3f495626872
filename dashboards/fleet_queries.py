"""The queries of the fleet's dashboard by name: what is about to happen to which VMs, and what happened."""

from .queries import (
    IN_START,
    IN_WAIT,
    MOST,
    RANGE,
    SELF,
    here,
    known_here,
    latest,
    or_quiet,
    past,
    placed,
    series,
    trust,
    with_names,
    with_trace,
)
from .recorded import (
    APPROVED_BY,
    BLIND,
    BLIND_SECONDS,
    BLIND_SHARE,
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
    VMS,
)
from .recorded import LENGTH as DURATION
from .recorded import PLANNED as NOT_BEFORE
from .recorded import STARTED as HAS_STARTED
from .style import QUIET

TRUST = trust(known_here(BLIND), placed(BLIND_SHARE))

# ---- Now ------------------------------------------------------------------------------------------------------------

_STATE = LAST_STATE
_WAITING = here(f"{_STATE} < 3")
_STARTED = here(f"{_STATE} == 3")
NEXT_IMPACT = or_quiet(f"min({IMPACT_AT} and on (event_id) ({_WAITING})) - time()", QUIET)
_VMS = f"max by (event_id, event_type) ({latest(VMS)})"
VMS_WAITING = or_quiet(f"sum({_VMS} and on (event_id) ({_WAITING}))")
VMS_STARTED = or_quiet(f"sum({_VMS} and on (event_id) ({_STARTED}))")

_TOP = f"on (event_id) topk({MOST}, {here(latest(URGENCY))})"
_SHOWN = series("event_info")
# As scraped, since a recording of a new event comes later. What two jobs scrape at one address is one exporter.
_OWN_EXPORTERS = f"group by (event_id, instance) ({series('event_info', SELF)})"
_WATCHED = f"(count by (event_id) ({_OWN_EXPORTERS}) or on (event_id) 0 * {_STATE})"
_APPROVER = f"({series('event_approved')} == 1) * on (job, instance) group_left (vm_name) {EXPORTER_INFO}"
EVENTS = with_trace(f"({_STATE} + 0 and {_TOP})")  # + 0 drops the name, in which the columns differ
EVENT_COLUMNS = tuple(
    f"({column}) and {_TOP}"
    for column in (
        f"{IMPACT_AT} - time()",
        f"1000 * {latest(NOT_BEFORE)}",
        _VMS,
        f"clamp_min({_VMS} - on (event_id) group_left () {_WATCHED}, 0)",
        f"max by (event_id) ({DURATION})",
        f"max by (event_id, approved_by) ({APPROVED_BY})",
        f'label_replace(topk by (event_id) (1, {_APPROVER}), "approver", "$1", "vm_name", "(.*)")',
        f"count by (event_id) ({_SHOWN} unless on (job, instance) {BLIND}) or on (event_id) 0 * {_VMS}",
    )
)
"""In order: countdown, NotBefore, VMs, unwatched VMs, impact, approval, approver, shown by."""

_VM_STATE = f"{placed(VM_LAST_STATE)} and on (event_id) {EVENT}"
_TOP_VMS = f"topk({MOST}, 0 * ({_VM_STATE}) + on (event_id) group_left () {latest(URGENCY)})"
VM_STATES = f"{VM_LAST_STATE} + 0 and {_TOP_VMS}"
VM_COUNTDOWNS = f"0 * {_TOP_VMS} + on (event_id) group_left () ({IMPACT_AT} - time())"

TYPE_WAITING = f"count by (event_type) ({_WAITING})"
TYPE_VMS_WAITING = f"sum by (event_type) ({_VMS} and on (event_id) ({_WAITING}))"
TYPE_NEXT = f"min by (event_type) (0 * ({_WAITING}) + on (event_id) group_left () ({IMPACT_AT} - time()))"
TYPE_STARTED = f"count by (event_type) ({_STARTED})"
TYPE_VMS_STARTED = f"sum by (event_type) ({_VMS} and on (event_id) ({_STARTED}))"


def _share(labels: str, named: str, shown: str) -> str:
    """The share of the exporters' VMs with the same ``labels`` that current events happen to; the highest ones.

    A place goes by the labels ``shown``; of places that are shown alike, by the highest share.
    """
    names = ", ".join(dict.fromkeys([*labels.split(", "), "resource_group", "vm_name"]))
    hit = f"group by ({names}) ({placed(VM_LAST_STATE, named)} and on (event_id) {EVENT})"
    every = f"group by ({names}) ({placed(EXPORTER_INFO, named)})"
    share = f"topk(10, count by ({labels}) ({hit}) / count by ({labels}) ({every}))"
    return f'max by (place) (label_join({share}, "place", "-", {shown}))'


SCALE_SETS_HIT = _share("resource_group, scale_set", 'scale_set!=""', '"scale_set"')
ZONES_HIT = _share("location, zone", 'zone!=""', '"location", "zone"')

_LAST_SEEN = f"topk(30, {past(f'last_over_time({FIRST_SEEN}[{RANGE}] @ end())', f'[{RANGE}] @ end()')})"
EVENT_STATES = with_names(f"max by (event_id, event_type, resources) ({STATE}) and on (event_id) {_LAST_SEEN}")

# ---- History --------------------------------------------------------------------------------------------------------

_DAY = "[1d] offset -1d"  # a bar is drawn at the beginning of its day
EVENTS_PER_DAY = f"count by (event_type) (({past(f'min_over_time({FIRST_SEEN}{_DAY})', _DAY)}) >= time())"

_SEEN = past(f"last_over_time({FIRST_SEEN}[{RANGE}])")
_HAPPENED = f"on (event_id) last_over_time({PHASE}{IN_START}[{RANGE}])"
_EARLY = f"on (event_id) (last_over_time({SECONDS_LEFT}[{RANGE}]) > {EARLY_SECONDS})"
_ENDED = f"{_SEEN} unless on (event_id) {EVENT}"
ENDED_COMPLETED = f"count by (event_type) ({_ENDED} and {_HAPPENED})"
ENDED_CANCELLED = f"count by (event_type) ({_ENDED} unless {_HAPPENED} and {_EARLY})"
ENDED_LOST = f"count by (event_type) ({_ENDED} unless {_HAPPENED} unless {_EARLY})"
STILL_CURRENT = f"count by (event_type) ({here(latest(FIRST_SEEN))})"

_FIRST = f"min_over_time({FIRST_SEEN}[{RANGE}])"
_ANNOUNCED = f"last_over_time({NOT_BEFORE}[{RANGE}]) - {_FIRST}"  # all of these have event_id and event_type
_NEVER_WAITED = f"0 * {_FIRST} unless last_over_time({SECONDS_LEFT}[{RANGE}])"
_NOTICES = past(f"clamp_min({_ANNOUNCED} or {_NEVER_WAITED}, 0)")
NOTICE_MEDIAN = f"quantile by (event_type) (0.5, {_NOTICES})"
NOTICE_LEAST = f"min by (event_type) ({_NOTICES})"
"""Notice that the events of the time range gave; 0 for one that was first seen as Started."""

_BY = "event_type, approved_by"
# Who approved may be known only after the start, or no longer. The least value of an event is who approved it.
_APPROVER_OF = f"bottomk by (event_id) (1, last_over_time({APPROVED_BY}[{RANGE}]))"
_APPROVED_BY = f"group by (event_id, {_BY}) ({past(_APPROVER_OF)})"
_WAITED = f"sum by (event_id) (sum_over_time({PHASE}{IN_WAIT}[{RANGE}]))"
_LATENCY = f"{_APPROVED_BY} * on (event_id) group_left () {_WAITED}"
APPROVALS = f"count by ({_BY}) ({_APPROVED_BY})"
APPROVAL_MEDIAN = f"quantile by ({_BY}) (0.5, {_LATENCY})"
APPROVAL_SLOWEST = f"max by ({_BY}) ({_LATENCY})"
_STARTED_FOR = past(f"max_over_time({STARTED_FOR}[{RANGE}])")
STARTED_MEDIAN = f"quantile by (event_type) (0.5, {_STARTED_FOR})"
STARTED_LONGEST = f"max by (event_type) ({_STARTED_FOR})"

# ---- Who cannot see -------------------------------------------------------------------------------------------------

_BLIND = f"topk({MOST}, {known_here(BLIND)})"
_NAMES = "vm_name, scale_set"
BLIND_EXPORTERS = f"{_BLIND} * on (job, instance) group_left ({_NAMES}) {EXPORTER_INFO}"
"""With the VM that an exporter was last known to run on; one that is down does not report it."""
BLIND_FOR = f"sum_over_time({BLIND_SECONDS}[1d]) and on (job, instance) {_BLIND}"

# ---- Marks on graphs ------------------------------------------------------------------------------------------------


def _marked(now: str, other: str) -> str:
    """Return a query that counts, by type, the events in ``now`` that are not in ``other``."""
    return f"count by (event_type) ({now} unless on (event_id) {other})"


# The alert rules hold an event while its exporters are silent: it neither ends nor begins again.
DETECTED = _marked(EVENT, f"{EVENT} offset 1m")
STARTED = _marked(HAS_STARTED, f"{HAS_STARTED} offset 1m")
ENDED = _marked(f"{EVENT} offset 1m", EVENT)
