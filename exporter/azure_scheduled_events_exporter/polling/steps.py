"""The changes of the known events that are applied again once the journal has been read.

A disk that hangs must not hide an event, so a run begins without the journal. What it has derived
until the journal is read is derived again from what the journal has. ``polling.state`` keeps the
steps here, and applies them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from azure_scheduled_events_exporter.core.lifecycle import Change, Lifecycles

Step = Callable[[Lifecycles], tuple[Lifecycles, Sequence[Change]]]
"""Returns the known events after a document or an approval, and the changes.

A step changes nothing itself, so it can be applied again to other known events.
"""

MOST_WEIGHT: Final = 1000
"""The largest sum of the weights of kept steps; the newest step is kept whatever its weight."""


@dataclass(frozen=True, slots=True)
class _Kept:
    step: Step
    weight: int


class KeptSteps:
    """The newest steps of a run, in their order; their weights limit how many are kept."""

    def __init__(self) -> None:
        self._kept: list[_Kept] = []

    def add(self, step: Step, weight: int) -> None:
        """Keep ``step``; forget the oldest ones while the sum of the weights is too large.

        ``weight``: of a document, the sum of the weights of its events by ``core.bounds``; 1 for an
        approval.
        """
        self._kept.append(_Kept(step, weight))
        while len(self._kept) > 1 and self._total() > MOST_WEIGHT:
            self._kept.pop(0)

    def take(self) -> list[Step]:
        """Return the steps, the oldest first, and keep none of them any more."""
        steps = [kept.step for kept in self._kept]
        self._kept = []
        return steps

    def _total(self) -> int:
        return sum(kept.weight for kept in self._kept)
