"""Decides what a hook begins: which run, and for which prepared event an approval may be asked.

A preparation and a recovery never run at the same time. Pure. Must not know how a process is
started, when it is stopped (``stops``), or where runs are stored.
"""

import json
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from azure_scheduled_events_exporter.approval.by_hook import obstacle
from azure_scheduled_events_exporter.core.document import Scope
from azure_scheduled_events_exporter.core.lifecycle import Kind, Lifecycle, State
from azure_scheduled_events_exporter.core.records import Record, current_record
from azure_scheduled_events_exporter.snapshot.hooks import HookRun, Phase, RunOutcome

from .view import View

DEFAULT_KINDS: Final = (Kind.ANNOUNCED, Kind.REQUESTED, Kind.UNKNOWN_TYPE)
"""A harmless event needs no preparation, one that is far ahead is prepared for when it is near,
advice has no time, and what came without notice is too late to prepare for."""

MOST_AT_ONCE: Final = 10
"""How many commands run at once. Those of the nearest events begin first."""

_AGAIN_SECONDS = 5.0
"""Pause before a preparation is repeated; it grows by as much with each repetition."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What the user wants.

    Attributes:
        command: the command line to run.
        types: of events, in lower case; empty means all.
        kinds: of events.
        lead: prepare at most so many seconds before NotBefore.
        timeout: the longest time of a run, seconds.
        grace: how many seconds before its end a run is asked to end.
        approves: whether to approve events of this VM alone, after success.
    """

    command: str = ""
    types: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset(DEFAULT_KINDS)
    lead: float = 900.0
    timeout: float = 900.0
    grace: float = 5.0
    approves: bool = False

    def selects_type(self, life: Lifecycle) -> bool:
        """Return whether the event's type is one of ``types``."""
        return not self.types or life.event.event_type.casefold() in self.types

    def select(self, life: Lifecycle) -> bool:
        """Return whether the hook prepares for an event like this."""
        return life.is_mine and self.selects_type(life) and life.kind in self.kinds


def begins(view: View, rules: Rules) -> list[HookRun]:
    """Return the runs to begin now.

    While a recovery runs, none begins: if a preparation is due, ``stops`` ends the recovery.
    Before a recovery begins, all preparations have ended, and none is due.
    """
    if view.is_recovering:
        return []
    due = due_preparations(view, rules)
    if due:
        return due[: max(0, MOST_AT_ONCE - len(view.active))]
    if view.active:
        return []
    return _recovery(view, rules)


def due_preparations(view: View, rules: Rules) -> list[HookRun]:
    """Return the runs with ``prepare`` that are due, those of the nearest events first.

    An event without NotBefore comes before all others: it may begin at any moment.
    """
    by_nearness = sorted(view.current.values(), key=lambda life: life.not_before or 0.0)
    return [_preparation(life, view, rules) for life in by_nearness if _is_due(life, view, rules)]


def _is_due(life: Lifecycle, view: View, rules: Rules) -> bool:
    """Return whether a preparation for an event begins now: the first one, or a repetition."""
    if view.is_too_late(life):
        return False
    earlier_runs = _runs_for(life, view)
    left = view.left(life)  # seconds until NotBefore; None without one
    if not earlier_runs:
        return rules.select(life) and (left is None or left <= rules.lead)
    last = earlier_runs[-1]
    if last.outcome is None:  # it runs, or it was interrupted and begins again
        return last.run not in view.active
    if not _may_repeat(last, left, rules):
        return False
    last_ended = last.started + (last.duration or 0.0)
    return view.now >= last_ended + _AGAIN_SECONDS * len(earlier_runs)


def _runs_for(life: Lifecycle, view: View) -> Sequence[HookRun]:
    """Return the preparations for an event so far."""
    return [run for run in view.preparations if run.event_id == life.event_id]


def _may_repeat(last: HookRun, left: float | None, rules: Rules) -> bool:
    """Return whether a preparation may run again after ``last``, which has ended.

    It may if the last one failed, or was stopped because its event was cancelled: the event has
    come back. It may not if the last one succeeded or was too late.

    If the last one was stopped at its deadline, that was either ``rules.timeout``, and it may run
    again, or NotBefore, and it may not. ``left`` is the time until NotBefore, in seconds.
    """
    if last.outcome == RunOutcome.TIMEOUT:
        # A run that NotBefore limits is stopped when no more than the grace is left.
        return left is None or left > rules.grace
    return last.outcome in {RunOutcome.FAILED, RunOutcome.CANCELLED}


