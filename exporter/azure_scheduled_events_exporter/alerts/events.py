"""The alerts of events: one for each kind of event, and for each type where types differ.

The exporter decides of which kind an event is (``core.kinds``), and when a document last showed it.
Rules compare these times: the newest statement counts, whoever made it. An event has one kind, so
it has one alert at most. The rules and the alerts that exporters push are the same. Knows what
``event_recordings`` records of an event, but not how that follows from what exporters show.
"""

from collections.abc import Mapping

from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.core.lifecycle import Kind
from azure_scheduled_events_exporter.times import format_duration

from .rule import PREFIX, Alert, Events, promql
from .series import EVENT_IMPACT, OUTDATED, RECORDED_END, RECORDED_IMPACT, RECORDED_SEEN
from .settings import Settings

_MINUTE = 60
HOLDS: Mapping[str, int] = {
    EventType.FREEZE: 15 * _MINUTE,
    EventType.REBOOT: 30 * _MINUTE,
    EventType.REDEPLOY: 60 * _MINUTE,
    EventType.PREEMPT: 10 * _MINUTE,
    EventType.TERMINATE: 10 * _MINUTE,
}
"""How long an alert is held after its event was last seen, in seconds, by type.

The VMs that show the event may be away with it.
"""
OTHER_HOLD = 30 * _MINUTE
"""The hold of what a user requests, and of types that are in no table."""
NO_IMPACT_HOLD = 5 * _MINUTE
"""The hold of kinds during which no VM goes away: an exporter may take so long to restart."""
_RESTARTS = "a VM may take so long to restart"
HOLD_REASONS: Mapping[int, str] = {
    HOLDS[EventType.FREEZE]: "a live migration may take so long",
    HOLDS[EventType.REBOOT]: _RESTARTS,
    OTHER_HOLD: _RESTARTS,
    HOLDS[EventType.REDEPLOY]: "a VM may take so long to start on another host",
    HOLDS[EventType.PREEMPT]: "Azure may take so long to delete a VM",
    NO_IMPACT_HOLD: "an exporter may take so long to restart",
}
"""Why a hold is as long as it is, by its seconds."""
RESOLVE_AFTER = 3 * _MINUTE
"""How long an alert lasts after the end of its event, in seconds.

A resolve is never urgent, and a document that misses the event for two minutes ends no page.
"""
_NOT_BEFORE = "The event does not begin before that time, unless somebody approves it."
_DRAIN = "Drain each VM that the event names"
_COPY = "copy what you need from its ephemeral disks"
_APPROVE = (
    "To begin at once, approve the event (the runbook has the command). It then begins for all of"
    " its VMs, so wait until all are drained."
)
_ANNOUNCED: Mapping[EventType, tuple[str, str]] = {
    EventType.TERMINATE: (
        "Azure deletes {vms} {when}.",
        (
            f"{_DRAIN}, and save now whatever exists only on it. Nothing stops the deletion. The"
            " activity log of the resource group says who asked for the deletion, or reduced the"
            " scale set."
        ),
    ),
    EventType.PREEMPT: (
        "Azure evicts {vms} {when}.",
        (
            "There is usually no time to drain the VM by hand. Check that its scale set, if it has"
            " one, gets a replacement."
        ),
    ),
    EventType.REDEPLOY: (
        "Azure moves {vms} to another host {when}.",
        f"{_DRAIN}, and {_COPY}, before the event begins. {_APPROVE}",
    ),
    EventType.REBOOT: (
        "Azure reboots {vms} {when}.",
        f"{_DRAIN}, before the event begins. {_APPROVE}",
    ),
    EventType.FREEZE: (
        "Azure pauses {vms} {when}.",
        (
            "For the announced length of the pause, see the dashboard. Move leaders and primaries"
            " away before the event begins, if they do not survive a pause."
        ),
    ),
}
"""The summary and the advice by type."""


def event_alerts(settings: Settings) -> tuple[Alert, ...]:
    """Return the alerting rules, which exporters push too.

    An event has the kind and type of one of them at most.
    """
    kept = settings.items("labels.keep")
    # The types with the worst loss, which are the last ones of EventType, come first. A type that
    # is missing in HOLDS or _ANNOUNCED is an error.
    announced = [_announced(each, kept) for each in reversed(EventType)]
    return (
        *announced,
        _without_notice(kept),
        _requested(kept),
        _unknown_type(kept),
        _degraded_host(kept),
        _eviction_risk(kept),
    )


