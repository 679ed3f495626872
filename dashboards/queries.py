"""What the queries of all dashboards are made of: the selection by variables, and whether exporters reach IMDS.

- Each event counts once, whatever the number of exporters that see it: the recordings have one row per event.
- A selection hides an event, a VM or an exporter only if its place is known and differs. Unknown ones stay visible.
- An empty answer is not shown as quiet: :func:`or_quiet` checks whether any exporter reached IMDS.

Queries use recordings, so that they take milliseconds with
thousands of VMs. Scraped series are read only for one moment, never over time. This module writes PromQL and must not
depend on
panels.
"""

from azure_scheduled_events_exporter.metrics.spec import PREFIX

from .recorded import BLIND_SHARE, EVENT, EXPORTER_INFO, HELD, VM_STATE
from .style import MISSING, UNKNOWN

RANGE = "$__range"
CHOSEN_SCALE_SET = 'scale_set=~"$scale_set|"'
ELSEWHERE = 'resource_group!~"$resource_group|"'
PLACE = 'scale_set=~"$scale_set|", resource_group=~"$resource_group|"'
TARGET = 'job=~"$job", instance=~"$instance"'
SELF = 'scope="self"'
IN_START, IN_WAIT = '{phase="started"}', '{phase="waiting"}'
MOST = 50
"""The most rows or lines of a panel."""


def series(name: str, *matchers: str) -> str:
    """Return the selector of one of the exporter's metrics; ``name`` is without prefix."""
    return f"{PREFIX}{name}{{{', '.join(matchers)}}}" if matchers else f"{PREFIX}{name}"


def of(recording: str, *matchers: str) -> str:
    """Return the selector of a recording."""
    return f"{recording}{{{', '.join(matchers)}}}"


def placed(recording: str, *matchers: str) -> str:
    """Return the selector of a recording, restricted to the chosen scale sets and resource groups."""
    return of(recording, PLACE, *matchers)


def here(events: str) -> str:
    """Return current ``events`` without those that are known to be outside of the selection.

    The alert rules decide which events are current: they hold an event whose exporters are silent, as those of VMs are
    that restart.
    """
    known = of(EVENT, CHOSEN_SCALE_SET)
    return f"{events} and on (event_id) {known} unless on (event_id) {latest(VM_STATE, ELSEWHERE)}"


def latest(recording: str, *matchers: str) -> str:
    """Return the last values of a recording of events, for longer than the rules hold events by default.

    The labels of the recording must not change during an event, or it would be two rows.
    """
    return f"last_over_time({of(recording, *matchers) if matchers else recording}[{HELD}])"


def past(events: str, window: str = f"[{RANGE}]") -> str:
    """Return past ``events``, except those known to be outside the selection."""
    places = (of(VM_STATE, each) for each in ('scale_set!~"$scale_set|"', ELSEWHERE))
    outside = " or ".join(f"last_over_time({each}{window})" for each in places)
    return f"{events} unless on (event_id) ({outside})"


def with_trace(vector: str) -> str:
    """Return ``vector`` with ``trace_id``, the 128 bits of the EventId, and ``first_vm`` of its resources."""
    first = f'label_replace({vector}, "first_vm", "$1", "resources", "([^,]*).*")'
    guid = "-".join(f"(.{{{digits}}})" for digits in (8, 4, 4, 4, 12))
    return f'label_replace({first}, "trace_id", "$1$2$3$4$5", "event_id", "{guid}")'


def with_names(vector: str) -> str:
    """Return ``vector`` with ``vms``: the names in ``resources``, cut after the second."""
    names = f'label_replace({vector}, "vms", "$1", "resources", "(.*)")'
    return f'label_replace({names}, "vms", "$1, …", "resources", "([^,]+,[^,]+),.+")'


def known_here(exporters: str) -> str:
    """Return ``exporters`` without those that are known to be outside of the selection."""
    outside = (f'{label}!~"${label}|"' for label in ("scale_set", "resource_group"))
    return f"{exporters}{''.join(f' unless on (job, instance) {of(EXPORTER_INFO, each)}' for each in outside)}"


def or_quiet(vector: str, quiet: float = 0) -> str:
    """Return ``vector``, or why it is empty.

    ``quiet`` while all exporters see, :data:`.style.UNKNOWN` while none sees, and a number between while some see.
    """
    doubt = f"{UNKNOWN - quiet:g} * avg({placed(BLIND_SHARE)})"
    return f"{vector} or on () ({quiet:g} + {doubt}) or on () vector({UNKNOWN:g})"


RULES_MISSING = f"({MISSING:g} + 0 * count({series('up')}) unless on () count({EXPORTER_INFO}))"
"""The number for exporters that are scraped by a Prometheus without the recording rules.

The rules record every exporter. So they are loaded if there is any row, also if none of the selected exporters is left.
"""


def trust(blind: str, seeing: str) -> str:
    """Return how many exporters are ``blind``, or why that is not known; ``seeing`` exists while any is known."""
    return f"count({blind}) or on () 0 * sum({seeing}) or on () {RULES_MISSING} or on () vector({UNKNOWN:g})"
