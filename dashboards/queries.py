"""What the queries of all dashboards are made of. Must not know panels.

Queries read scraped series, so that boards are right without any recording rule and in the first
minute; recordings only make them faster (:func:`watch_variables`):

- The exporters decide what is hard to know, such as the kind of an event, when its impact begins,
  and when they saw it. Queries only select. Where exporters differ, the newest statement wins.
- An event counts once, whatever the number of exporters that show it.
- A fleet may have 10,000 VMs. A query of the present reads at most one sample of each; a query of
  the past reads only series of events of the exporters' own VMs.
- An empty answer is never shown as quiet: :func:`or_quiet` looks whether exporters see IMDS.

The constants with brackets, such as ``PAST``, are ranges of PromQL. Those with an operator, such as
``OWN``, are matchers. Names of metrics are without their prefix.

Queries name the dashboards' variables: ``$job``, ``$traces``, and ``$sees`` and ``$scraped``, which
hold names of metrics (:func:`watch_variables`).
"""

import grafanalib.core as g  # type: ignore[import-untyped] # it carries no types

from azure_scheduled_events_exporter.alerts.series import EXPORTERS
from azure_scheduled_events_exporter.metrics.spec import PREFIX

from .grafana import COLUMN, first_variable
from .style import NO_TIME, QUIET, UNKNOWN

MOST = 50
"""The most rows of a table, and series of a panel."""
PAST = "[30d]"
HELD = "[1h]"
"""For how long an event stays on the boards when no exporter shows it and none saw its end.

The VM of the event may be away.
"""
STALE_SECONDS = 120
"""An event that no exporter saw for longer than this is not seen."""
NAMES = "[30m]"
"""For how long the name of a VM is known whose exporter is down."""
DAY = "[1d] offset -1d"
"""The day that begins at the moment of the query: Grafana draws a bar at the beginning of its day.

The offset is negative, so the range reads what follows that moment.
"""
OWN = 'scope!="peer"'
SELF = 'scope="self"'
NOT_ADVISORY = 'kind!="advisory"'
JOB = 'job=~"$job"'

INSTANCE_INFO = "instance_info"
EVENT_INFO = "event_info"
APPROVED = "event_approved"
SEEN = "event_seen_timestamp_seconds"
EVENT_IMPACT = "event_impact_timestamp_seconds"
FIRST_SEEN = "event_first_seen_timestamp_seconds"
NOT_BEFORE = "event_not_before_timestamp_seconds"
STARTED = "event_started_timestamp_seconds"
ENDED = "event_ended_timestamp_seconds"
VM_IMPACT = "vm_impact_timestamp_seconds"
PAUSE = "event_observed_pause_seconds"
RETRANSMITTED = "event_tcp_retransmitted_segments"
TIMEOUTS = "event_tcp_timeouts"
CLOCK_STEP = "event_clock_step_seconds"


def metric(name: str, *matchers: str, **labels: str) -> str:
    """Return the selector of one of the exporter's metrics.

    ``name`` is without prefix; ``labels`` are compared.
    """
    return selector(f"{PREFIX}{name}", *matchers, **labels)


def selector(name: str, *matchers: str, **labels: str) -> str:
    """Return the selector of any metric."""
    compared = (f'{label}="{value}"' for label, value in labels.items())
    every = ",".join([*matchers, *compared])
    return f"{name}{{{every}}}" if every else name


def any_vm_impact(*matchers: str) -> str:
    """Return when the impact of each event on each VM begins, as the VM itself or its peers say."""
    return selector("", f'__name__=~"{PREFIX}(vm|peer)_impact_timestamp_seconds"', *matchers)


def last(name: str, window: str, *matchers: str, **labels: str) -> str:
    """Return the last value of each series of a metric within a window."""
    return f"last_over_time({metric(name, *matchers, **labels)}{window})"


OVER = f"{metric(ENDED)} unless on (event_id) ({metric(SEEN)} > time() - {STALE_SECONDS})"
"""The events that an exporter saw end, and that no exporter still sees.

To show an event is not to see it: an exporter that gets no valid document goes on showing the
event, with the old time at which it saw it.
"""
UNENDED = f"unless on (event_id) ({OVER})"
"""Leaves out the events of :data:`OVER`."""


def impacts(*matchers: str) -> str:
    """Return when the impact of each current event begins or began.

    It is :data:`.style.NO_TIME` for an event that has no time. Only for such events, ``matchers``
    select: callers leave out other events by their own conditions.
    """
    # Written short, as 4e9: the length of a query is limited.
    no_time = f"{NO_TIME / 1e9:.0f}e9 * {metric(EVENT_INFO, *matchers)}"
    return f"{metric(EVENT_IMPACT)} or on (event_id) {no_time}"


def newest(*matchers: str) -> str:
    """Return one series of each current event, with its texts: that of who saw the event last.

    The value is when that exporter saw it.
    """
    seen = f"on (job, instance, event_id) group_left () {metric(SEEN)}"
    return one_per_event(f"{metric(EVENT_INFO, *matchers)} * {seen}")


def started_events(*matchers: str) -> str:
    """Return a series for each type and VMs of which an event is Started."""
    started = metric(EVENT_INFO, 'event_status="Started"', *matchers)
    return f"group by (event_type, vms) ({started})"


def one_per_event(vector: str) -> str:
    """Return one series of each event: the one with the highest value."""
    return f"topk by (event_id) (1, {vector})"


