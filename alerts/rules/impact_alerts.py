"""How much of a scale set or a zone events hit at the same time. VMs are counted, not scrape targets."""

from azure_scheduled_events_exporter.core.event_types import EventType

from ..settings import Settings
from .event_sets import not_before, outlasting_alerts, over, requested, source_may_come
from .fragments import (
    answering,
    confirmed,
    identified,
    kept,
    left_resources,
    since_recorded,
    slow_interval,
    with_computer_name,
    with_imds,
)
from .rule import PREFIX, Alert, Dashboard, Group, Recording, expression
from .series import (
    DELETING,
    EVENT,
    INFO,
    INSTANCE,
    OVER,
    SCALE_SET,
    SCALE_SET_LABELS,
    SCALE_SET_VMS,
    UP,
    VM,
    VM_EVENT,
    VM_EVENT_OVER,
    VM_HIT,
    VM_TARGET,
    ZONE,
    ZONE_LABELS,
    ZONE_VMS,
)

_TARGET = "job, instance, subscription_id, resource_group, vm_name, vm_id, computer_name, node"
_SEVERE = 'event_type!="Freeze"'
_REQUESTABLE = f'event_type!~"{EventType.FREEZE}|{EventType.PREEMPT}"'
_OWN = 'scope="self"'
_OWN_EVENTS = with_imds(f"{INFO}{{{_OWN},{_SEVERE}}}")
_UNLESS_NOT_HIT = answering(f"({UP} == 0 or {INFO}{{{_OWN},{_SEVERE}}})")
"""Removes from a set the VMs whose own exporter has IMDS access and shows no event of its VM.

IMDS access is read from the scraped series: the recording of it may date from before the exporter came back.
"""


def impact_groups(settings: Settings) -> tuple[Group, ...]:
    """Return the groups of places: their sizes, which change slowly, and how much of scale sets and zones is hit."""
    hit = Recording(
        VM_HIT, _hit_before(settings), "1 for each VM that events hit, also while its exporter does not answer"
    )
    slow, slowest = slow_interval(settings), settings.duration("evaluation.watcher-interval")
    return (
        Group("azure-scheduled-events-targets", slowest, (_known_targets(settings),)),
        *(Group(f"azure-scheduled-events-{name}", slowest, rules) for name, rules in _places(settings).items()),
        Group("azure-scheduled-events-vms-hit", slow, (hit,)),
        Group("azure-scheduled-events-impact", slow, (_scale_set_hit(settings),)),
        Group("azure-scheduled-events-zones", slow, (_zone_hit(settings),)),
    )


def _places(settings: Settings) -> dict[str, tuple[Recording, ...]]:
    """Return the recordings of scale sets and of zones by the name of their group."""
    rules = {
        "scale-set-sizes": (
            _size(SCALE_SET_VMS, SCALE_SET, "scale set", settings),
            _labels(SCALE_SET_LABELS, SCALE_SET, "scale set", settings),
        ),
        "zone-sizes": (
            _size(ZONE_VMS, ZONE, "zone", settings),
            _labels(ZONE_LABELS, ZONE, "zone", settings),
        ),
    }
    return {name: (size, labels) if kept(settings) else (size,) for name, (size, labels) in rules.items()}


def _known_targets(settings: Settings) -> Recording:
    targets = "".join(f", {label}" for label in kept(settings, *_TARGET.split(", ")))
    return Recording(
        VM_TARGET,
        expression(f"""
            group by ({_TARGET}{targets}) (
              {identified()}
              * on (job, instance) group_left (computer_name)
              {with_computer_name(INSTANCE)}
            ) * time()
        """),
        "when each target of a VM last answered, so that the labels of the newest one are known while it is away",
    )


def _labels(name: str, place: str, what: str, settings: Settings) -> Recording:
    """Return the labels of a place: each only if all of its VMs that have an exporter share the value.

    VMs count that events have taken away: others would seem to agree without them.
    """
    away = f"last_over_time({VM_EVENT}[{outlasting_alerts(settings)}])"
    text = every = f"group by ({place}) ({identified()})"
    for label in kept(settings, *place.split(", ")):
        values = f"group by ({place}, {label}) ({INSTANCE} or {away})"
        text = expression(f"""
            {text}
            * on ({place}) group_left ({label})
            (
              {values} and on ({place}) (count by ({place}) ({values}) == 1)
              or on ({place})
              {every}
            )
        """)
    return Recording(name, f"({text}) * time()", f"when all VMs of a {what} last agreed on these labels of targets")


def _size(name: str, place: str, what: str, settings: Settings) -> Recording:
    """A VM that Azure has evicted or deleted counts until it has left the targets: another one may replace it."""
    gone = f'last_over_time({VM_EVENT}{{event_type=~"{DELETING}"}}[{settings.duration("memory")}])'
    away = expression(f"""
        last_over_time({VM_EVENT}{{event_type!~"{DELETING}"}}[{settings.duration("longest")}])
        or
        ({gone} and on (job, instance) up)
    """)
    return Recording(
        name,
        expression(f"""
            count by ({place}) (
              group by (vm_id, {place}) ({identified()})
              or
              group by (vm_id, {place}) ({away})
            )
        """),
        f"the VMs of a {what}: those with an exporter that answers, and those that an event has taken away",
    )


def _not_counted(settings: Settings, scope: str = "") -> str:
    """Return the events that ScaleSetHit and ZoneHit ignore: requested ones, and those with a NotBefore far ahead.

    ``scope``: a label matcher for the scraped NotBefore. The fewer series it selects, the less the rule costs.
    """
    return expression(f"""
        (
          {requested(_SEVERE, settings)}
          or on (event_id)
          {not_before(_SEVERE, settings, scope)} > time() + {settings.number("hit.together")}
        )
    """)


