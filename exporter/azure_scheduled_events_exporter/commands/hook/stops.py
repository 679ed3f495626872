"""Decides when a run of a hook is stopped, when it is killed, and with which outcome it ends. Pure.

Must not know how a process is stopped.
"""

from dataclasses import dataclass
from enum import Enum, auto

from azure_scheduled_events_exporter.snapshot.hooks import HookRun, Phase, RunOutcome

from .plan import Rules, due_preparations
from .view import View


class Reason(Enum):
    """Why a run is stopped."""

    # Its time is up: that of the rules' timeout, or NotBefore comes.
    DEADLINE = auto()
    # The event that it prepares for is over.
    OVER = auto()
    # It recovers, and a preparation is due. It runs again after the events.
    NEW_EVENT = auto()


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a run was asked to end, and when, seconds since the epoch by the clock of IMDS."""

    reason: Reason
    at: float


def reason_to_stop(run: HookRun, view: View, rules: Rules) -> Reason | None:
    """Return why a run is to be asked to end now; None if it goes on."""
    if run.phase == Phase.PREPARE:
        if view.is_over(run.event_id):
            return Reason.OVER
        not_before = _not_before(run, view)
    else:
        if due_preparations(view, rules):
            return Reason.NEW_EVENT
        not_before = None  # a recovery follows the event
    if view.now >= deadline(run.started, not_before, rules):
        return Reason.DEADLINE
    return None


def deadline(started: float, not_before: float | None, rules: Rules) -> float:
    """Return when a run that began at ``started`` is asked to end, by the clock of IMDS.

    With less notice than twice the grace, half of the time is left to the command.
    """
    if not_before is None:
        return started + rules.timeout
    return min(started + rules.timeout, not_before - _grace(started, not_before, rules))


def kill_at(run: HookRun, stop: Stop, view: View, rules: Rules) -> float:
    """Return when a run that was asked to end is killed, by the clock of IMDS."""
    if stop.reason is Reason.NEW_EVENT:
        # The nearest event that waits for it gets at least half of its notice.
        waiting = [view.current[each.event_id] for each in due_preparations(view, rules)]
        if waiting and waiting[0].not_before is not None:
            return stop.at + _grace(stop.at, waiting[0].not_before, rules)
    at = stop.at + rules.grace
    not_before = _not_before(run, view)
    if stop.reason is Reason.DEADLINE and run.phase == Phase.PREPARE and not_before is not None:
        return min(at, not_before)
    return at


def outcome_of(run: HookRun, status: int, stop: Stop | None, view: View) -> RunOutcome | None:
    """Return how a run ended, with this exit status; None if it is to run again.

    ``stop``: None if it ended by itself.
    """
    if stop is not None and stop.reason is Reason.NEW_EVENT:
        return None
    if stop is not None and stop.reason is Reason.DEADLINE:
        return RunOutcome.TIMEOUT
    life = view.life(run.event_id)
    is_late = run.phase == Phase.PREPARE and life is not None and view.is_too_late(life)
    if stop is not None:  # the event is over
        return RunOutcome.TOO_LATE if is_late else RunOutcome.CANCELLED
    if status != 0:
        return RunOutcome.FAILED
    return RunOutcome.TOO_LATE if is_late else RunOutcome.OK


def _grace(since: float, not_before: float, rules: Rules) -> float:
    """Return the grace, or half of the time from ``since`` to NotBefore if that is shorter."""
    return min(rules.grace, max(0.0, not_before - since) / 2)


def _not_before(run: HookRun, view: View) -> float | None:
    """Return NotBefore of the event of ``run``; None if it is not known."""
    life = view.life(run.event_id)
    return None if life is None else life.not_before
