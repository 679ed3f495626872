"""The alerts of events: one row for each kind of event, and type where types differ.

The exporter decides of which kind an event is (``core.kinds``). An event has one kind, so it has one alert. The rules
are made from this table, and so is the catalog of the alerts that exporters push.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from azure_scheduled_events_exporter.core.event_types import EventFacts, EventType
from azure_scheduled_events_exporter.core.kinds import Kind
from azure_scheduled_events_exporter.times import format_duration

from .rule import PREFIX, Alert, Dashboard, Recording, promql
from .series import BLIND, ENDED, EVENT, EVENT_ENDED, EVENT_SEEN, INFO
from .settings import Settings
from .texts import TIME, VMS, for_rules

MINUTE = 60
HOLDS: Mapping[str, int] = MappingProxyType(
    {
        EventType.FREEZE: 15 * MINUTE,
        EventType.REBOOT: 30 * MINUTE,
        EventType.REDEPLOY: 60 * MINUTE,
        EventType.PREEMPT: 10 * MINUTE,
        EventType.TERMINATE: 10 * MINUTE,
    }
)
"""How long an alert is held after its event was last shown, by type: the VMs that show it may be away with it."""
OTHER_HOLD = 30 * MINUTE
"""The hold of what a user requests, and of types that are in no table."""
NO_IMPACT_HOLD = 5 * MINUTE
"""The hold of kinds during which no VM goes away: as long as an exporter takes to restart."""

_OWN, _PEERS = 'scope="self"', 'scope!="self"'
_SCOPE_DELAY = "15s"
"""How long peers wait for the event's own VMs, whose labels take precedence: three scrapes."""


@dataclass(frozen=True, slots=True)
class EventAlert:
    """One row of the table.

    Attributes:
        name: without prefix.
        kind: of ``core.kinds``; types: the event types, () for all.
        severity: the default.
        summary, description: texts with :data:`VMS` and :data:`TIME`, and ``{event_type}``.
        meaning: when it fires, for people.
        hold: for how many seconds it lasts after the event was last shown.
    """

    name: str
    kind: Kind
    types: tuple[str, ...]
    severity: str
    summary: str
    description: str
    meaning: str
    hold: int = OTHER_HOLD


_SUMMARIES: Mapping[str, str] = MappingProxyType(
    {
        EventType.TERMINATE: f"{VMS} will be deleted.",
        EventType.PREEMPT: f"Azure evicts {VMS}.",
        EventType.REDEPLOY: f"Azure moves {VMS} to another host.",
        EventType.REBOOT: f"Azure reboots {VMS}.",
        EventType.FREEZE: f"Azure pauses {VMS}.",
    }
)


def _announced(event_type: EventType) -> EventAlert:
    facts: EventFacts = event_type.facts
    return EventAlert(
        str(event_type),
        Kind.ANNOUNCED,
        (event_type,),
        facts.severity,
        _SUMMARIES.get(event_type, f"{VMS} will be {facts.participle}."),
        f"{TIME} {facts.loss}",
        f"A VM will be {facts.participle}, announced by Azure.",
        HOLDS[event_type],
    )


_RESTARTS = tuple(str(each) for each in EventType if each.facts.restarts)

EVENT_ALERTS: tuple[EventAlert, ...] = (
    *(_announced(each) for each in reversed(EventType)),
    EventAlert(
        "WithoutNotice",
        Kind.WITHOUT_NOTICE,
        _RESTARTS,
        "critical",
        f"{VMS} went down without notice.",
        "A {event_type} had already started when it was first seen, as when a host fails. Memory is lost; "
        "after a Redeploy, ephemeral disks too.",
        "A Reboot or Redeploy had already started when it was first seen.",
        HOLDS[EventType.REDEPLOY],
    ),
    EventAlert(
        "Requested",
        Kind.REQUESTED,
        (),
        "warning",
        f"A user requested a {{event_type}} of {VMS}.",
        f"{TIME} Nothing to do if you know of the request.",
        "A user requested an event, such as a restart in the portal or a scale-in.",
    ),
    EventAlert(
        "UnknownType",
        Kind.UNKNOWN_TYPE,
        (),
        "warning",
        f"Azure announces a {{event_type}}: {VMS}.",
        f"{TIME} This version does not know what such an event does.",
        "An event within 24 h has a type that this version does not know.",
    ),
    EventAlert(
        "DegradedHost",
        Kind.FAR_AHEAD,
        _RESTARTS,
        "warning",
        f"The host of {VMS} is predicted to fail.",
        f"{TIME} The host may fail sooner: drain the VM and acknowledge the event (command approve) as soon as "
        "possible; the VM then moves at once.",
        "A Reboot or Redeploy is more than 24 h ahead, as for a degraded host.",
        NO_IMPACT_HOLD,
    ),
    EventAlert(
        "EvictionRisk",
        Kind.ADVISORY,
        (),
        "info",
        f"{VMS} may be evicted soon.",
        "Azure advises to move the work elsewhere. Nothing is scheduled, and an approval has no effect.",
        "Azure advises that a Spot VM may be evicted.",
        NO_IMPACT_HOLD,
    ),
)
"""Every alert of an event. The first row with the kind and type of an event is its alert."""


