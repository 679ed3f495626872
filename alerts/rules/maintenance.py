"""VMs that Azure is about to work on, works on, or has just worked on.

While a VM is in maintenance, alerts about its absence say nothing new: Alertmanager may inhibit them. The alert begins
with what exporters show, and a recording holds it while the VM and its exporter do not answer. Each impact has an end
that no exporter can extend: ``maintenance.longest`` of its type after it became due, or after it started.
"""

from collections.abc import Callable
from types import MappingProxyType

from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.times import format_duration, parse_duration

from ..settings import EQUAL_SOURCE, Settings
from .fragments import (
    answering,
    at_last_scrapes,
    identified,
    kept,
    named,
    since_recorded,
    slow_interval,
    with_computer_name,
    with_imds,
)
from .rule import PREFIX, Alert, Dashboard, Group, Recording, expression
from .series import (
    APPROVED,
    DELETING,
    EVENT_APPROVED,
    EVENT_PLACE,
    HOST,
    INFO,
    INSTANCE,
    NOT_BEFORE,
    OVER,
    PLANNED,
    SEEN,
    UNCONFIRMED,
    UP,
    VM_EVENT,
    VM_EVENT_OVER,
    VM_MAINTENANCE,
    VM_TARGET,
)

MAINTENANCE = f"{PREFIX}Maintenance"

_OWN = f'{INFO}{{scope="self"}}'
_IMPACT = "on (event_id, vm_id, phase)"
_REPORTERS = 3  # of one event: one of them may not know its place yet


def maintenance_groups(settings: Settings) -> tuple[Group, ...]:
    """Return the groups of two recordings: the VMs of events that are due or have started, and since when they are."""
    interval = slow_interval(settings)
    place = Recording(
        EVENT_PLACE, _places(settings), "1 for each event that is due or has started, with its VMs and their place"
    )
    begin = Recording(
        VM_MAINTENANCE, _begin(settings), "since when an event has been due on a VM, or has started there"
    )
    return (
        Group("azure-scheduled-events-event-places", interval, (place,)),
        Group("azure-scheduled-events-maintenance", interval, (begin,)),
    )


def _places(settings: Settings) -> str:
    """A few exporters that report the event are enough to know its VMs and their resource group.

    Those with IMDS access come first: others may still name VMs that have left Resources.
    """
    shown, identity = at_last_scrapes(INFO, settings), at_last_scrapes(INSTANCE, settings)
    sighted = with_imds(shown, f"{at_last_scrapes(UP, settings)} == 0")
    return expression(f"""
        group by (event_id, event_type, phase, resources, subscription_id, resource_group) (
          topk by (event_id) ({_REPORTERS}, {sighted} or on (event_id) {shown})
          * on (event_id) group_left (phase)
          {_impacts(settings, shown=lambda series: at_last_scrapes(series, settings))}
          * on (job, instance) group_left (subscription_id, resource_group)
          topk by (job, instance) (1, {identity})
        )
    """)


def _labels(settings: Settings, *but: str) -> str:
    """Return what identifies a VM in an alert, and what a company's own alerts may know it by."""
    labels = dict.fromkeys(("vm_id", "vm_name", "computer_name", "node", *kept(settings)))
    return ", ".join(label for label in labels if label not in but)


def _impacts(settings: Settings, scope: str = "", shown: Callable[[str], str] = str) -> str:
    """Return the events that have started, and those that start soon or have been approved; never both for one.

    The latest NotBefore counts that an exporter shows. If it is an old one, of an exporter that does not reach IMDS,
    maintenance begins with the start of the event. ``scope`` narrows whose word counts, as a label matcher. ``shown``
    returns the values of a series.
    """
    started = shown(f'{INFO}{{event_status="Started"{scope and f",{scope}"}}}')
    approved, not_before = (shown(f"{each}{{{scope}}}" if scope else each) for each in (APPROVED, NOT_BEFORE))
    return expression(f"""
        (
          label_replace(group by (event_id) ({started}), "phase", "started", "", "")
          or
          label_replace(
            group by (event_id) (
              {approved} == 1
              or on (event_id)
              max by (event_id) ({not_before}) <= time() + {settings.number("maintenance.before")}
            )
            unless on (event_id) {started},
            "phase", "due", "", ""
          )
        )
    """)


