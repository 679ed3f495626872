"""The history of the status page: current events and those that ended last, as bars of phases.

Pure. Must not depend on ``status_page``, which puts it into the page.
"""

import shlex
from collections.abc import Mapping, Sequence

from azure_scheduled_events_exporter.core.lifecycle import Approver, Lifecycle, State
from azure_scheduled_events_exporter.core.spans import trace_id
from azure_scheduled_events_exporter.snapshot.hooks import HookRun
from azure_scheduled_events_exporter.snapshot.snapshot import Snapshot

from .html import Markup, filled, joined, tag
from .status_line import in_order
from .wording import (
    OUTCOMES,
    WHOSE,
    approver,
    clipped,
    foreign,
    hook_run,
    length,
    measured,
    moment,
    standing,
    title,
)

_CURRENT = 20  # current events shown beside those that ended
_NARROWEST = 0.5  # percent of a bar: a phase of seconds in a life of days stays visible


def lives(snapshot: Snapshot) -> list[Lifecycle]:
    """Return the lives of the history: current ones, then those that ended, the latest first."""
    current = in_order(snapshot.current.values())[:_CURRENT]
    return [*current, *reversed(snapshot.recent)]


def timeline(shown: Sequence[Lifecycle], snapshot: Snapshot, now: float) -> Markup:
    """Return ``shown`` as a list of bars with their legend (``lives.html``, ``life.html``).

    Each has the command that prints its report, unless the journal was asked to be in memory,
    where no other process can read it.
    """
    rows = []
    for life in shown:
        own_runs = [run for run in snapshot.hook_runs if run.event_id == life.event_id]
        report = None if snapshot.journal.up is None else _report(life)
        rows.append(_row(life, own_runs, report, now))
    return filled("lives.html", lives=joined(*rows))


def _report(life: Lifecycle) -> Markup:
    """Return the command that prints the report of an event."""
    event_id = clipped(shlex.quote(life.event_id))
    command = tag("code", f"azure-scheduled-events-exporter report {event_id}")
    return tag("p", "Report, on this VM: ", command, class_="hint")


def _row(life: Lifecycle, runs: Sequence[HookRun], report: Markup | None, now: float) -> Markup:
    """Return one event of the history: its texts and its bar."""
    ended = f"{standing(life)} now"
    why = None
    if life.outcome:
        ended, why = OUTCOMES[life.outcome]
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
        why=why,
        ended=foreign(ended),
        bar=_bar(life, now),
        facts=", ".join(facts),
        report=report,
    )


def phases(life: Lifecycle, now: float) -> Mapping[str, tuple[float, float]]:
    """Return when each phase began and ended, in seconds since the event was first seen."""
    end = _length(life, now)
    begun = end
    if life.started_at is not None:
        begun = min(end, life.started_at.since(life.first_seen))
    approved = begun
    if life.approved_at is not None:
        approved = min(begun, life.approved_at.since(life.first_seen))
    found = {
        "waiting": (0.0, approved),
        "approved": (approved, begun),
        "started": (begun, end),
    }
    return {name: (start, stop) for name, (start, stop) in found.items() if stop > start}


def _length(life: Lifecycle, now: float) -> float:
    """Return the seconds from first seen to the end, or to ``now`` if it has not ended."""
    if life.ended_at is None:
        return max(0.0, now - life.first_seen.wall)
    return life.ended_at.since(life.first_seen)


def _bar(life: Lifecycle, now: float) -> Markup:
    """Return the phases side by side, and a mark at NotBefore.

    The text below has the same content, so screen readers skip the bar. Sizes are SVG attributes,
    because the page's security policy forbids style attributes.
    """
    deadline = None
    if life.not_before is not None:
        deadline = max(0.0, life.not_before - life.first_seen.wall)
    whole = max(_length(life, now), deadline or 0.0) or 1.0
    pieces = [tag("rect", class_="track", x="0", y="3", width="100%", height="10")]
    for name, (start, stop) in phases(life, now).items():
        wide = max(_NARROWEST, 100 * (stop - start) / whole)
        at = min(100 * start / whole, 100 - wide)
        piece = tag("rect", class_=name, x=f"{at:.2f}%", y="3", width=f"{wide:.2f}%", height="10")
        pieces.append(piece)
    if deadline is not None:
        at = min(100 * deadline / whole, 100 - _NARROWEST)  # visible, too, at the right end
        pieces.append(tag("rect", class_="deadline", x=f"{at:.2f}%", y="0", width="3", height="16"))
    return tag("svg", *pieces, class_="bar", width="100%", height="16", aria_hidden="true")


def _notice(life: Lifecycle) -> str:
    """Return the notice of an event in words."""
    if life.notice_seconds is None:
        if life.announced:
            return "notice unknown"
        return "requested by a user, started at once"
    if life.notice_seconds == 0:
        return "no notice"
    return f"notice {length(life.notice_seconds)}"


def _facts(life: Lifecycle, now: float) -> list[str]:
    """Return what is known of the course of an event, each in a few words."""
    end = _length(life, now)
    if life.state is State.ADVISORY:
        return [f"advice, given for {length(end)}"]
    facts = [_notice(life)]
    begun, _ = phases(life, now).get("started", (end, end))
    if begun > 0:
        facts.append(f"scheduled for {length(begun)}")
    said = approver(life)
    if said:
        if life.approved_at is not None and life.approved_by is not Approver.DEADLINE:
            said = f"{said}, after {length(life.approved_at.since(life.first_seen))}"
        facts.append(said)
    if life.started_at is not None or life.state is State.STARTED:
        facts.append(f"started for {length(end - begun)}")
    facts += measured(life)
    return facts