def event_recordings(settings: Settings) -> tuple[Recording, ...]:
    """Return the recordings that hold and end the alerts. They come before the alerts in the same group."""
    kept = settings.items("labels.keep")
    by = ", ".join(("event_id", "event_type", "kind", *(("scope", *kept) if kept else ())))
    # An end stays known when its exporter is away, and while only exporters without access to IMDS show the event.
    ended = promql(f"""
        max by (event_id) ({ENDED})
        or
        (
          last_over_time({EVENT_ENDED}[5m]) > time() - 3600
          or last_over_time({EVENT_ENDED}[5m]) and on (event_id) last_over_time({EVENT_SEEN}[2h]) == 0
        )
        unless on (event_id) ({EVENT} unless on (event_id) last_over_time({EVENT_SEEN}[2h]) == 0)
    """)
    return (
        Recording(EVENT, f"max by ({by}) ({INFO})", "every current event, once"),
        Recording(EVENT_ENDED, ended, "when an event ended that an exporter saw the end of, for an hour"),
    )


def event_seen() -> Recording:
    """Return the recording of which events are seen, evaluated rarely because no page waits for it."""
    seen = promql(f"""
        max by (event_id) ({INFO} unless on (job, instance) {BLIND})
        or
        max by (event_id) ({EVENT}) * 0
    """)
    return Recording(EVENT_SEEN, seen, "1 for a current event, 0 if only exporters without access to IMDS show it")


def event_alerts(settings: Settings) -> Iterator[Alert]:
    """Yield the alerting rules."""
    for each in EVENT_ALERTS:
        yield Alert(
            PREFIX + each.name,
            _expression(each, settings),
            each.severity,
            for_rules(each.summary),
            for_rules(each.description),
            Dashboard.VM,
            f"{each.meaning} Held for {format_duration(each.hold)}.",
        )


def _expression(each: EventAlert, settings: Settings) -> str:
    """Fires from what the event's own VMs show, and holds what was recorded until somebody saw its end.

    What peers show is read as recorded: the same event from 10,000 VMs is read once. With kept labels, those of own
    VMs count; peers count only if no own VM shows the event, as of a few scrapes ago, so that own VMs come first.
    """
    kept = settings.items("labels.keep")
    by = ", ".join(("event_id", "event_type", *kept))
    but = ""
    if each.kind is Kind.WITHOUT_NOTICE:  # another exporter may have seen the announcement
        but = f'\nunless on (event_id) last_over_time({EVENT}{{kind="announced"}}[1h])'
    rows = f"{INFO}{_matcher(each, _OWN)}\n  or\n  {_held(each, kept=bool(kept))}"
    return f"max by ({by}) (\n  {rows}\n)\nunless on (event_id) {EVENT_ENDED}{but}"


def _held(each: EventAlert, *, kept: bool) -> str:
    rows = _recorded(each)
    if kept:
        own = f"last_over_time({EVENT}{{{_OWN}}}[{format_duration(max(HOLDS.values()))}])"
        peers = _recorded(each, _PEERS, f" offset {_SCOPE_DELAY}")
        rows = f"({_recorded(each, _OWN)} or {peers} unless on (event_id) {own})"
    return f"{rows} unless on (event_id) {_taken_over(each)}"


def _taken_over(each: EventAlert) -> str:
    """Return the kinds to which the event has changed, so that this alert is not held."""
    if each.hold > NO_IMPACT_HOLD:
        return f'{EVENT}{{kind=~"far_ahead|harmless"}}'
    return f'last_over_time({EVENT}{{kind!="{each.kind}"}}[{format_duration(NO_IMPACT_HOLD)}])'


def _recorded(each: EventAlert, scope: str = "", offset: str = "") -> str:
    """Return what was recorded of the event while it is held."""
    return f"last_over_time({EVENT}{_matcher(each, scope)}[{format_duration(each.hold)}]{offset})"


def _matcher(each: EventAlert, scope: str) -> str:
    sign = "=" if len(each.types) == 1 else "=~"
    of_types = f'event_type{sign}"{"|".join(each.types)}"' if each.types else ""
    return "{" + ",".join(filter(None, (of_types, f'kind="{each.kind}"', scope))) + "}"