def cells(column: str, vector: str) -> str:
    """Return ``vector`` as the cells of a column of a table, by :func:`.grafana.columns`."""
    return f'label_replace({vector}, "{COLUMN}", "{column}", "", "")'


def with_status(status: str, vector: str) -> str:
    """Return events with another text as their state."""
    return f'label_replace({vector}, "event_status", "{status}", "", "")'


def with_portal(vms: str) -> str:
    """Return ``vms`` with the label ``portal``: what follows the provider in the VM's resource id.

    Only an instance of a uniform scale set has an underscore in its name: NAME_NUMBER.
    """
    single = f'label_replace({vms}, "portal", "virtualMachines/$1", "vm_name", "(.*)")'
    instance = "virtualMachineScaleSets/$1/virtualMachines/$2"
    return f'label_replace({single}, "portal", "{instance}", "vm_name", "(.+)_([0-9]{{1,6}})")'


TRACED = 'event_id!~"$traces.*"'
"""Selects all events if a source of traces is chosen, and none if not.

The value of ``$traces`` is the UID of the chosen data source, and no EventId begins with one.
Without a source, it is empty, so ``.*`` remains, which excludes every event.
"""


def with_trace(events: str) -> str:
    """Return ``events`` with the label ``trace_id``, the 128 bits of the EventId."""
    guid = "-".join(f"([0-9a-fA-F]{{{digits}}})" for digits in (8, 4, 4, 4, 12))
    return f'label_replace({events}, "trace_id", "$1$2$3$4$5", "event_id", "{guid}")'


def first_vm(events: str) -> str:
    """Return ``events`` with the label ``vm``, the first of their ``resources``."""
    return f'label_replace({events}, "vm", "$1", "resources", "([^,]*).*")'


def current_approval() -> str:
    """Return the number of :data:`.style.APPROVED` of each current event.

    It is 1 if the exporter has approved the event, plus 2 if the event has started.
    """
    # 2 for each event that has started: any number to the power of 0 is 1. It is grouped by
    # event_type, too: so its labels differ from those of the other number, and `or` keeps both.
    started = f"2 * max by (event_id, event_type) ({metric(STARTED)}) ^ 0"
    return f"sum by (event_id) (max by (event_id) ({metric(APPROVED)}) or {started})"


def past_approval(*matchers: str) -> str:
    """Return the number of :data:`.style.APPROVED` of each past event.

    It is 1 if the exporter had approved the event, plus 2, because an event that has ended counts
    as started.
    """
    return f"2 + max by (event_id) (max_over_time({metric(APPROVED, *matchers)}{PAST}))"


def watch_variables() -> list[g.Template]:
    """Return the variables with the names of the two metrics that say which exporters see IMDS.

    Each is the first in the alphabet of the names that exist:

    - With the shipped rules, both name their recording, because a colon comes before an underscore.
      It has a series of value 0 for each exporter that cannot be scraped or does not see IMDS, and
      a series for each job, whose value is the number of its exporters that see IMDS.
    - Without rules, ``sees`` is the exporters' own ``up``, and ``scraped`` is that of Prometheus.

    If the rules have stopped within the time range, the recording is still named but has no values:
    then no exporter is known to see IMDS.
    """
    return [
        first_variable(name, f'label_values({{__name__=~"{EXPORTERS}|{raw}"}}, __name__)')
        for name, raw in (("sees", f"{PREFIX}up|up"), ("scraped", "up"))
    ]


def blind(*matchers: str) -> str:
    """Return 0 for each exporter that does not see IMDS, or that cannot be scraped.

    Both variables of :func:`watch_variables` name metrics that are 0 then.
    """
    either = '__name__=~"$scraped|$sees"'
    return f"{selector('', either, *matchers)} == 0"


def or_quiet(vector: str, quiet: float = 0) -> str:
    """Return ``vector``, or a number that says why it is empty.

    The number is ``quiet`` if all exporters see IMDS, and :data:`.style.UNKNOWN` if none does, or
    if there is no exporter. A number in between means that some exporters do not see IMDS, so there
    may be more than is known.
    """
    # Without rules, the share of exporters that see IMDS. With rules, the share of the recording's
    # rows that are not 0: 1 only if all exporters see IMDS, else less.
    seen = f"avg(clamp_max({selector('$sees', JOB)}, 1))"
    # Without rules, 0 if any exporter cannot be scraped, else 1. With rules, 0 if any cannot be
    # scraped or does not see IMDS, else 1.
    scraped = f"clamp_max(min({selector('$scraped', JOB)}) or on () vector(1), 1)"
    # 0 if all see IMDS, because both factors are 1 then. At least 1/2 if ``scraped`` is 0. For
    # example, with rules: one exporter of four is blind in one job. Then the rows are 0 and 3, so
    # ``seen`` is 1/2 and ``scraped`` is 0, and this is 1 - 1/2 * 1/2 = 3/4.
    blindness = f"(1 - {seen} * (1 + {scraped}) / 2)"
    between = f"{quiet:g} + {UNKNOWN - quiet:g} * {blindness}"
    return f"{vector} or on () {between} or on () vector({UNKNOWN:g})"


def countdown(waiting: str) -> str:
    """Return the seconds until the first of the moments ``waiting``, or why there is none."""
    return or_quiet(f"min({waiting}) - time()", QUIET)