def _own(settings: Settings) -> str:
    """Return the impacts on the VMs that report them, from scraped series alone."""

    def shown(series: str) -> str:
        return at_last_scrapes(series, settings)

    identity = identified(f"and on (job, instance) {_OWN}", shown)
    labels = _labels(settings, "computer_name")
    return expression(f"""
        (
          max by (event_id, event_type, job, instance) ({_OWN})
          * on (job, instance) group_left ({labels})
          topk by (job, instance) (1, {identity})
          * on (job, instance) group_left (computer_name)
          {with_computer_name(_OWN, f"{shown(HOST)} and on (job, instance) {_OWN}")}
          * on (event_id) group_left (phase)
          {_impacts(settings, 'scope="self"')}
          unless on (event_id) {OVER}
        )
    """)


def _recorded(settings: Settings) -> str:
    """Return the impacts on the VMs that report them or that events name, by the last target that each of them had.

    An exporter may stop answering before a recording sees what it showed of its own VM.
    """
    own = since_recorded(_OWN, settings)
    silent = f"({own} unless on (job, instance) {at_last_scrapes(UP, settings)})"
    impacts = _impacts(settings, 'scope="self"', lambda series: since_recorded(series, settings))
    targets = f"last_over_time({VM_TARGET}[{settings.several('evaluation.watcher-interval', 2)}])"
    names = named(lambda some: f"{EVENT_PLACE}{{{some}}}")
    place, target = "subscription_id, resource_group, vm_name", f'{VM_TARGET}{{vm_name!=""}}'
    row = f"event_id, event_type, phase, job, instance, {_labels(settings)}"
    return expression(f"""
        (group by ({row}) (
          group by (event_id, event_type, job, instance) ({_OWN} or {silent})
          * on (event_id) group_left (phase)
          (
            {impacts}
            or on (event_id)
            group by (event_id, phase) ({EVENT_PLACE}{{phase="started"}})
            or on (event_id)
            group by (event_id, phase) ({EVENT_PLACE}{{phase="due"}})
          )
          * on (job, instance) group_left ({_labels(settings)})
          topk by (job, instance) (1, {targets} and on (job, instance) {own})
          or
          group by (event_id, event_type, phase, {place}) ({names})
          * on ({place}) group_left (job, instance, {_labels(settings, *place.split(", "))})
          topk by ({place}) (1, last_over_time({target}[{settings.duration("memory")}]))
        ) unless on (event_id) {OVER})
    """)


def _begin(settings: Settings) -> str:
    """A row goes on while its event does, unless the event has left the VM, and while its VM does not answer.

    It keeps the time that it began with. Prometheus may have been away for up to ``memory``, if the VM's own exporter
    has shown the event and not answered without it since, nor shown it since the row was last recorded: a row that has
    ended does not return. A row also ends when its target answers: if the VM was replaced, it is another
    VM that does.
    """
    memory, after = settings.duration("memory"), time_back(settings)
    step = settings.duration("evaluation.interval")
    late = f"{max(settings.seconds('evaluation.watcher-interval'), parse_duration(slow_interval(settings))):.15g}"
    row = f"event_id, event_type, phase, job, instance, {_labels(settings)}"
    impacts, moved = _recorded(settings), _moved(settings)
    begun = f"(last_over_time({VM_MAINTENANCE}[{memory}]) unless {moved})"
    return expression(f"""
        max by ({row}) (
          {begun}
          and on (event_id, phase) {EVENT_PLACE}
          unless on (event_id) {OVER}
          unless on (event_id, vm_id) {_left(settings)}
          or
          (
            last_over_time({VM_MAINTENANCE}[{after}])
            or
            (
              last_over_time({VM_MAINTENANCE}[{memory}])
              and on (event_id, vm_id) last_over_time({VM_EVENT}[{settings.duration("longest")}])
              unless on (event_id, vm_id) last_over_time({VM_EVENT_OVER}[{memory}])
              unless on (event_id, vm_id)
              (
                max by (event_id, vm_id) (last_over_time(timestamp({VM_MAINTENANCE})[{memory}:{step}]))
                < on (event_id, vm_id) (max by (event_id, vm_id) (last_over_time({VM_EVENT}[{memory}])) - {late})
              )
            )
          )
          > time() - 86400
          unless {moved}
          unless on (event_id, event_type, job, instance)
          (
            last_over_time({VM_MAINTENANCE}{{event_type=~"{DELETING}"}}[{memory}])
            unless on (job, instance) {at_last_scrapes("up", settings)} == 0
          )
          {answering(settings=settings)}
          unless on (job, instance) {at_last_scrapes(UP, settings)}
          or
          {_unless_known(impacts, begun, settings)} * 0 + time()
        )
    """)