def _preparation(life: Lifecycle, view: View, rules: Rules) -> HookRun:
    """Return the run that begins, under the id of the one that was interrupted, if there is one."""
    interrupted = [run.run for run in _runs_for(life, view) if run.outcome is None]
    run_id = interrupted[-1] if interrupted else uuid.uuid4().hex
    return _run_of(life, view, rules, run_id)


def _run_of(life: Lifecycle, view: View, rules: Rules, run_id: str) -> HookRun:
    """Return a preparation that begins now, for the event ``life``."""
    vm_name = life.own_name or life.vm_name  # as Resources spell it, if they have named this VM
    record = {**current_record(life, view.now), "vm_name": vm_name}
    return HookRun(
        run=run_id,
        command=rules.command,
        event_id=life.event_id,
        event_type=life.event.event_type,
        phase=Phase.PREPARE,
        started=view.now,
        record=json.dumps(record),
    )


def awaited(before: Collection[str], view: View, rules: Rules) -> frozenset[str]:
    """Return the EventIds of the events that the hook is to prepare for, and has not yet.

    ``before`` is the last result. Its events stay, even if the rules do not select them any more,
    each until a preparation for it begins, or it starts, or it is not current any more.
    """
    pending = {
        life.event_id
        for life in view.current.values()
        if life.state is not State.STARTED and (life.event_id in before or _awaits(life, rules))
    }
    return frozenset(pending - {run.event_id for run in view.preparations})


def _awaits(life: Lifecycle, rules: Rules) -> bool:
    """Return whether the hook is to prepare for an event, now or when it is near."""
    return life.is_pending and rules.select(life)


def missed(before: Collection[str], view: View, rules: Rules) -> list[HookRun]:
    """Return a run for each awaited event that has begun without a preparation.

    The run only states that the hook was too late: its command was not run. Such an event has
    started, or has ended after its NotBefore. ``before`` is the last result of :func:`awaited`.
    """
    too_late = []
    for event_id in sorted(set(before) - {run.event_id for run in view.preparations}):
        life = view.life(event_id)
        if life is None or not view.is_too_late(life):
            continue
        # After NotBefore, a Scheduled event may still be moved, and leave time to prepare.
        if life.state is State.STARTED or life.outcome is not None:
            run = _run_of(life, view, rules, uuid.uuid4().hex)
            too_late.append(_too_late(run, life, view))
    return too_late


def lapsed(view: View) -> list[HookRun]:
    """Return the preparations that were interrupted and cannot begin again, with their outcome.

    Their event has started, or is over.
    """
    interrupted = [
        run
        for run in view.runs
        if run.phase == Phase.PREPARE and run.outcome is None and run.run not in view.active
    ]
    ended = [_ended(run, view) for run in interrupted]
    return [run for run in ended if run is not None]


def _ended(run: HookRun, view: View) -> HookRun | None:
    """Return an interrupted preparation, with its outcome; None if it may begin again."""
    life = view.life(run.event_id)
    is_over = view.is_over(run.event_id)
    if life is None:
        if not is_over:
            return None
        # This process has never seen the event, so nobody knows whether it began.
        return replace(run, outcome=str(RunOutcome.FAILED))
    if view.is_too_late(life) and (is_over or life.state is State.STARTED):
        return _too_late(run, life, view)
    if is_over:
        return replace(run, outcome=str(RunOutcome.CANCELLED))
    return None


def _too_late(run: HookRun, life: Lifecycle, view: View) -> HookRun:
    """Return ``run`` with the outcome that it could not run before its event."""
    return replace(run, outcome=str(RunOutcome.TOO_LATE), seconds_left=view.left(life))


def why_not(life: Lifecycle, view: View, rules: Rules) -> str:
    """Return why nothing is prepared for an event now; ``""`` if something is.

    Nothing is said of an event of other VMs only.
    """
    if life.scope is Scope.PEER:
        return ""
    return _why_not_selected(life, rules) or _why_not_now(life, view, rules)


