"""The current events of the status page as cards (``card.html``), those of this VM first.

Pure. Must not depend on ``status_page``, which puts them into the page.
"""

import re
from collections.abc import Sequence

from azure_scheduled_events_exporter import DOCUMENTATION
from azure_scheduled_events_exporter.core.document import ScheduledEvent, Scope, comparable_name
from azure_scheduled_events_exporter.core.lifecycle import Approver, Kind, Lifecycle, State
from azure_scheduled_events_exporter.core.spans import trace_id
from azure_scheduled_events_exporter.snapshot.approvals import Decision
from azure_scheduled_events_exporter.snapshot.snapshot import Snapshot
from azure_scheduled_events_exporter.times import iso_time

from . import wording
from .elements import foreign, moment, since
from .html import Child, Markup, filled, joined, tag
from .overview import in_order
from .wording import clipped, impact, left, meaning, standing, title

CARDS = 20
"""Maximum number of cards.

A VM has a few events, and a document of thousands must not slow down the page.
"""

_MOST_NAMES = 10  # of VMs, on a card
_HINT = (
    "To let it begin now, for all affected VMs, run as root on this VM (in a container or pod:"
    " inside it): "
)
# Only an id in Azure's own format may appear in a command for people to copy.
_GUID = re.compile(r"[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}", re.ASCII)


def cards(snapshot: Snapshot, now: float, *, is_fresh: bool) -> Markup:
    """Return the current events as cards.

    Args:
        snapshot: what the exporter knows.
        now: wall-clock seconds.
        is_fresh: whether IMDS answers, so that the snapshot is up to date.
    """
    ordered = in_order(snapshot.current.values())
    beyond = len(ordered) - CARDS
    shown = [_card(life, snapshot, now, is_fresh=is_fresh) for life in ordered[:CARDS]]
    if beyond > 0:
        shown.append(tag("p", f"{beyond} more events are not shown; see the events as JSON."))
    return joined(*shown)


def _card(life: Lifecycle, snapshot: Snapshot, now: float, *, is_fresh: bool) -> Markup:
    """Return one card; the arguments are those of :func:`cards`."""
    event = life.event
    is_approved = life.approved_by is not None and life.state is State.SCHEDULED
    when, remark = _when(life, now, is_fresh=is_fresh)
    runs = [wording.hook_run(run) for run in snapshot.hook_runs if run.event_id == life.event_id]
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
        kind=wording.KINDS[life.kind],
        impact=impact(event.duration_seconds),
        count=str(event.resource_count),
        names=_names(event, snapshot.vm_name),
        approval=_approval(life, snapshot.approval_statuses.get(life.event_id)),
        hook_runs=_entry("Hook", runs),
        measured=_entry("Measured so far", wording.measured(life)),
        description=foreign(event.description) if event.description else "none",
        source=foreign(wording.SOURCES.get(event.source, event.source)),
        resource_type=foreign(event.resource_type) if event.resource_type else "not given",
        first_seen=moment(life.first_seen.wall),
        since=since(life.first_seen.wall, now),
        event_id=foreign(event.event_id),
        trace_id=trace_id(event.event_id),
        more=_more(life, snapshot),
    )


def _entry(name: str, texts: Sequence[str]) -> Markup | None:
    """Return an entry of a card, or None if there is nothing to say."""
    if not texts:
        return None
    return tag("div", tag("dt", name), tag("dd", "; ".join(texts)), class_="wide")


def _more(life: Lifecycle, snapshot: Snapshot) -> Markup:
    """Return a link to what to do about the event, and the command that prints its report.

    The command reads the journal on disk, so it is left out if the settings keep the journal in
    memory.
    """
    link = None
    if alert := wording.runbook(life):
        link = tag("a", "What to do", href=f"{DOCUMENTATION}runbooks/{alert}.md")
    is_in_memory = snapshot.journal.up is None
    if is_in_memory or not _GUID.fullmatch(life.event_id):
        return link or Markup("No alert: nobody has to do anything.")
    command = tag("code", f"azure-scheduled-events-exporter report {life.event_id}")
    if link:
        return joined(link, ". ", wording.REPORT, command)
    return joined(wording.REPORT, command)


