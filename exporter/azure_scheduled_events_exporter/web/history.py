"""The history of the status page: recent and current events, each as a bar of its phases.

Pure; reads lifecycles and must not depend on the rest of the page.
"""

import shlex
from collections.abc import Mapping, Sequence

from azure_scheduled_events_exporter.core.lifecycle import Approver, Lifecycle, State
from azure_scheduled_events_exporter.core.spans import trace_id
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.snapshot.hooks import HookRun
from azure_scheduled_events_exporter.snapshot.snapshot import Snapshot

from .html import Markup, filled, joined, tag
from .status_line import in_order
from .wording import (
    APPROVERS,
    OUTCOMES,
    WHOSE,
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


def timeline(shown: Sequence[Lifecycle], runs: Sequence[HookRun], now: float) -> Markup:
    """Return ``shown`` as a list of bars with their legend (``lives.html``, ``life.html``).

    ``runs``: what hooks ran.
    """
    rows = [
        _row(life, [run for run in runs if run.event_id == life.event_id], now) for life in shown
    ]
    return filled("lives.html", lives=joined(*rows))


def _row(life: Lifecycle, runs: Sequence[HookRun], now: float) -> Markup:
    ended = f"{standing(life)} now"
    why = None
    if life.outcome:
        ended, why = OUTCOMES[life.outcome]
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
        facts=", ".join([*_facts(life, now), *(f"hook {hook_run(run)}" for run in runs)]),
        event_id=clipped(shlex.quote(life.event_id)),
    )


def phases(life: Lifecycle, now: float) -> Mapping[str, tuple[float, float]]:
    """Return when each phase began and ended, in seconds since the event was first seen."""
    end = _until(life, life.ended_at, now)
    begun = end if life.started_at is None else min(end, _until(life, life.started_at, now))
    approved = (
        begun if life.approved_at is None else min(begun, _until(life, life.approved_at, now))
    )
    found = {"waiting": (0.0, approved), "approved": (approved, begun), "started": (begun, end)}
    return {name: (start, stop) for name, (start, stop) in found.items() if stop > start}


def _until(life: Lifecycle, at: Timestamp | None, now: float) -> float:
    return max(0.0, now - life.first_seen.wall) if at is None else at.since(life.first_seen)


def _bar(life: Lifecycle, now: float) -> Markup:
    """Return the phases side by side.

    The text below has the same content, so screen readers skip the bar.

    Sizes are SVG attributes, because the page's security policy forbids style attributes.
    """
    end = _until(life, life.ended_at, now)
    deadline = None if life.not_before is None else max(0.0, life.not_before - life.first_seen.wall)
    whole = max(end, deadline or 0.0) or 1.0
    pieces = [tag("rect", class_="track", x="0", y="3", width="100%", height="10")]
    for name, (start, stop) in phases(life, now).items():
        wide = max(_NARROWEST, 100 * (stop - start) / whole)
        at = min(100 * start / whole, 100 - wide)
        pieces.append(
            tag("rect", class_=name, x=f"{at:.2f}%", y="3", width=f"{wide:.2f}%", height="10")
        )
    if deadline is not None:
        at = min(100 * deadline / whole, 99.5)
        pieces.append(tag("rect", class_="deadline", x=f"{at:.2f}%", y="0", width="3", height="16"))
    return tag("svg", *pieces, class_="bar", width="100%", height="16", aria_hidden="true")


def _notice(life: Lifecycle) -> str:
    """Return the notice of an event in words."""
    if life.notice_seconds is None:
        return "notice unknown" if life.announced else "requested by a user, started at once"
    return f"notice {length(life.notice_seconds)}" if life.notice_seconds else "no notice"


def _facts(life: Lifecycle, now: float) -> list[str]:
    end = _until(life, life.ended_at, now)
    if life.state is State.ADVISORY:
        return [f"advice, given for {length(end)}"]
    facts = [_notice(life)]
    begun, _ = phases(life, now).get("started", (end, end))
    if begun > 0:
        facts.append(f"scheduled for {length(begun)}")
    if life.approved_by is not None:
        after = life.approved_at.since(life.first_seen) if life.approved_at else 0.0
        is_by_nobody = life.approved_by is Approver.DEADLINE
        said = APPROVERS[life.approved_by]
        facts.append(said if is_by_nobody else f"{said}, after {length(after)}")
    if life.started_at is not None or life.state is State.STARTED:
        facts.append(f"started for {length(end - begun)}")
    facts += measured(life)
    return facts
