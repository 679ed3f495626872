"""The alerts of events: one for each kind of event, and for each type where types differ.

The exporter decides of which kind an event is (``core.kinds``). An event has one kind, so it has
one alert. The rules and the alerts that exporters push are the same.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.core.kinds import Kind
from azure_scheduled_events_exporter.times import format_duration

from .rule import PREFIX, Alert, Events, Recording, promql
from .series import BLIND, ENDED, EVENT, EVENT_ENDED, EVENT_SEEN, INFO
from .settings import Settings

MINUTE = 60
HOLDS: Mapping[str, int] = {
    EventType.FREEZE: 15 * MINUTE,
    EventType.REBOOT: 30 * MINUTE,
    EventType.REDEPLOY: 60 * MINUTE,
    EventType.PREEMPT: 10 * MINUTE,
    EventType.TERMINATE: 10 * MINUTE,
}
"""How long an alert is held after its event was last shown, by type: the VMs that show it may be away with it."""
OTHER_HOLD = 30 * MINUTE
"""The hold of what a user requests, and of types that are in no table."""
NO_IMPACT_HOLD = 5 * MINUTE
"""The hold of kinds during which no VM goes away: as long as an exporter takes to restart."""

_OWN, _PEERS = 'scope="self"', 'scope!="self"'
_SCOPE_DELAY = "15s"
"""How long peers wait for the event's own VMs, whose labels take precedence: three scrapes."""
_RESTARTS = tuple(str(each) for each in EventType if each.facts.restarts)
_SUMMARIES: Mapping[str, str] = {
    EventType.TERMINATE: "Azure deletes {vms}.",
    EventType.PREEMPT: "Azure evicts {vms}.",
    EventType.REDEPLOY: "Azure moves {vms} to another host.",
    EventType.REBOOT: "Azure reboots {vms}.",
    EventType.FREEZE: "Azure pauses {vms}.",
}


def _row(
    events: Events, name: str, severity: str, meaning: str, summary: str, description: str
) -> Alert:
    """Return a row of the table; its expression depends on settings."""
    meaning = (
        f"{meaning} Lasts up to {format_duration(events.hold)} after the event was last shown."
    )
    return Alert(PREFIX + name, "", severity, summary, description, "vm", meaning, events=events)


_EVENT_ALERTS = (
    *(
        _row(
            Events(Kind.ANNOUNCED, (each,), HOLDS[each]),
            each,
            each.facts.severity,
            f"A VM will be {each.facts.participle}, announced by Azure.",
            _SUMMARIES[each],
            f"{{time}} {each.facts.loss}",
        )
        for each in reversed(EventType)
    ),
    _row(
        Events(Kind.WITHOUT_NOTICE, _RESTARTS, HOLDS[EventType.REDEPLOY]),
        "WithoutNotice",
        "critical",
        "A Reboot or Redeploy had already started when it was first seen.",
        "Down without notice: {vms}.",
        "{time} Nobody announced this {event_type}, as when a host fails. Memory is lost; "
        "after a Redeploy, ephemeral disks too.",
    ),
    _row(
        Events(Kind.REQUESTED, (), OTHER_HOLD),
        "Requested",
        "warning",
        "A user requested an event, such as a restart in the portal or a scale-in.",
        "Requested {event_type}: {vms}.",
        "{time} A user requested it. Nothing to do if you know of the request.",
    ),
    _row(
        Events(Kind.UNKNOWN_TYPE, (), OTHER_HOLD),
        "UnknownType",
        "warning",
        "An event within 24 h has a type that this version does not know.",
        "Unknown {event_type}: {vms}.",
        "{time} Azure announces it; this version does not know what it does.",
    ),
    _row(
        Events(Kind.FAR_AHEAD, _RESTARTS, NO_IMPACT_HOLD),
        "DegradedHost",
        "warning",
        "A Reboot or Redeploy is more than 24 h ahead, as for a degraded host.",
        "Degraded host: {vms}.",
        "{time} The host may fail sooner: drain the VM and acknowledge the event (command approve)"
        " as soon as possible; the VM then moves at once.",
    ),
    _row(
        Events(Kind.ADVISORY, (), NO_IMPACT_HOLD),
        "EvictionRisk",
        "info",
        "Azure advises that a Spot VM may be evicted.",
        "Azure may soon evict {vms}.",
        "Azure advises to move the work elsewhere. Nothing is scheduled, and an approval has no"
        " effect.",
    ),
)
"""The first row with the kind and type of an event is its alert."""


