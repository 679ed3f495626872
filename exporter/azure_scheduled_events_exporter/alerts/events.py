"""The alerts of events: one for each kind of event, and for each type where types differ.

The exporter decides of which kind an event is (``core.kinds``), and when a document last showed it.
Rules compare these times: the newest statement counts, whoever made it. An event has one kind, so
it has one alert. The rules and the alerts that exporters push are the same.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.core.kinds import Kind
from azure_scheduled_events_exporter.times import format_duration

from .rule import PREFIX, TIME, Alert, Events, Recording, promql
from .series import (
    ENDED,
    EVENT_IMPACT,
    OUTDATED,
    RECORDED_END,
    RECORDED_IMPACT,
    RECORDED_SEEN,
    SEEN,
)
from .settings import Settings

MINUTE = 60
HOLDS: Mapping[str, int] = {
    EventType.FREEZE: 15 * MINUTE,
    EventType.REBOOT: 30 * MINUTE,
    EventType.REDEPLOY: 60 * MINUTE,
    EventType.PREEMPT: 10 * MINUTE,
    EventType.TERMINATE: 10 * MINUTE,
}
"""How long an alert is held after its event was last seen, by type.

The VMs that show the event may be away with it.
"""
OTHER_HOLD = 30 * MINUTE
"""The hold of what a user requests, and of types that are in no table."""
NO_IMPACT_HOLD = 5 * MINUTE
"""The hold of kinds during which no VM goes away: as long as an exporter takes to restart."""
RESOLVE_AFTER = 3 * MINUTE
"""How long an alert lasts after the end of its event.

