"""What the queries of all dashboards are made of. Must not know panels.

Queries read scraped series alone, so that boards are right without any recording rule and in the first minute:

- The exporters decide what is hard to know, such as the kind of an event and that it is over. Queries only select.
- An event counts once, whatever the number of exporters that show it.
- Variables of a board find the rows of its tables. Other queries of a table read the series of its rows alone.
- Over time, only events of exporters' own VMs are read.
- An empty answer is never shown as quiet: :func:`or_quiet` looks whether exporters see IMDS.
"""

from azure_scheduled_events_exporter.metrics.spec import PREFIX

from .grafana import COLUMN
from .style import NO_TIME, QUIET, UNKNOWN

MOST = 50
"""The most rows of a table."""
PAST = "[30d]"
HELD = "[1h]"
"""For how long an event is shown that nobody shows any more and whose end nobody saw: its VM may be away with it."""
NAMES = "[30m]"
"""For how long the name of a VM is known whose exporter is down."""
DAY = "[1d] offset -1d"
"""A day from its beginning on, where a bar is drawn."""
OWN = 'scope!="peer"'
JOB = 'job=~"$job"'


def metric(name: str, *matchers: str, **labels: str) -> str:
    """Return the selector of one of the exporter's metrics; ``name`` is without prefix, ``labels`` are compared."""
    return selector(f"{PREFIX}{name}", *matchers, **labels)


def selector(name: str, *matchers: str, **labels: str) -> str:
    """Return the selector of any metric."""
    every = ",".join([*matchers, *(f'{label}="{value}"' for label, value in labels.items())])
    return f"{name}{{{every}}}" if every else name


def last(name: str, window: str, *matchers: str, **labels: str) -> str:
    """Return the last value of each series of a metric within a window."""
    return f"last_over_time({metric(name, *matchers, **labels)}{window})"


INFO, APPROVED, VM = "event_info", "event_approved", "instance_info"
FIRST_SEEN, NOT_BEFORE, STARTED, ENDED, IMPACT = (
    f"{name}_timestamp_seconds"
    for name in ("event_first_seen", "event_not_before", "event_started", "event_ended", "vm_impact")
)


def times(*matchers: str) -> str:
    """Return when each current event started, or its NotBefore."""
    started, not_before, seen = (metric(name, *matchers) for name in (STARTED, NOT_BEFORE, FIRST_SEEN))
    return f"{started} or {not_before} or {NO_TIME / 1e9:.0f}e9 + 0 * {seen}"


def cells(column: str, vector: str) -> str:
    """Return ``vector`` as the cells of a column of a table."""
    return f'label_replace({vector}, "{COLUMN}", "{column}", "", "")'


def with_portal(vms: str) -> str:
    """Return ``vms`` with the label ``portal``: what follows the provider in the VM's resource id.

    Only an instance of a uniform scale set has an underscore in its name: NAME_NUMBER.
    """
    single = f'label_replace({vms}, "portal", "virtualMachines/$1", "vm_name", "(.*)")'
    instance = "virtualMachineScaleSets/$1/virtualMachines/$2"
    return f'label_replace({single}, "portal", "{instance}", "vm_name", "(.+)_([0-9]{{1,6}})")'


def blindness(*matchers: str) -> str:
    """Return 0 for each exporter that sees IMDS, and 1 for each that does not, or that cannot be scraped."""
    return f"({metric('up', *matchers)} == bool 0 or 1 + ({selector('up', *matchers)} == 0))"


DOUBT = f"avg({blindness(JOB)}) or on () vector(1)"
"""The share of exporters that do not see IMDS; 1 if there are none. A variable, as several numbers need it."""


def or_quiet(vector: str, quiet: float = 0) -> str:
    """Return ``vector``; while it is empty, ``quiet`` if all exporters see IMDS, :data:`.style.UNKNOWN` if none does.

    A number in between stands for nothing known while some do not see IMDS. Without the variable, the query fails.
    """
    return f"{vector} or on () vector({quiet:.0f} + {UNKNOWN - quiet:.0f} * ${{doubt:raw}})"


def countdown(waiting: str) -> str:
    """Return the seconds until the first of ``waiting`` NotBefores, or why there is none."""
    return or_quiet(f"min({waiting}) - time()", QUIET)
