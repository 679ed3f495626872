"""What all queries are made of: selectors, the selection of the variables, and who can see.

Four rules hold in every query of the dashboards:

- Each event counts once, whatever the number of exporters that see it: vectors are reduced by ``event_id``.
- Each VM counts once: vectors are reduced by ``vm_id`` and ``vm_name``, which ``instance_info`` gives.
- Nothing is quiet because it is silent. A selection drops an exporter only when it is known to be elsewhere
  (:data:`ELSEWHERE`), and a zero is drawn only while somebody sees IMDS (:func:`or_quiet`).
- History comes from the gauges of events where they tell it, each event once. Histograms have no event id, and appear
  with their first value, which ``increase`` cannot see (:func:`grown`).

It knows PromQL and nothing of panels.
"""

from collections.abc import Callable

from .style import DOUBTFUL, UNKNOWN

PREFIX = "azure_scheduled_events_"
SELECTED = 'job=~"$job", instance=~"$instance"'
SELF = 'scope="self"'
STARTED_STATUS, OTHER_STATUS = 'event_status="Started"', 'event_status!="Started"'
VM = "vm_id, vm_name"
PLACE = "vm_name, scale_set, zone, fault_domain, resource_group"
RANGE = "$__range"
RATE = "$__rate_interval"

SILENT_SECONDS = 120
"""An exporter whose last answer is older than this and three poll intervals polls no longer."""
EARLY_SECONDS = 60
"""A start this long before NotBefore was approved. More than an interval between scrapes, less than a notice."""


def series(name: str, *matchers: str) -> str:
    """Return the selector of one of our metrics; ``name`` is without prefix."""
    return f"{PREFIX}{name}{{{', '.join((SELECTED, *matchers))}}}"


def over(function: str, name: str, *matchers: str, window: str = RANGE) -> str:
    """Return ``function``, such as ``last_over_time``, of one of our metrics over ``window``."""
    return f"{function}({series(name, *matchers)}[{window}])"


INFO = series("instance_info")
OUTSIDE = (
    ("instance_info", 'vm_name!=""', 'vm_name!~"$vm"'),
    ("instance_info", 'scale_set!~"$scale_set"'),
    ("instance_info", 'resource_group!~"$resource_group"'),
)
ELSEWHERE = " or ".join(series(*outside) for outside in OUTSIDE)
"""Exporters known to be outside of the selection. Nobody, and at no cost, while everything is selected."""


def here(vector: str) -> str:
    """Return ``vector`` without the exporters that are known to be outside of the selection."""
    return f"({vector} unless on (job, instance) ({ELSEWHERE}))"


def mine(name: str, *matchers: str) -> str:
    """Return one of our metrics, of the exporters of the selection."""
    return here(series(name, *matchers))


def placed(vector: str, labels: str) -> str:
    """Return ``vector`` of exporters with ``labels`` of the VM that each runs on."""
    return f"({vector} * on (job, instance) group_left ({labels}) {INFO})"


def grown(name: str, *matchers: str) -> str:
    """Return by how much a counter grew in the time range, its first value included if it appeared in it.

    A histogram by type appears with its first value, and ``increase`` counts from there. In a fleet where a VM sees
    an event a month, that would be all there ever is.
    """
    before = f"last_over_time({series(name, *matchers)}[1d] offset {RANGE})"
    increase = over("increase", name, *matchers)
    return f"({increase} + ({over('min_over_time', name, *matchers)} unless {before}) or {increase})"


def labelled(vector: str, label: str, value: str) -> str:
    """Return ``vector`` with one more label."""
    return f'label_replace({vector}, "{label}", "{value}", "", "")'


def with_trace(vector: str) -> str:
    """Return ``vector`` with ``trace_id``, which is the EventId's 128 bits, and ``first_vm`` of its resources."""
    first = f'label_replace({vector}, "first_vm", "$1", "resources", "([^,]*).*")'
    guid = "-".join(f"(.{{{digits}}})" for digits in (8, 4, 4, 4, 12))
    return f'label_replace({first}, "trace_id", "$1$2$3$4$5", "event_id", "{guid}")'


def with_names(vector: str) -> str:
    """Return ``vector`` with ``vms``: the names in ``resources``, from the third on as dots."""
    names = f'label_replace({vector}, "vms", "$1", "resources", "(.*)")'
    return f'label_replace({names}, "vms", "$1, …", "resources", "([^,]+,[^,]+),.+")'


# ---- Who sees -------------------------------------------------------------------------------------------------------

_DAY, _RECENT = (over("present_over_time", "build_info", window=window) for window in ("1d:10m", "10m"))
JOBS = f"(group by (job) ({_DAY}) or group by (job) ({_RECENT}))"
"""Jobs that had one of our exporters within a day. All selects any job, and other programs are none of our business."""
ANSWER_AGE = f"(time() - {mine('last_success_timestamp_seconds')})"
DOWN = f"(up{{{SELECTED}}} == 0 and on (job) {JOBS})"
SILENT = f"({ANSWER_AGE} > {SILENT_SECONDS} + 3 * {series('poll_interval_seconds')})"
REASON = f"({DOWN} + 1 or on (job, instance) ({series('up')} == 0) + 2 or on (job, instance) 0 * {SILENT} + 3)"
"""Exporters that cannot see IMDS, by why: 1 cannot be scraped, 2 IMDS fails, 3 polls no longer."""
_WAS_ELSEWHERE = " or ".join(over("last_over_time", *outside, window="1h") for outside in OUTSIDE)
BLIND = f"(max by (job, instance) ({REASON}) unless on (job, instance) ({_WAS_ELSEWHERE}))"


def seeing(look: Callable[..., str]) -> str:
    """Return the exporters that see IMDS, of those that ``look`` gives."""
    return f"({look('up')} == 1 unless on (job, instance) {SILENT})"


SEEING = seeing(mine)


def or_quiet(vector: str, quiet: float = 0) -> str:
    """Return ``vector`` or why it is empty: ``quiet`` while all see, else a number for doubt or for nobody sees."""
    doubt = f"({DOUBTFUL:.0f} + 0 * count({BLIND}) and on () count({SEEING}))"
    return f"{vector} or on () {doubt} or on () ({quiet:.0f} + 0 * count({SEEING})) or on () vector({UNKNOWN:.0f})"
