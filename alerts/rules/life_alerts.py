"""Alerts about how an event goes: announced far ahead or with short notice, Started too long, overdue, not approved.

The alerts in :data:`BESIDE` are delivered beside the page of their event. ShortNotice is inhibited by it.
"""

from types import MappingProxyType

from azure_scheduled_events_exporter.core.event_types import EVENT_FACTS
from azure_scheduled_events_exporter.times import format_duration

from ..settings import Settings
from .event_alerts import carrying, far
from .event_sets import current, outlasting_alerts, over
from .fragments import at_least_two_scrapes, seen_lately
from .rule import PREFIX, VMS, Alert, Dashboard, Group, Recording, expression
from .series import APPROVAL_DUE, APPROVED, EVENT, EVENT_APPROVED, FIRST_SEEN, INFO, NOT_BEFORE, NOTICE, SHOWN, UP

_EVENT = "Event {{ $labels.event_id }}."
_THE = "The {{ $labels.event_type }} of"
_SCHEDULED = MappingProxyType({"event_status": "Scheduled"})
_STARTED = MappingProxyType({"event_status": "Started"})
_EVERY = 'event_id!=""'

BESIDE = tuple(f"{PREFIX}{name}" for name in ("Overdue", "StartedTooLong", "NotApproved", "VmNotBack", "DegradedHost"))
"""Alerts that are delivered although the same event has a critical alert. DegradedHost ends as that one begins."""


def life_groups(settings: Settings) -> tuple[Group, Group]:
    """Return two groups: what is unusual about an event, and which events or approvals are late."""
    lives: tuple[Recording | Alert, ...] = (
        _notice(settings),
        *(carrying(each(settings), settings) for each in (_degraded_host, _short_notice, _started_too_long)),
    )
    late = tuple(carrying(each(settings), settings) for each in (_overdue, _not_approved))
    interval = settings.duration("evaluation.watcher-interval")
    return Group("azure-scheduled-events-lives", interval, lives), Group("azure-scheduled-events-late", interval, late)


def _alert(
    name: str, text: str, severity: str, summary: str, description: str, *, status: str, holds: str = ""
) -> Alert:
    labels = _STARTED if status == "Started" else _SCHEDULED
    about = f"{description} {_EVENT}"
    return Alert(f"{PREFIX}{name}", text, severity, summary, about, Dashboard.VM, holds, labels)


def _notice(settings: Settings) -> Recording:
    """Compare with the first NotBefore only, soon after the first sight: a later one was rescheduled."""
    intervals = settings.seconds("scrape.interval") + settings.seconds("evaluation.watcher-interval")
    soon = max(60.0, 1.5 * intervals)
    ago = format_duration(soon)
    return Recording(
        NOTICE,
        expression(f"""
            last_over_time({NOTICE}[{settings.duration("memory")}]) and on (event_id) {SHOWN}
            or on (event_id)
            round(
              max by (event_id, event_type) ({NOT_BEFORE}{{scope="self"}})
              - on (event_id, event_type)
              min by (event_id, event_type) (
                {FIRST_SEEN}{{scope="self"}} and abs(time() - {FIRST_SEEN}{{scope="self"}}) < {soon:g}
                and on (job, instance) {UP} offset {ago} == 1
              )
              unless on (event_id) {SHOWN} offset {ago}
            )
        """),
        "time from the first sight to NotBefore, if the event's own VM was watching when the event appeared",
    )


def _short_notice(settings: Settings) -> Alert:
    bounds = (
        f'{NOTICE}{{event_type="{name}"}} < {settings.number(f"notice.{name.lower()}")}'
        for name, facts in EVENT_FACTS.items()
        if facts.documented_notice is not None
    )
    return _alert(
        "ShortNotice",
        "\nor\n".join(bounds),
        settings.text("short-notice.severity"),
        "An event was announced with less notice than documented.",
        f"{_THE} {VMS} was announced only {{{{ $value | humanizeDuration }}}} before its NotBefore.",
        status="Scheduled",
    )


def _degraded_host(settings: Settings) -> Alert:
    return _alert(
        "DegradedHost",
        f"round({far(_EVERY, settings)}\nand on (event_id) {current(_EVERY, settings)})",
        "warning",
        "A VM is on a host that is predicted to fail.",
        f"{_THE} {VMS} is {{{{ $value | humanizeDuration }}}} ahead: the host is predicted to fail, and may fail "
        "sooner. Redeploy the VM at a time that suits you.",
        status="Scheduled",
    )


def _overdue(settings: Settings) -> Alert:
    """Only an exporter that reaches IMDS can show that an event has not started. It may restart meanwhile."""
    late = at_least_two_scrapes("overdue.after", settings)
    return _alert(
        "Overdue",
        expression(f"""
            min by (event_id, event_type) {seen_lately(NOT_BEFORE, settings, late)}
            < time() - {late:.15g}
            unless on (event_id) {INFO}{{event_status="Started"}}
            unless on (event_id) last_over_time({SHOWN}{{event_status="Started"}}[{settings.duration("memory")}])
            unless on (event_id) {over(settings)}
        """),
        "warning",
        "An event should have started long ago and is still scheduled.",
        f"{_THE} {VMS} is still Scheduled, more than {format_duration(late)} after its NotBefore. "
        "It may start at any moment.",
        status="Scheduled",
    )


def _not_approved(settings: Settings) -> Alert:
    late = at_least_two_scrapes("not-approved.after", settings)
    return _alert(
        "NotApproved",
        expression(f"""
            min by (event_id, event_type) {seen_lately(APPROVAL_DUE, settings, late)}
            < time() - {late:.15g}
            unless on (event_id) {APPROVED} == 1
            unless on (event_id) last_over_time({EVENT_APPROVED}[{settings.duration("memory")}]) == 1
            unless on (event_id) {INFO}{{event_status="Started"}}
            unless on (event_id) last_over_time({SHOWN}{{event_status="Started"}}[{settings.duration("memory")}])
            unless on (event_id) {over(settings)}
        """),
        "warning",
        "An approval by the policy is overdue: the event has not been approved.",
        f"{_THE} {VMS} should have been approved at "
        '{{ $value | humanizeTimestamp | reReplaceAll " \\\\+0000 UTC" "" }} UTC by the policy of its exporter. '
        "Without an approval it starts at its NotBefore or later.",
        status="Scheduled",
    )


def _started_too_long(settings: Settings) -> Alert:
    limit = settings.duration("started.limit")
    return _alert(
        "StartedTooLong",
        expression(f"""
            group by (event_id, event_type) ({EVENT})
            and on (event_id)
            last_over_time({SHOWN}{{event_status="Started"}}[{outlasting_alerts(settings)}])
        """),
        "warning",
        "An event started long ago and has not ended.",
        f"{_THE} {VMS} has been Started for more than {limit}: the VM may be stuck, or a second impact may follow.",
        status="Started",
        holds=limit,
    )
