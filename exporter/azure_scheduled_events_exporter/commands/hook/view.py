"""What a hook sees at one moment: the events, its runs, and the time. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State, Transition
from azure_scheduled_events_exporter.snapshot.hooks import HookRun, Phase

GONE_DOCUMENTS: Final = 3
"""An event is over for a hook when so many documents in a row have lacked it: one may be wrong."""

_NEVER_BEGAN: Final = {Transition.CANCELLED, Transition.WITHDRAWN}


@dataclass(frozen=True, slots=True)
class View:
    """What a hook sees.

    Attributes:
        current: the current events by EventId.
        now: this moment by the clock of IMDS, seconds since the epoch.
        runs: those that no recovery has ended, in the order in which they began. One without an
            outcome that is not ``active`` was interrupted.
        active: the ids of the runs whose command is running.
        ended: the last events that ended, by EventId.
        missing: how many documents in a row have lacked an event, by the EventIds of ``runs``.
    """

    current: Mapping[str, Lifecycle]
    now: float
    runs: Sequence[HookRun] = ()
    active: Collection[str] = ()
    ended: Mapping[str, Lifecycle] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)

    def life(self, event_id: str) -> Lifecycle | None:
        """Return an event, current or ended; None if this process has not seen it."""
        return self.current.get(event_id) or self.ended.get(event_id)

    def left(self, life: Lifecycle) -> float | None:
        """Return the seconds until NotBefore; None if there is none."""
        if life.not_before is None:
            return None
        return life.not_before - self.now

    def is_too_late(self, life: Lifecycle) -> bool:
        """Return whether it is too late to prepare for the event.

        That is so once the event has started, or NotBefore is over. If NotBefore is moved after
        that, it is not too late any more. An event that was cancelled or withdrawn before it began
        needed no preparation: for it, the answer is False, even after NotBefore.
        """
        if life.outcome in _NEVER_BEGAN:
            return False
        left = self.left(life)
        return life.state is State.STARTED or (left is not None and left <= 0)

    def is_over(self, event_id: str) -> bool:
        """Return whether the event of a run is over: documents have lacked it often enough."""
        return self.missing.get(event_id, 0) >= GONE_DOCUMENTS

    @property
    def is_recovering(self) -> bool:
        """Whether the command is running with ``recover``."""
        return any(run.phase == Phase.RECOVER and run.run in self.active for run in self.runs)

    @property
    def preparations(self) -> Sequence[HookRun]:
        """The runs with ``prepare`` that hold: a recovery that has begun undoes those before it."""
        holding: list[HookRun] = []
        for run in self.runs:
            if run.phase == Phase.RECOVER:
                holding = []
            else:
                holding.append(run)
        return holding