def _left(settings: Settings) -> str:
    """Return the events that have left a VM: its exporter has answered without the event, and not shown it since."""
    memory = settings.duration("memory")
    left, seen = (f"max by (event_id, vm_id) (last_over_time({each}[{memory}]))" for each in (VM_EVENT_OVER, VM_EVENT))
    return f"({left} unless {seen} >= {left})"


def _unless_known(impacts: str, begun: str, settings: Settings) -> str:
    """Return the ``impacts`` that are new: of which no row has ``begun``.

    An event that has started does not become due any more, nor does one that should have long ago, if only exporters
    without IMDS access show it. An event that an exporter has from its journal begins no maintenance either, unless
    another exporter has shown it lately: it may be over for long.
    """
    memory = settings.duration("memory")
    started = f'last_over_time({VM_MAINTENANCE}{{phase="started"}}[{memory}])'
    late = f"max by (event_id) (last_over_time({PLANNED}[{memory}])) < time() - {settings.number('memory')}"
    return expression(f"""
        (
          {impacts}
          unless {_IMPACT} {begun}
          unless {_IMPACT} label_replace({started}, "phase", "due", "", "")
          unless on (event_id, phase) label_replace({late} unless on (event_id) {SEEN}, "phase", "due", "", "")
          unless on (event_id)
          ({since_recorded(UNCONFIRMED, settings)} unless on (event_id) last_over_time({SEEN}[{memory}]))
        )
    """)


def _moved(settings: Settings) -> str:
    """Return the rows of events that were due, whose NotBefore has been moved away since, and that nobody approved."""
    memory = settings.duration("memory")
    early = settings.seconds("maintenance.before") + 2 * parse_duration(slow_interval(settings))
    return expression(f"""
        (
          last_over_time({VM_MAINTENANCE}{{phase="due"}}[{memory}])
          < on (event_id) group_left () (max by (event_id) (last_over_time({PLANNED}[{memory}])) - {early:g})
          unless on (event_id) last_over_time({EVENT_APPROVED}[{memory}]) == 1
        )
    """)


def time_back(settings: Settings) -> str:
    """Return how long a VM has to be back for its maintenance to end: one scrape or evaluation is not enough."""
    return format_duration(seconds_back(settings))


def seconds_back(settings: Settings) -> float:
    """Return the same in seconds."""
    return max(settings.seconds("maintenance.after"), 4 * parse_duration(slow_interval(settings)))


def within_longest(settings: Settings) -> str:
    """Return the rows that began no longer ago than the longest maintenance of their type."""
    return "\nor\n".join(
        f"{rows_of(matcher, settings)} > time() - {longest}"
        for matcher, longest in longest_of(settings, *EventType).items()
    )


def rows_of(matcher: str, settings: Settings, phase: str = "") -> str:
    """Return the rows that began with a due event, or with a started one (``phase``), or both, while they last."""
    selected = f'{matcher},phase="{phase}"' if phase else matcher
    return f"last_over_time({VM_MAINTENANCE}{{{selected}}}[{time_back(settings)}])"