def event_alerts(settings: Settings) -> Iterator[Alert]:
    """Yield the alerting rules, which exporters push too."""
    for each in _EVENT_ALERTS:
        if each.events:
            yield replace(each, expression=_expression(each.events, settings.items("labels.keep")))


def event_recordings(settings: Settings) -> tuple[Recording, ...]:
    """Return the recordings that hold and end the alerts.

    They come before the alerts in the same group.
    """
    kept = settings.items("labels.keep")
    by = ", ".join(("event_id", "event_type", "kind", *(("scope", *kept) if kept else ())))
    # An end stays known when its exporter is away, and while only exporters without access to IMDS
    # show the event.
    ended = promql(f"""
        max by (event_id) ({ENDED})
        or (
          last_over_time({EVENT_ENDED}[5m]) > time() - 3600
          or last_over_time({EVENT_ENDED}[5m]) and on (event_id) last_over_time({EVENT_SEEN}[2h]) == 0
        )
        unless on (event_id) ({EVENT} unless on (event_id) last_over_time({EVENT_SEEN}[2h]) == 0)
    """)
    return (
        Recording(EVENT, f"max by ({by}) ({INFO})", "current events, each once"),
        Recording(
            EVENT_ENDED,
            ended,
            "when an exporter saw an event end: for 1h, and while only exporters without IMDS"
            " show it",
        ),
    )


def event_seen() -> Recording:
    """Return the recording of which events are seen, evaluated rarely because no page waits for it."""
    seen = promql(f"""
        max by (event_id) ({INFO} unless on (job, instance) {BLIND})
        or max by (event_id) ({EVENT}) * 0
    """)
    return Recording(
        EVENT_SEEN, seen, "1 for a current event, 0 if only exporters without IMDS show it"
    )


def _expression(events: Events, kept: tuple[str, ...]) -> str:
    """Fires from what the event's own VMs show, and holds what was recorded until somebody saw its end.

    What peers show is read as recorded: the same event from 10,000 VMs is read once. With kept
    labels, those of own VMs count; peers count only if no own VM shows the event, as of a few
    scrapes ago, so that own VMs come first.
    """
    by = ", ".join(("event_id", "event_type", *kept))
    but = ""
    if events.kind is Kind.WITHOUT_NOTICE:  # another exporter may have seen the announcement
        but = f'\nunless on (event_id) last_over_time({EVENT}{{kind="announced"}}[1h])'
    rows = f"{INFO}{_matcher(events, _OWN)}\n  or {_held(events, kept=bool(kept))}"
    return f"max by ({by}) (\n  {rows}\n)\nunless on (event_id) {EVENT_ENDED}{but}"


def _held(events: Events, *, kept: bool) -> str:
    """Return what was recorded of the events, unless they have changed to a kind that ends this alert."""

    def recorded(scope: str = "", offset: str = "") -> str:
        return f"last_over_time({EVENT}{_matcher(events, scope)}[{format_duration(events.hold)}]{offset})"

    rows = recorded()
    if kept:
        own = f"last_over_time({EVENT}{{{_OWN}}}[{format_duration(max(HOLDS.values()))}])"
        rows = (
            f"({recorded(_OWN)} or {recorded(_PEERS, f' offset {_SCOPE_DELAY}')} unless on"
            f" (event_id) {own})"
        )
    if events.hold > NO_IMPACT_HOLD:
        taken_over = f'{EVENT}{{kind=~"far_ahead|harmless"}}'
    else:
        taken_over = (
            f'last_over_time({EVENT}{{kind!="{events.kind}"}}[{format_duration(NO_IMPACT_HOLD)}])'
        )
    return f"{rows} unless on (event_id) {taken_over}"


def _matcher(events: Events, scope: str) -> str:
    sign = "=" if len(events.types) == 1 else "=~"
    of_types = f'event_type{sign}"{"|".join(events.types)}"' if events.types else ""
    return "{" + ",".join(filter(None, (of_types, f'kind="{events.kind}"', scope))) + "}"