def _when(life: Lifecycle, now: float, *, is_fresh: bool) -> tuple[Child, Child]:
    """Return when the event begins or began, which the card shows in large type, and a remark."""
    if life.state is State.STARTED:
        return _started(life, now)
    if life.kind is Kind.ADVISORY:
        return "nothing scheduled", "It may be withdrawn."
    not_before = life.event.not_before
    if not_before is None:
        return "time unknown", "The event has no readable NotBefore. It may begin at any moment."
    ahead = not_before - now
    has_passed = ahead <= -1  # within 1 s of NotBefore, `left` writes "due now"
    if has_passed and not is_fresh:
        passed = joined("NotBefore passed ", since(not_before, now))
        return joined(passed, "; whether it began is unknown"), joined(
            "NotBefore ", moment(not_before), "."
        )
    when = tag(
        "time",
        left(ahead),
        datetime=iso_time(not_before),
        data_until=not_before,
        data_overdue=has_passed,
        role="timer",
    )
    said = joined("NotBefore ", moment(not_before), ". ")
    if has_passed:
        said = joined("NotBefore passed ", since(not_before, now), ", ", moment(not_before), ". ")
    elif life.approved_by:
        said = joined(said, "Approved: it may begin earlier than NotBefore, at any moment.")
    return when, said


def _started(life: Lifecycle, now: float) -> tuple[Child, Child]:
    """Return when a Started event began, and a remark, as :func:`_when` does."""
    began = life.started_at or life.first_seen
    remark = "It is happening now, or has just happened. "
    was_first_seen_started = began == life.first_seen
    if was_first_seen_started and life.kind is Kind.REQUESTED:
        remark += "A user requested it, and Azure approved it at once: it was never Scheduled."
    elif was_first_seen_started:
        remark += "It had already started when it was first seen: no notice."
    return joined("started ", since(began.wall, now)), remark


def _names(event: ScheduledEvent, vm_name: str | None) -> Markup:
    """Return the names of the VMs, this one first and marked."""
    if not event.resources:
        return Markup("none")
    own = comparable_name(vm_name or "")

    def is_other(name: str) -> bool:
        return not own or comparable_name(name) != own

    this_vm_first = sorted(event.resources, key=is_other)  # False comes before True
    shown: list[Child] = []
    for name in this_vm_first[:_MOST_NAMES]:
        element = "span" if is_other(name) else "strong"
        shown.append(tag(element, foreign(name)))
    beyond = event.resource_count - len(shown)
    if beyond:
        shown.append(f"and {beyond} more")
    return joined(*shown, between=", ")


def _requested(approver: Approver, status: Decision | None) -> str:
    """Return that an approval was requested, and how that goes on."""
    said = f"requested by the {approver}; no answer of IMDS has said that it is accepted"
    # The status is that of the policy's request, such as when it is sent again. It says nothing of
    # a request by an operator or a hook.
    if status is not None and approver is Approver.EXPORTER:
        said = f"{said}: {clipped(status.reason)}"
    return said


def _approval(life: Lifecycle, status: Decision | None) -> Markup:
    """Return who approved the event, or why it is not approved and how an operator can do it.

    ``status`` is what the policy has decided; None before its first decision.
    """
    event_id = life.event_id
    if life.approval is not None:
        # An approval that is not from here is only known by the start, which is its time, too.
        when = ", " if life.approved_here else "; seen Started "
        return joined(wording.approver(life), when, moment(life.approval.at.wall))
    if life.state is State.STARTED:
        return Markup("not needed: it has started")
    if life.state is State.ADVISORY:
        return Markup("not possible: nothing is scheduled")
    if life.request is not None:
        return joined(_requested(life.request.by, status))
    # After a restart, an event is known from the journal before IMDS has answered.
    said = "the policy decides at the next answer of the metadata service"
    if status is not None:
        said = clipped(status.reason)
    may_be_approved_here = life.scope is Scope.SELF and life.state is State.SCHEDULED
    if may_be_approved_here and _GUID.fullmatch(event_id):
        command = tag("code", f"azure-scheduled-events-exporter approve {event_id}")
        return joined("not yet: ", said, tag("p", _HINT, command, class_="hint"))
    return joined("not yet: ", said)
