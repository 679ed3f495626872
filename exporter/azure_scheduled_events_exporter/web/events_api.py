"""Writes JSON: the body of ``/api/v1/events``, and an event of ``history --json``.

``docs/status-page.md`` describes both. ``core.records`` defines how an event is written in either.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle
from azure_scheduled_events_exporter.core.records import Record, current_record, life_record
from azure_scheduled_events_exporter.snapshot.approvals import Decision
from azure_scheduled_events_exporter.snapshot.hooks import HookRun
from azure_scheduled_events_exporter.snapshot.snapshot import Snapshot
from azure_scheduled_events_exporter.times import iso_time

from .history import lives


def events_json(snapshot: Snapshot, now: float) -> bytes:
    """Return the body of ``/api/v1/events``.

    It has the current events as last known, the history, and whether IMDS still answers. ``now`` is
    wall-clock seconds.
    """
    polls = snapshot.polls
    last_success = None
    if polls.last_success is not None:
        last_success = iso_time(polls.last_success)
    identity = None
    if snapshot.identity is not None:
        identity = asdict(snapshot.identity)
    events = []
    for life in snapshot.current.values():
        approval = _approval(snapshot.approval_statuses.get(life.event_id))
        events.append({**current_record(life, now), **approval})
    content = {
        "version": __version__,
        "time": iso_time(now),
        "up": polls.up,
        "failure": polls.failure or None,
        "last_success": last_success,
        "polls": {
            "interval_seconds": snapshot.poll_interval,
            "outcomes": {str(outcome): count for outcome, count in polls.outcomes.items()},
        },
        # A journal that was asked to be in memory is not up, either.
        "journal": {"up": bool(snapshot.journal.up), "errors": snapshot.journal.errors},
        "spans": asdict(snapshot.deliveries),
        "vm_name": snapshot.vm_name,
        "identity": identity,
        "document_incarnation": snapshot.incarnation,
        "events": events,
        "history": [life_record(life) for life in lives(snapshot)],
    }
    return (json.dumps(content) + "\n").encode()


def past_record(life: Lifecycle, runs: Iterable[HookRun]) -> Record:
    """Return an event of ``history --json``; ``runs`` are the runs of ``hook`` for this event."""
    hook_runs = [
        {
            "phase": run.phase,
            "outcome": run.outcome,
            "started": iso_time(run.started),
            "duration_seconds": run.duration,
            "seconds_left": run.seconds_left,
            "exit_status": run.exit_status,
            "signal": run.signal or None,
            "last_output": run.output.splitlines(),
        }
        for run in runs
    ]
    return {**life_record(life), "hook_runs": hook_runs}


def _approval(status: Decision | None) -> dict[str, str | None]:
    """Return why an event is not approved yet, and when the policy approves it.

    ``status`` is None for an event about which the policy has decided nothing.
    """
    if status is None:
        return {"approval": None, "approval_due": None}
    due = None
    if status.due is not None:
        due = iso_time(status.due)
    return {"approval": status.reason, "approval_due": due}