A resolve is never urgent, and a document that misses the event for two minutes ends no page.
"""
_OUTDATED_AFTER = 60
"""Seconds after which another kind of the same event replaces one that nobody sees any more."""
_PEERS_WAIT = "15s"
"""How long peers must show an event before their labels count: three scrapes of its own VMs."""

_RESTARTS = tuple(str(each) for each in EventType if each.facts.restarts)


def _row(
    events: Events,
    name: str,
    severity: str,
    meaning: str,
    summary: str,
    description: str,
    advice: str,
    told: str = "",
) -> Alert:
    """Return a row of the table; its expression depends on settings."""
    what = "warning" if events.kind is Kind.ADVISORY else "event"
    reason = "" if events.hold == NO_IMPACT_HOLD else ", because its VMs may be away for so long"
    ends = (
        f"The alert resolves {RESOLVE_AFTER // MINUTE} minutes after an exporter has seen the end"
        f" of the {what}. If none sees it, the alert resolves {events.hold // MINUTE} minutes after"
        f" an exporter last saw the {what}{reason}."
    )
    return Alert(
        name=PREFIX + name,
        expression="",
        severity=severity,
        summary=summary,
        description=description,
        advice=advice,
        dashboard="event",
        meaning=meaning,
        ends=ends,
        events=events,
        told=told,
    )


_NOT_BEFORE = "The event does not begin before that time, unless somebody approves it."
_DRAIN = "Drain each VM that the event names"
_COPY = "copy what you need from its ephemeral disks"
_APPROVE = (
    "To begin at once, approve the event (the runbook has the command). It then begins for all of"
    " its VMs, so wait until all are drained."
)


_ANNOUNCED: Mapping[str, tuple[str, str]] = {
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
            "If there is still time, drain the VM. Afterwards, check that its scale set, if it has"
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
"""By type: the summary and the advice."""


def _announced(each: EventType) -> Alert:
    summary, advice = _ANNOUNCED[each]
    return _row(
        Events(Kind.ANNOUNCED, (each,), HOLDS[each]),
        each,
        each.facts.severity,
        f"Azure has announced that a VM will be {each.facts.participle}.",
        summary,
        f"{each.facts.loss} {_NOT_BEFORE}",
        advice,
    )


_EVENT_ALERTS = (
    *(_announced(each) for each in reversed(EventType)),
    _row(
        Events(Kind.WITHOUT_NOTICE, _RESTARTS, HOLDS[EventType.REDEPLOY]),
        "WithoutNotice",
        "critical",
        "A Reboot or Redeploy had already started when it was first seen.",
        "Down without notice: {vms} {when}.",
        "Azure did not announce this {event_type}. That happens when a host fails. Memory is lost,"
        " and ephemeral disks (temporary and local) may be lost, too. Other disks are kept.",
        "Check that other VMs took over the work. Wait for the VM: if it is not back after 15"
        " minutes, the alert AzureScheduledEventVmNotBack follows.",
    ),
    _row(
        Events(Kind.REQUESTED, (), OTHER_HOLD),
        "Requested",
        "warning",
        "A user requested an event, such as a restart in the portal or a scale-in.",
        "User-requested {event_type}: {vms} {when}.",
        "{loss}",
        "If there is still time, drain each VM that the event names, unless that is done. If you"
        " do not know of the request, look in the activity log of the resource group for who made"
        " it.",
    ),
    _row(
        Events(Kind.UNKNOWN_TYPE, (), OTHER_HOLD),
        "UnknownType",
        "warning",
        "An event that is less than 24 hours ahead has a type that this version does not know.",
        "Unknown event type {event_type}: {vms} {when}.",
        "This version of the exporter does not know what such an event does. Expect to lose memory"
        " and ephemeral disks (temporary and local), as in a Redeploy.",
        f"{_DRAIN}, and {_COPY}, before the event begins.",
    ),
    _row(
        Events(Kind.FAR_AHEAD, (), NO_IMPACT_HOLD, but=EventType.TERMINATE),
        "DegradedHost",
        "warning",
        "An event other than a Terminate is more than 24 hours ahead. Azure announces events this"
        " early when it expects the host to fail.",
        "Azure plans a {event_type} of {vms} {when}.",
        "{loss} Azure announces an event this early when it expects the host to fail. If the host"
        " fails sooner, the VM goes down without notice.",
        "If it is a Freeze, be ready for a pause of seconds. Otherwise, drain each VM that the"
        " event names, and copy what you need from its ephemeral disks. Then redeploy it, as"
        " Microsoft recommends: that moves it to a healthy host at once. Do this within a day; it"
        " need not be at night.",
        told="{ahead}",
    ),
    _row(
        Events(Kind.ADVISORY, (), NO_IMPACT_HOLD),
        "EvictionRisk",
        "info",
        "Azure advises that a Spot VM may be evicted.",
        "Azure may soon evict {vms}.",
        "Nothing is scheduled yet, so the time is unknown. An eviction deletes or deallocates the"
        " VM: memory and ephemeral disks (temporary and local) are lost. An eviction comes with"
        " 30 seconds' notice or less.",
        "Move the work to another VM now, if you can.",
    ),
)
"""The first row with the kind and type of an event is its alert."""


_LAST_SEEN = f"max_over_time({RECORDED_SEEN}[1h])"


def event_alerts(settings: Settings) -> Iterator[Alert]:
    """Yield the alerting rules, which exporters push too."""
    kept = settings.items("labels.keep")
    for each in _EVENT_ALERTS:
        if each.events:
            yield replace(each, expression=_expression(each.events, kept))


def event_recordings(settings: Settings) -> tuple[Recording, ...]:
    """Return the recordings that hold and end the alerts.

    They come before the alerts in the same group.
    """
    return (_seen(), _impact(settings.items("labels.keep")), _outdated(), _ended())


def _seen() -> Recording:
    return Recording(
        RECORDED_SEEN,
        expression=f"max by (event_id, event_type, kind) ({SEEN})",
        meaning="when an exporter last saw each event, by the clock of IMDS",
        rows="event and kind",
        value=TIME,
    )


def _impact(kept: tuple[str, ...]) -> Recording:
    return Recording(
        RECORDED_IMPACT,
        expression=_impacts(kept),
        meaning=(
            "when the impact of each event begins or began, preferably as exporters say that have"
            " just seen it; 0 if that is unknown"
        ),
        rows="event and kind",
        value=f"{TIME}, or 0",
        note=(
            "Line 1: exporters that saw the event within 60 s. Line 2, if there are none: all. Line"
            " 3: the 0 of an event without a known time. Both metrics carry the same labels, so no"
            " `on` is needed."
        ),
    )


def _impacts(kept: tuple[str, ...]) -> str:
    """Return the times of impacts, preferably as exporters say that see the event now.

    With kept labels, those of the event's own VMs count. Peers count only if no own VM shows the
    event, as of a few scrapes ago, so that own VMs come first.
    """
    if not kept:
        return promql(f"""
            max by (event_id, event_type, kind) ({EVENT_IMPACT} unless ({SEEN} < time() - 60))
            or max by (event_id, event_type, kind) ({EVENT_IMPACT})
            or max by (event_id, event_type, kind) ({SEEN}) * 0
        """)
    by = ", ".join(("event_id", "event_type", "kind", "scope", *kept))
    own = '{scope="self"}'
    peers = '{scope!="self"}'
    return promql(f"""
        max by ({by}) ({EVENT_IMPACT}{own} or {SEEN}{own} * 0)
        or (
          max by ({by}) (
            ({EVENT_IMPACT}{peers} or {SEEN}{peers} * 0) and {SEEN} offset {_PEERS_WAIT}
          )
          unless on (event_id) last_over_time({RECORDED_IMPACT}{own}[1h])
        )
    """)


def _outdated() -> Recording:
    # That an event came without notice is what an exporter says that saw no announcement: another
    # one may have seen it.
    told = f'max_over_time({RECORDED_SEEN}{{kind!="{Kind.WITHOUT_NOTICE}"}}[1h])'
    return Recording(
        OUTDATED,
        expression=promql(f"""
            {_LAST_SEEN}
            < on (event_id) group_left ()
            (max by (event_id) ({told}) - {_OUTDATED_AFTER})
        """),
        meaning=(
            f"kinds that an event had before: an exporter has seen another kind {_OUTDATED_AFTER} s"
            " after an exporter last saw this one"
        ),
        rows="event and kind",
        value=f"when this kind was last seen, {TIME}",
        note=(
            "A kind is compared with the newest kind of its event, not with the present: nothing is"
            " outdated because nobody sees it. The kind without_notice replaces no other kind: an"
            " exporter that starts during an event says it, while others saw the announcement."
        ),
    )


def _ended() -> Recording:
    remembered = f"last_over_time({RECORDED_END}[5m])"
    return Recording(
        RECORDED_END,
        expression=promql(f"""
            min by (event_id) (
              (
                {ENDED}
                or ({remembered} > time() - 3600)
                or ({remembered} and on (event_id) {RECORDED_SEEN})
              )
              >= on (event_id) group_left ()
              max by (event_id) ({_LAST_SEEN})
            )
        """),
        meaning=(
            "when an exporter first saw the end of an event that none has seen since; kept for 1h,"
            " or while an exporter without IMDS still shows the event"
        ),
        rows="event",
        value=TIME,
        note=(
            "Line 3: exporters show an end for 1h. Lines 4 and 5: an end that this rule recorded"
            " before, for 3600 s (1h) after the end, and for longer while anybody shows the event."
            " Lines 7 and 8: an end counts if it is not older than the newest sight of anybody."
        ),
    )


def _expression(events: Events, kept: tuple[str, ...]) -> str:
    """Return the PromQL of an alert: shown or held, until ended.

    Its value is the time of the impact.

    What the event's own VMs show is read as scraped, so that no page waits for a recording. What
    peers show is read as recorded, since the same event from 10,000 VMs is read once.
    """
    by = ", ".join(("event_id", "event_type", *kept))
    held = format_duration(events.hold)
    of_kind = _matcher(events)
    of_own = _matcher(events, 'scope="self"')
    seen = RECORDED_SEEN + of_kind
    expression = promql(f"""
        max by ({by}) (
          (
            last_over_time({EVENT_IMPACT}{of_own}[1m])
            or (
              last_over_time({RECORDED_IMPACT}{of_kind}[{held}]) and on (event_id, kind)
              ({seen} or (max_over_time({seen}[{held}]) > time() - {events.hold}))
            )
          )
          unless on (event_id, kind) {OUTDATED}
        )
        unless on (event_id) ({RECORDED_END} < time() - {RESOLVE_AFTER})
    """)
    if events.kind is Kind.WITHOUT_NOTICE:
        announced = f'{RECORDED_SEEN}{{kind="{Kind.ANNOUNCED}"}}'
        expression += f"\nunless on (event_id) last_over_time({announced}[1h])"
    return expression


def _matcher(events: Events, scope: str = "") -> str:
    parts = []
    if events.types:
        sign = "=" if len(events.types) == 1 else "=~"
        parts.append(f'event_type{sign}"{"|".join(events.types)}"')
    if events.but:
        parts.append(f'event_type!="{events.but}"')
    parts.append(f'kind="{events.kind}"')
    if scope:
        parts.append(scope)
    return "{" + ",".join(parts) + "}"
