"""One scenario while it is played: its events, its faults, and when it is over.

Times are arguments, in seconds of the simulator's clock. Must not know what is played before or
after the scenario: ``stage`` does.
"""

from collections.abc import Callable

from .replay import Replay
from .scenario import Scenario
from .timeline import Life, What, agenda_of


class Playback:
    """A scenario that ``began`` at a moment and is played ``speed`` times as fast as written.

    Attributes:
        lives: the events of the scenario, also those that are not in the document.
        windows: when the faults of the scenario are active.
        replay: what serves the documents if the scenario is a recording; else None.

    Args:
        id_of: returns the EventId of the scenario's event at a place, from 0.
    """

    def __init__(
        self, scenario: Scenario, *, began: float, speed: float, id_of: Callable[[int], str]
    ) -> None:
        self.scenario = scenario
        self.lives: list[Life] = []
        for place, plan in enumerate(scenario.events):
            agenda = agenda_of(plan, began, speed)
            self.lives.append(Life(id_of(place), plan, speed, agenda))
        self.windows = tuple(plan.window(began, speed) for plan in scenario.faults)
        self.replay: Replay | None = None
        if scenario.recording:
            self.replay = Replay(scenario.recording, at=began, speed=speed)
        self._earliest_end = began + scenario.shortest / speed

    @property
    def next_change(self) -> float | None:
        """When an event changes next; None if no event is to change any more."""
        following = [life.agenda[0] for life in self.lives if life.agenda]
        return min((change.at for change in following), default=None)

    @property
    def ends_at(self) -> float | None:
        """When the scenario is over, provided that no event is to change any more.

        None if that cannot be known, because a client has yet to get the last document of a
        recording.
        """
        if self.replay is None:
            return self._earliest_end
        if self.replay.ended_at is None:
            return None
        return max(self._earliest_end, self.replay.ended_at)

    def advance(self, due: float) -> list[tuple[Life, What]]:
        """Apply the changes that are due at ``due``, the moment of the next one.

        Returns what happened to which event. The scenario is not over before that moment.
        """
        happened: list[tuple[Life, What]] = []
        for life in self.lives:
            happened += [(life, what) for what in life.advance(due)]
        self._earliest_end = max(self._earliest_end, due)
        return happened

    def stop_faults(self, now: float) -> None:
        """End the faults that are active at ``now``; later ones still begin."""
        self.windows = tuple(each for each in self.windows if each.begins > now)