def _why_not_selected(life: Lifecycle, rules: Rules) -> str:
    """Return why the rules do not select an event, which may be this VM's; ``""`` if they do."""
    if not rules.selects_type(life):
        return "its type is not among --types"
    if life.scope is Scope.UNKNOWN:
        return "this VM's name is unknown, so it may be another VM's: set --instance.name"
    if life.kind is Kind.WITHOUT_NOTICE:  # whether it is among --kinds makes no difference
        return "it had begun when it was first seen"
    if life.kind not in rules.kinds:
        return f"its kind {life.kind} is not among --kinds"
    return ""


def _why_not_now(life: Lifecycle, view: View, rules: Rules) -> str:
    """Return why this is no time to prepare for an event that was selected; ``""`` if it is."""
    if life.state is State.STARTED:
        return "it has begun" if life.announced else "it had begun when it was first seen"
    left = view.left(life)
    if left is not None and left > rules.lead:
        return "NotBefore is further ahead than --lead: prepare begins then"
    if view.is_too_late(life):
        return "NotBefore is over: prepare begins if it moves"
    return ""


def prepared(view: View, rules: Rules) -> list[tuple[Lifecycle, str]]:
    """Return the current events that the VM is prepared for, each with why it is not approved.

    The reason is ``""`` if the hook may approve the event. While a recovery runs, the VM is
    prepared for none.
    """
    if view.is_recovering:
        return []
    done = {run.event_id: run for run in view.preparations if run.outcome == RunOutcome.OK}
    return [
        (life, _why_not_approved(life, done[event_id], rules))
        for event_id, life in view.current.items()
        if event_id in done
    ]


def _why_not_approved(life: Lifecycle, run: HookRun, rules: Rules) -> str:
    """Return why the hook does not approve an event after ``run``; ``""`` if it may.

    ``run`` has prepared for the event as it was when the run began. NotBefore may have moved since.
    More VMs than this one are an obstacle in any case.
    """
    reason = obstacle(life) or _why_not_selected(life, rules)
    if reason:
        return reason
    prepared_for = (run.event_type, record_of(run).get("duration_seconds"))
    if prepared_for != (life.event.event_type, life.event.duration_seconds):
        return "its type or its duration has changed since prepare began"
    return ""


def _recovery(view: View, rules: Rules) -> list[HookRun]:
    """Return one recovery, or none: if an event of a run is not over, or if there is no run.

    Call it while no command is running. A recovery that was interrupted begins again under its id.
    The command is that of the hook that runs now: an earlier one may have prepared with another.
    """
    if not view.runs or not all(view.is_over(run.event_id) for run in view.runs):
        return []
    # When a recovery ends, the view forgets all runs: the recovery, and the preparations before it.
    # So a recovery that the view still has was interrupted.
    interrupted = [run.run for run in view.runs if run.phase == Phase.RECOVER]
    preparations = [run for run in view.runs if run.phase == Phase.PREPARE]
    last = (preparations or view.runs)[-1]  # its event is the one that the recovery gets
    recovery = HookRun(
        run=interrupted[-1] if interrupted else uuid.uuid4().hex,
        command=rules.command,
        event_id=last.event_id,
        event_type=last.event_type,
        phase=Phase.RECOVER,
        started=view.now,
        record=_record_of_end(last, view.ended.get(last.event_id)),
    )
    return [recovery]


def _record_of_end(run: HookRun, life: Lifecycle | None) -> str:
    """Return the event of ``run`` as the recovery after it stores it; ``life``: how it ended."""
    outcome = None
    if life is not None and life.outcome is not None:
        outcome = str(life.outcome)
    record = {**record_of(run), "seconds_until_not_before": None, "outcome": outcome}
    return json.dumps(record)


def record_of(run: HookRun) -> Record:
    """Return the event of a run as it was stored; without its values if they cannot be read."""
    try:
        record = json.loads(run.record)
    except ValueError:
        record = None
    if isinstance(record, dict):
        return record
    return {"event_id": run.event_id, "event_type": run.event_type}