def _announced(event_type: EventType, kept: tuple[str, ...]) -> Alert:
    summary, advice = _ANNOUNCED[event_type]
    facts = event_type.facts
    events = Events(Kind.ANNOUNCED, HOLDS[event_type], types=(event_type,))
    return Alert(
        name=f"{PREFIX}{event_type}",
        expression=_expression(events, kept),
        severity=facts.severity,
        meaning=f"Azure has announced that a VM will be {facts.participle}.",
        summary=summary,
        description=f"{facts.loss} {_NOT_BEFORE}",
        advice=advice,
        dashboard="event",
        ends=_ends(events),
        events=events,
    )


def _without_notice(kept: tuple[str, ...]) -> Alert:
    hold = max(HOLDS[EventType.REBOOT], HOLDS[EventType.REDEPLOY])
    events = Events(Kind.WITHOUT_NOTICE, hold)  # only a Reboot or a Redeploy has this kind
    return Alert(
        name=f"{PREFIX}WithoutNotice",
        expression=_expression(events, kept),
        severity="critical",
        meaning=(
            "A Reboot or Redeploy had already started when it was first seen, and was not approved"
            " on this VM."
        ),
        summary="Down without notice: {vms} {when}.",
        description=(
            "Azure did not announce this {event_type}. That happens when a host fails. Memory is"
            " lost, and ephemeral disks (temporary and local) may be lost, too. Other disks are"
            " kept."
        ),
        advice=(
            "Check that other VMs took over the work. Wait for the VM: if it is not back after 15"
            " minutes, the alert AzureScheduledEventVmNotBack follows."
        ),
        dashboard="event",
        ends=(
            f"{_ends(events)} It also resolves when another exporter shows that the event was"
            " announced: the alert of that event's type tells of it."
        ),
        events=events,
    )


def _requested(kept: tuple[str, ...]) -> Alert:
    events = Events(Kind.REQUESTED, OTHER_HOLD)
    return Alert(
        name=f"{PREFIX}Requested",
        expression=_expression(events, kept),
        severity="warning",
        meaning="A user requested an event, such as a restart in the portal or a scale-in.",
        summary="User-requested {event_type}: {vms} {when}.",
        description="{loss}",
        advice=(
            "If there is still time, drain each VM that the event names, unless that is done. If"
            " you do not know of the request, look in the activity log of the resource group for"
            " who made it."
        ),
        dashboard="event",
        ends=_ends(events),
        events=events,
    )


def _unknown_type(kept: tuple[str, ...]) -> Alert:
    events = Events(Kind.UNKNOWN_TYPE, OTHER_HOLD)
    return Alert(
        name=f"{PREFIX}UnknownType",
        expression=_expression(events, kept),
        severity="warning",
        meaning=(
            "An event that is less than 24 hours ahead has a type that this version does not know."
        ),
        summary="Unknown event type {event_type}: {vms} {when}.",
        description=(
            "This version of the exporter does not know what such an event does. Expect to lose"
            " memory and ephemeral disks (temporary and local), as in a Redeploy."
        ),
        advice=f"{_DRAIN}, and {_COPY}, before the event begins.",
        dashboard="event",
        ends=_ends(events),
        events=events,
    )


def _degraded_host(kept: tuple[str, ...]) -> Alert:
    # A deletion that is announced so early says nothing about the host. Its alert, Terminate,
    # follows when it is less than 24 hours ahead.
    events = Events(Kind.FAR_AHEAD, NO_IMPACT_HOLD, excluded=EventType.TERMINATE)
    return Alert(
        name=f"{PREFIX}DegradedHost",
        expression=_expression(events, kept),
        severity="warning",
        meaning=(
            "An event other than a Terminate is more than 24 hours ahead. Azure announces events"
            " this early when it expects the host to fail."
        ),
        summary="Azure plans a {event_type} of {vms} {when}.",
        description=(
            "{loss} Azure announces an event this early when it expects the host to fail. If the"
            " host fails sooner, the VM goes down without notice."
        ),
        advice=(
            "If it is a Freeze, be ready for a pause of seconds. Otherwise, drain each VM that the"
            " event names, and copy what you need from its ephemeral disks. Then redeploy it, as"
            " Microsoft recommends: that moves it to a healthy host at once. Do this within a day;"
            " it need not be at night."
        ),
        # The notification has the advice for the type of the event, in place of all of `advice`.
        advice_placeholder="{ahead}",
        dashboard="event",
        ends=(
            "The alert resolves when the event is less than 24 hours ahead: then the alert of its"
            f" type, if any, takes over. It also resolves {RESOLVE_AFTER // _MINUTE} minutes after"
            " an exporter has seen the end of the event, or"
            f" {events.hold // _MINUTE} minutes after one last saw it. It stays while an exporter"
            " without IMDS shows it."
        ),
        events=events,
    )