def longest_of(settings: Settings, *types: EventType) -> dict[str, str]:
    """Return the longest maintenance of ``types`` in seconds, by label matcher; a new type has that of a Reboot.

    No length is less than two evaluations, which a VM that is away has to be away for. Types with the same length share
    a matcher, because each length is asked of all exporters.
    """
    least = 2 * parse_duration(slow_interval(settings))

    def length_of(event_type: EventType) -> str:
        return f"{max(settings.seconds(f'maintenance.longest.{event_type.lower()}'), least):.15g}"

    lengths = {each: length_of(each) for each in types}
    of_new = length_of(EventType.REBOOT)
    matchers = {}
    for length in dict.fromkeys((*lengths.values(), of_new)):
        same = [each for each, its_length in lengths.items() if its_length == length]
        others = [each for each in EventType if each not in same]
        matchers[f'event_type!~"{"|".join(others)}"' if length == of_new else f'event_type=~"{"|".join(same)}"'] = (
            length
        )
    return matchers


def maintenance(settings: Settings) -> Alert:
    """Return the alert, one for each VM in maintenance, with the labels by which other alerts know the VM."""
    recorded = f"last_over_time({VM_MAINTENANCE}[{settings.duration('memory')}])"
    rows = expression(f"""
        (
          {within_longest(settings)}
          or
          {_unless_known(_own(settings), recorded, settings)} * 0 + time()
        )
    """)
    return Alert(
        MAINTENANCE,
        "\nor\n".join(_written(rows, forms, settings) for forms in _alternatives(settings)),
        "info",
        "A VM is in maintenance by Azure.",
        "{{ $labels.vm_name }} has been in maintenance since "
        '{{ $value | humanizeTimestamp | reReplaceAll "(\\\\.[0-9]+)? \\\\+0000 UTC" "" }} UTC: '
        "an event of Azure is due, has started, or has just ended. Alerts about its absence can wait.",
        Dashboard.VM,
        labels=MappingProxyType({"component": "maintenance"}),
    )


def _alternatives(settings: Settings) -> list[dict[str, str]]:
    """Return the combinations of label forms. Each makes its own alert, because an alert has each label once."""
    forms: dict[str, list[str]] = {"instance": []}
    for item in settings.items("maintenance.equal"):
        label, _, form = item.partition("=")
        forms.setdefault(label, []).append(form or ("host" if label == "instance" else label))
    forms["instance"] = forms["instance"] or ["host"]
    most = max(len(each) for each in forms.values())
    return [{label: each[min(number, len(each) - 1)] for label, each in forms.items()} for number in range(most)]


def _written(rows: str, forms: dict[str, str], settings: Settings) -> str:
    """Return ``rows``, one per VM, with labels written as ``forms`` say.

    Two rows may differ in a label that is then written alike, such as the port of ``instance`` after a restart on
    another port. Labels are therefore written under other names first, and rows are aggregated before they are renamed:
    PromQL refuses a vector with two equal rows.
    """
    text = f"\n{rows}\n"
    for label, form in forms.items():
        source = EQUAL_SOURCE.match(form)
        name, suffix = (source[0], form[source.end() :]) if source else (form, "")
        label_of, value = ("instance", "(.+?)(?::[0-9]+)?") if name == "host" else (name, "(.+)")
        if label_of != label:  # what remains if the VM has no such label
            text = f'label_replace({text}, "written_{label}", "$1", "{label}", "(.+)")'
        text = f'label_replace({text}, "written_{label}", "${{1}}{suffix}", "{label_of}", "{value}")'
    unchanged = [label for label in ("instance", *_labels(settings).split(", ")) if label not in forms]
    text = f"max by ({', '.join([*unchanged, *(f'written_{label}' for label in forms)])}) ({text})"
    for label in forms:
        text = f'label_replace({text}, "{label}", "$1", "written_{label}", "(.+)")'
    return f"max by ({', '.join([*unchanged, *forms])}) ({text})"
