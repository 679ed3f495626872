"""One alert per event, and no second one for the same event.

Each fires straight from what exporters show, in one evaluation. It stays while the event is remembered
(``event_recordings``). Its labels are the event's id and type only, since everything else may change.
"""

from dataclasses import replace
from types import MappingProxyType

from azure_scheduled_events_exporter.core.event_types import EventType

from ..settings import Settings
from .event_sets import announced, as_long_as_alerts, current, current_of_platform, current_requested, not_before
from .fragments import lately, slow_interval, with_kept_labels
from .rule import IMPACT, PREFIX, TIME, VMS, Alert, Dashboard, Group, expression
from .series import DURATION, LENGTH

_EVENT = "Event {{ $labels.event_id }}."
_WITHOUT_NOTICE = f'event_type=~"{"|".join(each for each in EventType if each.facts.restarts)}"'
_UNKNOWN = f'event_type!~"{"|".join(EventType)}"'


def event_groups(settings: Settings) -> tuple[Group, ...]:
    """Return the groups of the events themselves: one for each type, so that no page waits for those of other types."""
    fast, slow = settings.duration("evaluation.interval"), slow_interval(settings)
    freeze, short = _freezes(settings)
    groups = {
        **{
            each.lower(): (fast, _only(each), _of_type(each, settings))
            for each in reversed(EventType)
            if each is not EventType.FREEZE
        },
        "freeze": (fast, _only(EventType.FREEZE), (freeze,)),
        "short-freeze": (slow, _only(EventType.FREEZE), (short,)),
        "without-notice": (fast, _WITHOUT_NOTICE, (_without_notice(settings),)),
        "unknown-type": (fast, _UNKNOWN, (_unknown_type(settings),)),
    }
    return tuple(
        Group(
            f"azure-scheduled-events-{name}",
            interval,
            tuple(_by_priority(carrying(each, settings, matcher), settings) for each in some),
        )
        for name, (interval, matcher, some) in groups.items()
    )


def carrying(alert: Alert, settings: Settings, event_type: str = "") -> Alert:
    """Return ``alert`` with the labels that alerts take over from targets. Its expression has one row for each event.

    ``event_type``: a label matcher for its events; "" for all.
    """
    return replace(alert, expression=with_kept_labels(alert.expression, settings, event_type))


def _only(event_type: EventType) -> str:
    return f'event_type="{event_type}"'


def _of_type(event_type: EventType, settings: Settings) -> tuple[Alert, ...]:
    if event_type.facts.has_requested_alert:
        return _by_source(event_type, settings)
    return (_whatever_source(event_type, settings),)


def _by_priority(alert: Alert, settings: Settings) -> Alert:
    """Return ``alert`` with the severity that Spot VMs have; what is only shown stays so."""
    severity = settings.text("spot.severity")
    return alert if severity == "by-type" or alert.severity == "info" else replace(alert, spot_severity=severity)


def _lines(*parts: str) -> str:
    return "\n".join(parts)


def far(event_type: str, settings: Settings) -> str:
    """Return the events so far ahead that they mean a degraded host, which has an alert of its own."""
    return f"{not_before(event_type, settings)} - time() > {settings.number('degraded-host.notice')}"


def _soon(events: str, event_type: str, settings: Settings) -> str:
    return _lines(events, "unless on (event_id)", far(event_type, settings))


def _alert(event_type: EventType, text: str, severity: str, summary: str, cause: str = "") -> Alert:
    name = f"{PREFIX}{event_type}{'Requested' if cause else ''}"
    description = f"{VMS} will be {event_type.facts.participle}{cause}. {TIME} {event_type.facts.loss} {_EVENT}"
    return Alert(name, text, severity, summary, description, Dashboard.VM)


def _whatever_source(event_type: EventType, settings: Settings) -> Alert:
    """Return the alert of a type without rules of its own: a type that is added to the table has this one."""
    matcher = _only(event_type)
    text = _soon(current(matcher, settings), matcher, settings)
    summary = (
        "Azure evicts a Spot VM." if event_type is EventType.PREEMPT else f"A VM is {event_type.facts.participle}."
    )
    return _alert(event_type, text, settings.text(f"{event_type.lower()}.severity"), summary)


_SUMMARIES = {
    EventType.TERMINATE: ("A VM will be deleted.", "A user deletes a VM."),
    EventType.REDEPLOY: ("Azure moves a VM to another host.", "A user moves a VM to another host."),
    EventType.REBOOT: ("Azure reboots a VM.", "A user reboots a VM."),
}


def _by_source(event_type: EventType, settings: Settings) -> tuple[Alert, Alert]:
    """Events by Azure itself are critical. Events that a user requested are not, because that user already knows."""
    matcher = _only(event_type)
    platform = _soon(current_of_platform(matcher, settings), matcher, settings)
    if event_type.facts.restarts:  # WithoutNotice has the others, so that one event is one page
        platform = _lines(platform, "and on (event_id)", announced(matcher, settings))
    summary, summary_requested = _SUMMARIES[event_type]
    severity = settings.text(f"{event_type.lower()}.severity")
    user = _soon(current_requested(matcher, settings), matcher, settings)
    return (
        _alert(event_type, platform, severity, summary),
        _alert(event_type, user, settings.text("requested.severity"), summary_requested, ", as a user requested"),
    )


def _freezes(settings: Settings) -> tuple[Alert, Alert]:
    matcher = _only(EventType.FREEZE)
    freeze = _soon(current(matcher, settings), matcher, settings)
    short = expression(f"""
        (
          max by (event_id) ({lately(f"{DURATION}{{{matcher}}}", settings)})
          or on (event_id)
          max by (event_id) (last_over_time({LENGTH}{{{matcher}}}[{as_long_as_alerts(settings)}]))
        ) < {settings.number("freeze.short")}
    """)
    kept = EventType.FREEZE.facts.loss
    return (
        _alert(
            EventType.FREEZE,
            _lines(freeze, "unless on (event_id)", short),
            settings.text("freeze.severity"),
            "Azure pauses a VM.",
        ),
        Alert(
            f"{PREFIX}ShortFreeze",
            _lines(freeze, "and on (event_id)", short),
            "info",
            "Azure pauses a VM for a few seconds, or not at all.",
            f"{VMS} will be paused for less than {settings.duration('freeze.short')}. {TIME} {IMPACT}{kept} {_EVENT}",
            Dashboard.VM,
        ),
    )


def _without_notice(settings: Settings) -> Alert:
    return Alert(
        f"{PREFIX}WithoutNotice",
        _lines(
            current_of_platform(_WITHOUT_NOTICE, settings, 'event_status="Started"'),
            "unless on (event_id)",
            announced(_WITHOUT_NOTICE, settings),
        ),
        "critical",
        "A VM went down without notice, as it does when its host fails.",
        f"A {{{{ $labels.event_type }}}} of {VMS} had already started when it was first reported: "
        "Azure gave no notice. "
        f"Memory is lost. After a Redeploy, ephemeral disks are lost too. {_EVENT}",
        Dashboard.VM,
        labels=MappingProxyType({"event_status": "Started"}),
    )


def _unknown_type(settings: Settings) -> Alert:
    return Alert(
        f"{PREFIX}UnknownType",
        _soon(current(_UNKNOWN, settings), _UNKNOWN, settings),
        "warning",
        "Azure announces an event of a type that these rules do not know.",
        f"{VMS}: Azure announces a {{{{ $labels.event_type }}}}. {TIME} What it does is not known. {_EVENT}",
        Dashboard.VM,
    )