def _eviction_risk(kept: tuple[str, ...]) -> Alert:
    events = Events(Kind.ADVISORY, NO_IMPACT_HOLD)
    return Alert(
        name=f"{PREFIX}EvictionRisk",
        expression=_expression(events, kept),
        severity="info",
        meaning="Azure advises that a Spot VM may be evicted.",
        summary="Azure may soon evict {vms}.",
        description=(
            "Nothing is scheduled yet, so the time is unknown. An eviction deletes or deallocates"
            " the VM: memory and ephemeral disks (temporary and local) are lost. An eviction comes"
            " with 30 seconds' notice or less."
        ),
        advice="Move the work to another VM now, if you can.",
        dashboard="event",
        ends=_ends(events),
        events=events,
    )


def _ends(events: Events) -> str:
    """Return the sentences that say when the alert of ``events`` ends."""
    what = "event"
    if events.kind is Kind.ADVISORY:
        what = "warning"
    return (
        f"The alert resolves {RESOLVE_AFTER // _MINUTE} minutes after an exporter has seen the end"
        f" of the {what}; if none sees it, {events.hold // _MINUTE} minutes after one last saw the"
        f" {what}, because {HOLD_REASONS[events.hold]}. It stays while an exporter without IMDS"
        f" shows the {what}."
    )


def _expression(events: Events, kept: tuple[str, ...]) -> str:
    """Return the PromQL of an alert: shown or held, until ended.

    Its value is the time of the impact, or 0 if that is unknown. The event is *shown* if one of its
    own VMs has exported it in the last minute, or any exporter does now. What own VMs export is
    read as scraped, so that no page waits for a recording. What any exporter shows is read as
    recorded, so that an event that 10,000 VMs show is read once. The event is *held* for
    ``events.hold`` seconds after the newest time at which it was seen, which is the value of
    ``RECORDED_SEEN``.

    Two recordings remove the alert: of a kind or type that the event had before, and of its end.
    """
    by = ", ".join(("event_id", "event_type", *kept))
    hold = format_duration(events.hold)
    of_kind = _matcher(events)
    of_own = _matcher(events, 'scope="self"')
    shown_by_own = f"last_over_time({EVENT_IMPACT}{of_own}[1m])"
    shown_by_any = f"{RECORDED_SEEN}{of_kind}"
    held = f"(max_over_time({shown_by_any}[{hold}]) > time() - {events.hold})"
    expression = promql(f"""
        max by ({by}) (
          (
            {shown_by_own}
            or (
              last_over_time({RECORDED_IMPACT}{of_kind}[{hold}]) and on (event_id, kind)
              ({shown_by_any} or {held})
            )
          )
          unless on (event_id, event_type, kind) {OUTDATED}
        )
        unless on (event_id) ({RECORDED_END} < time() - {RESOLVE_AFTER})
    """)
    if events.kind is Kind.WITHOUT_NOTICE:
        # An exporter that starts during an event has not seen the announcement. If another one has,
        # the event had a notice, and its alert is that of the kind announced.
        announced = f'{RECORDED_SEEN}{{kind="{Kind.ANNOUNCED}"}}'
        expression += f"\nunless on (event_id) last_over_time({announced}[1h])"
    return expression


def _matcher(events: Events, scope: str = "") -> str:
    """Return the matchers, in braces, of the kind and types of ``events``; then ``scope``.

    ``scope`` is a matcher, or ``""`` for events of every scope.
    """
    parts = []
    if events.types:
        sign = "=" if len(events.types) == 1 else "=~"
        parts.append(f'event_type{sign}"{"|".join(events.types)}"')
    if events.excluded:
        parts.append(f'event_type!="{events.excluded}"')
    parts.append(f'kind="{events.kind}"')
    if scope:
        parts.append(scope)
    return "{" + ",".join(parts) + "}"
