"""The current events of the status page as cards (``card.html``), those of this VM first.

Reads lifecycles and must not depend on the rest of the page.
"""

import re
from collections.abc import Iterable, Mapping

from azure_scheduled_events_exporter.core.document import ScheduledEvent, Scope, comparable_name
from azure_scheduled_events_exporter.core.kinds import Kind
from azure_scheduled_events_exporter.core.lifecycle import Approver, Lifecycle, State
from azure_scheduled_events_exporter.core.spans import trace_id
from azure_scheduled_events_exporter.snapshot.approvals import Decision
from azure_scheduled_events_exporter.times import iso_time

from . import wording
from .html import Child, Markup, filled, joined, tag
from .status_line import in_order
from .wording import clipped, foreign, impact, left, meaning, moment, since, standing, title

CARDS = 20
"""Maximum number of cards: a VM has a few events, and a document of thousands must not slow down the page."""

_NAMES = 10
_HINT = (
    "To let it begin now, for all affected VMs, run as root on this VM (in a container or pod:"
    " inside it): "
)
# Only an id in Azure's own format may appear in a command for people to copy.
_GUID = re.compile(r"[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}", re.ASCII)


def cards(
    lives: Iterable[Lifecycle], statuses: Mapping[str, Decision], vm_name: str | None, now: float
) -> Markup:
    """Return the events as cards; ``statuses`` has the reasons why events are not approved, by EventId."""
    ordered = in_order(lives)
    beyond = len(ordered) - CARDS
    more = (
        tag("p", f"{beyond} more events are not shown; see the events as JSON.")
        if beyond > 0
        else None
    )
    return joined(
        *(_card(life, statuses.get(life.event_id), vm_name, now) for life in ordered[:CARDS]), more
    )


def _card(life: Lifecycle, status: Decision | None, vm_name: str | None, now: float) -> Markup:
    event = life.event
    kind = life.kind
    is_approved = life.approved_by is not None and life.state is State.SCHEDULED
    when, remark = _when(life, kind, now)
    return filled(
        "card.html",
        key=f"event-{trace_id(event.event_id)}",
        scope=life.scope,
        state="started" if life.state is State.STARTED else "waiting",
        title=foreign(title(life)),
        standing=foreign(standing(life)),
        approved=tag("span", "approved", class_="chip approved") if is_approved else None,
        whose=wording.WHOSE[life.scope],
        when=when,
        remark=remark,
        meaning=meaning(life),
        kind=wording.KINDS[kind],
        impact=impact(event.duration_seconds),
        count=str(event.resource_count),
        names=_names(event, vm_name),
        approval=_approval(life, status),
        description=foreign(event.description) if event.description else "none",
        source=foreign(wording.SOURCES.get(event.source, event.source)),
        resource_type=foreign(event.resource_type) if event.resource_type else "not given",
        first_seen=moment(life.first_seen.wall),
        since=since(life.first_seen.wall, now),
        event_id=foreign(event.event_id),
        trace_id=trace_id(event.event_id),
    )


def _when(life: Lifecycle, kind: Kind, now: float) -> tuple[Child, Child]:
    """Return when the event begins, in the largest type of the page, and a remark."""
    not_before = life.event.not_before
    if life.state is State.STARTED:
        began = life.started_at or life.first_seen
        remark = "It is happening now, or has just happened. "
        if began == life.first_seen and not life.proven_by_boot:
            without_notice = "It had already started when it was first seen: no notice."
            if kind is Kind.REQUESTED:
                without_notice = (
                    "A user requested it, and Azure approved it at once: it was never Scheduled."
                )
            remark += without_notice
        return joined("started ", since(began.wall, now)), remark
    if kind is Kind.ADVISORY:
        return "nothing scheduled", "It may be withdrawn."
    if not_before is None:
        return "time unknown", "The event has no readable NotBefore. It may begin at any moment."
    ahead, until = not_before - now, iso_time(not_before)
    when = tag(
        "time",
        left(ahead),
        datetime=until,
        data_until=not_before,
        data_overdue=ahead <= -1,
        role="timer",
    )
    sooner = (
        "Approved: it may begin earlier than NotBefore, at any moment."
        if life.approved_by
        else None
    )
    return when, joined("NotBefore ", moment(not_before), ". ", sooner)


def _names(event: ScheduledEvent, vm_name: str | None) -> Markup:
    """Return the names of the VMs, this one first and marked."""
    own = comparable_name(vm_name) if vm_name else None
    first = sorted(event.resources, key=lambda name: comparable_name(name) != own)[:_NAMES]
    shown = [
        tag("strong" if comparable_name(name) == own else "span", foreign(name)) for name in first
    ]
    beyond = event.resource_count - len(shown)
    return (
        joined(*shown, f"and {beyond} more" if beyond else None, between=", ")
        if shown
        else Markup("none")
    )


def _approval(life: Lifecycle, status: Decision | None) -> Markup:
    event_id = life.event_id
    if life.approved_by is not None:
        at = life.approved_at
        return joined(
            wording.APPROVERS[life.approved_by],
            ", " if at else None,
            moment(at.wall) if at else None,
        )
    if life.state is State.STARTED:
        return Markup("not needed: it has started")
    if life.state is State.ADVISORY:
        return Markup("not possible: nothing is scheduled")
    if life.request is not None:
        # Of an operator's request, the status is what the policy says.
        said = (
            f": {clipped(status.reason)}" if status and life.request.by is Approver.EXPORTER else ""
        )
        return joined(
            f"requested by the {life.request.by}; no answer of IMDS has said that it is"
            f" accepted{said}"
        )
    # After a restart, an event is known from the journal before IMDS has answered.
    said = (
        clipped(status.reason)
        if status
        else "the policy decides at the next answer of the metadata service"
    )
    if (
        life.scope is not Scope.SELF
        or life.state is not State.SCHEDULED
        or not _GUID.fullmatch(event_id)
    ):
        return joined("not yet: ", said)
    command = tag("code", f"azure-scheduled-events-exporter approve {event_id}")
    return joined("not yet: ", said, tag("p", _HINT, command, class_="hint"))
