"""What the queries of all dashboards are made of. Must not know panels.

Queries read scraped series, so that boards are right without any recording rule and in the first
minute; recordings only make them faster (:func:`watch_variables`):

- The exporters decide what is hard to know, such as the kind of an event, when its impact begins,
  and when they saw it. Queries only select; where exporters differ, the newest statement wins.
- An event counts once, whatever the number of exporters that show it.
- Of 10,000 VMs, at most what one sample each is read of all; over time, only events of exporters'
  own VMs are.
- An empty answer is never shown as quiet: :func:`or_quiet` looks whether exporters see IMDS.
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
"""For how long an event is shown that nobody shows any more and whose end nobody saw.

Its VM may be away with it.
"""
STALE_SECONDS = 120
"""An event that no exporter saw for longer than this is not seen."""
NAMES = "[30m]"
"""For how long the name of a VM is known whose exporter is down."""
DAY = "[1d] offset -1d"
"""A day from its beginning on, where a bar is drawn."""
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
ANY_VM_IMPACT = f'__name__=~"{PREFIX}(vm|peer)_impact_timestamp_seconds"'
"""Selects when the impact of an event on a VM begins, as the VM says itself, or as its peers do."""
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


def last(name: str, window: str, *matchers: str, **labels: str) -> str:
    """Return the last value of each series of a metric within a window."""
    return f"last_over_time({metric(name, *matchers, **labels)}{window})"


OVER = f"{metric(ENDED)} unless on (event_id) ({metric(SEEN)} > time() - {STALE_SECONDS})"
"""The events that one exporter saw end and no other still sees.

An exporter that gets no valid document goes on showing an event, with an old time.
"""
UNENDED = f"unless on (event_id) ({OVER})"


def impacts(*matchers: str) -> str:
    """Return when the impact of each current event begins or began, or that it has no time."""
    # As 4e9: a query has a limit of characters.
    no_time = f"{NO_TIME / 1e9:.0f}e9 * {metric(EVENT_INFO, *matchers)}"
    return f"{metric(EVENT_IMPACT)} or on (event_id) {no_time}"


def newest(*matchers: str) -> str:
    """Return one series of each current event: its texts as those know them who saw it last.

    The value is when they saw it.
    """
    seen = f"on (job, instance, event_id) group_left () {metric(SEEN)}"
    return one(f"{metric(EVENT_INFO, *matchers)} * {seen}")


def started_events(*matchers: str) -> str:
    """Return 1 for each type and VMs of which an event is Started."""
    started = metric(EVENT_INFO, 'event_status="Started"', *matchers)
    return f"group by (event_type, vms) ({started})"


def one(vector: str) -> str:
    """Return one series of each event, that with the highest value."""
    return f"topk by (event_id) (1, {vector})"


def cells(column: str, vector: str) -> str:
    """Return ``vector`` as the cells of a column of a table."""
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
"""Selects all events if traces are chosen, and none if not: no series is read then."""


def with_trace(events: str) -> str:
    """Return ``events`` with the label ``trace_id``, the 128 bits of the EventId."""
    guid = "-".join(f"([0-9a-fA-F]{{{digits}}})" for digits in (8, 4, 4, 4, 12))
    return f'label_replace({events}, "trace_id", "$1$2$3$4$5", "event_id", "{guid}")'


def first_vm(events: str) -> str:
    """Return ``events`` with the label ``vm``, the first of their ``resources``."""
    return f'label_replace({events}, "vm", "$1", "resources", "([^,]*).*")'


def approval(window: str = "", *matchers: str) -> str:
    """Return the numbers of :data:`.style.APPROVED`, of current events or of those in a window.

    They are 1 if the exporter has approved the event, plus 2 if it has started. An event in a
    window has ended, so it counts as started.
    """
    if not window:
        # A number to the power of 0 is 1.
        started = f"2 * max by (event_id, event_type) ({metric(STARTED)}) ^ 0"
        return f"sum by (event_id) (max by (event_id) ({metric(APPROVED)}) or {started})"
    return f"2 + max by (event_id) (max_over_time({metric(APPROVED, *matchers)}{window}))"


def blind(*matchers: str) -> str:
    """Return 0 for each exporter that does not see IMDS, or that cannot be scraped."""
    either = '__name__=~"$scraped|$sees"'
    return f"{selector('', either, *matchers)} == 0"


def watch_variables() -> list[g.Template]:
    """Return the variables with the names of the two metrics that say which exporters see IMDS.

    Both are a recording if there is one: 0 for each exporter that does not, and by job how many do.
    While nothing is recorded any more, no exporter is known to see IMDS.
    """
    return [
        first_variable(name, f'label_values({{__name__=~"{EXPORTERS}|{raw}"}}, __name__)')
        for name, raw in (("sees", f"{PREFIX}up|up"), ("scraped", "up"))
    ]


def or_quiet(vector: str, quiet: float = 0) -> str:
    """Return ``vector``, or why it is empty.

    While it is, ``quiet`` if all exporters see IMDS, :data:`.style.UNKNOWN` if none does. A number
    in between stands for nothing known while some do not see IMDS.
    """
    # The share of exporters that see IMDS; of the recording, the share of its rows that are not 0.
    seen = f"avg(clamp_max({selector('$sees', JOB)}, 1))"
    # 0 if any exporter cannot be scraped, else 1.
    scraped = f"clamp_max(min({selector('$scraped', JOB)}) or on () vector(1), 1)"
    # 0 if all can be scraped and see IMDS, else more than 0.
    some = f"(1 - {seen} * (1 + {scraped}) / 2)"
    between = f"{quiet:g} + {UNKNOWN - quiet:g} * {some}"
    return f"{vector} or on () {between} or on () vector({UNKNOWN:g})"


def countdown(waiting: str) -> str:
    """Return the seconds until the first of the moments ``waiting``, or why there is none."""
    return or_quiet(f"min({waiting}) - time()", QUIET)