def _hit_now(settings: Settings) -> str:
    """Return the VMs whose own exporter has IMDS access and shows that an event hits the VM.

    As in ``_UNLESS_NOT_HIT``, access is read from the scraped series.
    """
    return expression(f"""
        {identified(f"and on (job, instance) {_OWN_EVENTS}")}
        and on (job, instance)
        (
          {_OWN_EVENTS}
          unless on (job, instance) {UP} == 0
          unless on (event_id) {OVER}
          unless on (event_id) {_not_counted(settings, _OWN)}
          unless on (event_id) {source_may_come(_REQUESTABLE, settings)}
        )
    """)


def _hit_before(settings: Settings) -> str:
    """Return the VMs that an event hits, also those whose exporter does not answer or has no IMDS access.

    For the latter, the last report of their exporter counts until the event is over, or until an exporter shows that
    the VM has left Resources. VMs that still answer are recorded too, because an alert may be evaluated just before
    this recording, when they have gone down. They are read as scraped: an evicted VM may be gone before a recording
    of it could be read.
    """
    targets = identified(f"and on (job, instance) {_OWN_EVENTS}")
    memory, longest, known = settings.duration("memory"), settings.duration("longest"), outlasting_alerts(settings)
    return expression(f"""
        group by (event_id, {VM}) (
          last_over_time({VM_EVENT}{{{_SEVERE}}}[{memory}]) > time() - {settings.number("memory")}
          or
          last_over_time({VM_EVENT}{{{_SEVERE},event_type!~"{DELETING}",event_status="Started"}}[{longest}])
          > time() - {settings.number("longest")}
          or
          max by (event_id, job, instance) ({_OWN_EVENTS})
          * on (job, instance) group_left ({VM})
          topk by (job, instance) (1, {targets})
        )
        {_UNLESS_NOT_HIT}
        unless on (event_id, vm_id)
        (
          max by (event_id, vm_id) (last_over_time({VM_EVENT_OVER}[{known}]))
          > on (event_id, vm_id)
          max by (event_id, vm_id) (last_over_time({VM_EVENT}[{known}]))
        )
        unless on (event_id, vm_name) {left_resources(known)}
        unless on (event_id) {over(settings)}
        unless on (event_id) {_not_counted(settings)}
    """)


def _with_labels(text: str, recorded: str, place: str, settings: Settings) -> str:
    """Return ``text``, one row per ``place``, with its labels as last ``recorded``: all of its VMs may have gone."""
    labels = ", ".join(kept(settings, *place.split(", ")))
    if not labels:
        return text
    known = outlasting_alerts(settings, settings.seconds("evaluation.watcher-interval"))
    return expression(f"""
        (
        {text}
        )
        * on ({place}) group_left ({labels})
        (
          group by ({place}, {labels}) (topk by ({place}) (1, last_over_time({recorded}[{known}])))
          or on ({place})
          group by ({place}) ({INSTANCE})
          or on ({place})
          group by ({place}) ({VM_HIT})
        )
    """)


def _hit(vms: str, place: str, known: str, settings: Settings) -> str:
    """A VM that does not answer counts while its event is current. So it does if the event is too new to be recorded.

    :func:`_hit_before` cannot check it: the chain of recordings would be too long. Nor does it know who requested an
    event if an exporter has shown that since.
    """
    shown = f"{INFO}{{{_OWN},{_SEVERE}}}"
    share, least = settings.number("hit.share"), settings.number("hit.least-vms")
    hit = expression(f"""
        count by ({place}) (
          group by (vm_id, {place}) ({_hit_now(settings)})
          or
          group by (vm_id, {place}) (
            {VM_HIT}{{{known}!=""}} {_UNLESS_NOT_HIT}
            unless on (event_id) {OVER}
            unless on (event_id) {source_may_come(_REQUESTABLE, settings)}
            unless on (event_id) {INFO}{{{_SEVERE},event_source="User"}}
            and on (event_id) ({since_recorded(EVENT, settings)} or on (event_id) {confirmed(shown, settings)})
          )
        )
    """)
    return expression(f"""
        (({hit}) >= {least})
        / on ({place})
        (
          max_over_time({vms}{{{known}!=""}}[{settings.duration("memory")}])
          or on ({place})
          count by ({place}) ({INSTANCE}{{{known}!=""}})
        )
        >= {share}
    """)


def _scale_set_hit(settings: Settings) -> Alert:
    return Alert(
        f"{PREFIX}ScaleSetHit",
        _with_labels(_hit(SCALE_SET_VMS, SCALE_SET, "scale_set", settings), SCALE_SET_LABELS, SCALE_SET, settings),
        "critical",
        "Events hit a large part of a scale set at the same time.",
        "Events that have started or are due hit {{ $value | humanizePercentage }} of the VMs of scale set "
        "{{ $labels.scale_set }}{{ with $labels.resource_group }} (resource group {{ . }}){{ end }}. "
        "Their capacity, memory and ephemeral disks may be lost at once.",
        Dashboard.FLEET,
    )


def _zone_hit(settings: Settings) -> Alert:
    return Alert(
        f"{PREFIX}ZoneHit",
        _with_labels(_hit(ZONE_VMS, ZONE, "zone", settings), ZONE_LABELS, ZONE, settings),
        "critical",
        "Events hit a large part of a zone at the same time.",
        "Events that have started or are due hit {{ $value | humanizePercentage }} of the VMs in zone "
        "{{ $labels.zone }} of {{ $labels.location }}. "
        "Their capacity, memory and ephemeral disks may be lost at once.",
        Dashboard.FLEET,
    )
