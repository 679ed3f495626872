"""The history of the status page: current events and those that ended last, each as a bar.

Pure. Must not depend on ``status_page``, which puts it into the page.
"""

import shlex
from collections.abc import Mapping, Sequence

from azure_scheduled_events_exporter.core.lifecycle import Approver, Lifecycle, State
from azure_scheduled_events_exporter.core.spans import trace_id
from azure_scheduled_events_exporter.snapshot.hooks import HookRun
from azure_scheduled_events_exporter.snapshot.snapshot import Snapshot

from .elements import foreign, moment
from .html import Markup, filled, joined, tag
from .overview import in_order
from .wording import (
    OUTCOMES,
    REPORT,
    WHOSE,
    approver,
    clipped,
    hook_run,
    length,
    measured,
    standing,
    title,
)

_MOST_CURRENT = 20  # current events that are shown, besides those that ended
_NARROWEST = 0.5  # percent of a bar: a phase of seconds in a life of days stays visible


def lives(snapshot: Snapshot) -> list[Lifecycle]:
    """Return the lives of the history: the most important current ones, then those that ended.

    Of those that ended, the latest comes first.
    """
    current = in_order(snapshot.current.values())[:_MOST_CURRENT]
    return [*current, *reversed(snapshot.recent)]


def timeline(shown: Sequence[Lifecycle], snapshot: Snapshot, now: float) -> Markup:
    """Return the events ``shown`` as a list of bars with their legend.

    The templates are ``lives.html`` and ``life.html``. Each event has the command that prints its
    report, unless the journal was asked to be in memory, where no other process can read it.
    """
    is_in_memory = snapshot.journal.up is None
    rows = []
    for life in shown:
        own_runs = [run for run in snapshot.hook_runs if run.event_id == life.event_id]
        report = None
        if not is_in_memory:
            report = _report(life)
        rows.append(_row(life, own_runs, report, now))
    return filled("lives.html", lives=joined(*rows))


def _report(life: Lifecycle) -> Markup:
    """Return the command that prints the report of an event."""
    event_id = clipped(shlex.quote(life.event_id))
    command = tag("code", f"azure-scheduled-events-exporter report {event_id}")
    return tag("p", REPORT, command, class_="hint")


def _row(life: Lifecycle, runs: Sequence[HookRun], report: Markup | None, now: float) -> Markup:
    """Return one event of the history: its texts and its bar."""
    ended = f"{standing(life)} now"
    explanation = None
    if life.outcome:
        ended, explanation = OUTCOMES[life.outcome]
    facts = _facts(life, now)
    facts += [f"hook {hook_run(run)}" for run in runs]
    return filled(
        "life.html",
        trace_id=trace_id(life.event_id),
        first_seen=str(int(life.first_seen.wall)),
        title=foreign(title(life)),
        scope=life.scope,
        whose=WHOSE[life.scope],
        begun=moment(life.first_seen.wall),
        outcome=life.outcome or "now",
        why=explanation,
        ended=foreign(ended),
        bar=_bar(life, now),
        facts=", ".join(facts),
        report=report,
    )


def phases(life: Lifecycle, now: float) -> Mapping[str, tuple[float, float]]:
    """Return when each phase began and ended, in seconds since the event was first seen.

    The phases are ``waiting``, ``approved`` and ``started``. One that took no time is left out.
    """
    end = _seconds_to_end(life, now)
    start = _seconds_to_start(life, now)
    approved = start  # without an approval, the event waits until its start
    if life.approved_at is not None:
        approved = min(start, life.approved_at.since(life.first_seen))
    found = {
        "waiting": (0.0, approved),
        "approved": (approved, start),
        "started": (start, end),
    }
    return {name: (began, ended) for name, (began, ended) in found.items() if ended > began}


def _seconds_to_start(life: Lifecycle, now: float) -> float:
    """Return the seconds from first seen to Started, or to the end if it has not started."""
    end = _seconds_to_end(life, now)
    if life.started_at is None:
        return end
    return min(end, life.started_at.since(life.first_seen))


def _seconds_to_end(life: Lifecycle, now: float) -> float:
    """Return the seconds from first seen to the end, or to ``now`` if it has not ended."""
    if life.ended_at is None:
        return max(0.0, now - life.first_seen.wall)
    return life.ended_at.since(life.first_seen)


def _bar(life: Lifecycle, now: float) -> Markup:
    """Return the phases side by side, and a mark at NotBefore.

    The text below has the same content, so screen readers skip the bar. Sizes are SVG attributes,
    because the page's security policy forbids style attributes.
    """
    whole = _seconds_to_end(life, now)  # what the width of the bar stands for
    to_not_before = None
    if life.not_before is not None:
        to_not_before = max(0.0, life.not_before - life.first_seen.wall)
        whole = max(whole, to_not_before)
    if whole == 0:  # an event that was first seen at this moment, or at its end
        whole = 1.0
    pieces = [tag("rect", class_="track", x="0", y="3", width="100%", height="10")]
    for name, (began, ended) in phases(life, now).items():
        width = max(_NARROWEST, 100 * (ended - began) / whole)  # percent
        left = min(100 * began / whole, 100 - width)
        pieces.append(_piece(name, left, y=3, width=f"{width:.2f}%", height=10))
    if to_not_before is not None:
        left = min(100 * to_not_before / whole, 100 - _NARROWEST)  # not beyond the right end
        pieces.append(_piece("deadline", left, y=0, width="3", height=16))
    return tag("svg", *pieces, class_="bar", width="100%", height="16", aria_hidden="true")


def _piece(css_class: str, left: float, *, y: int, width: str, height: int) -> Markup:
    """Return a rectangle of the bar, ``left`` percent of the bar's width from its left end."""
    return tag("rect", class_=css_class, x=f"{left:.2f}%", y=y, width=width, height=height)


def _notice(life: Lifecycle) -> str:
    """Return the notice of an event in words."""
    if life.notice_seconds is None and life.announced:
        return "notice unknown"
    if life.notice_seconds is None:
        # An event that was first seen Started has a notice of 0, unless a user requested it.
        return "requested by a user, started at once"
    if life.notice_seconds == 0:
        return "no notice"
    return f"notice {length(life.notice_seconds)}"


def _facts(life: Lifecycle, now: float) -> list[str]:
    """Return what is known of the course of an event, each fact in a few words."""
    end = _seconds_to_end(life, now)
    if life.state is State.ADVISORY:
        return [f"advice, given for {length(end)}"]
    facts = [_notice(life)]
    start = _seconds_to_start(life, now)
    if start > 0:
        facts.append(f"Scheduled: {length(start)}")
    approval = approver(life)  # in words; "" if nobody has approved it
    if approval:
        if life.approved_at is not None and life.approved_by is not Approver.DEADLINE:
            approval = f"{approval}, after {length(life.approved_at.since(life.first_seen))}"
        facts.append(approval)
    if life.started_at is not None:
        facts.append(f"Started: {length(end - start)}")
    facts += measured(life)
    return facts
