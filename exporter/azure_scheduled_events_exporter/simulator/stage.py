"""Plays a sequence of scenarios, or a document placed by hand, with one incarnation for all.

Time is an argument and only advances. Must not depend on requests or the network.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from azure_scheduled_events_exporter.errors import UsageError

from .document import WireEvent, guid
from .faults import FaultPlan
from .replay import Replay
from .scenario import Scenario, VirtualMachine
from .timeline import Happening, Life, What, agenda_of

# With ``scenario.LONGEST``, NotBefore stays within the years that a date can have.
SLOWEST: Final = 0.001
FASTEST: Final = 10_000.0
_KEPT: Final = 10_000  # happenings: days of a loop, a few MiB


@dataclass(frozen=True, slots=True)
class Playlist:
    """Scenarios to play one after another, ``speed`` times as fast as they are written."""

    scenarios: tuple[Scenario, ...]
    speed: float = 1.0
    loop: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be played."""
        if not self.scenarios:
            raise UsageError("there is no scenario to play: name one")
        if not SLOWEST <= self.speed <= FASTEST:
            raise UsageError(
                f"speed {self.speed:g} cannot be used: it must be at least {SLOWEST:g} and at most"
                f" {FASTEST:g}"
            )


def event_id(seed: str, *place: object) -> str:
    """Return the upper-case GUID of an event: the same for the same seed and place in the play."""
    return guid(seed, *place).upper()


class Stage:
    """The current events, their incarnation and the record of what happened.

    ``scenario`` is being played, and ``windows`` are its faults; ``events`` are the current ones in
    the form of the newest api-version.
    """

    def __init__(self, playlist: Playlist, *, at: float, seed: str) -> None:
        self.playlist = playlist
        self.incarnation = 1
        self.happened = 0  # number of all happenings; the record keeps the last ones
        self.events: tuple[WireEvent, ...] = ()
        self.windows: tuple[FaultPlan, ...] = ()
        self._lives: list[Life] = []
        self._record: deque[Happening] = deque(maxlen=_KEPT)
        self._seed = seed
        self._plays = 0
        self._placed: tuple[WireEvent, ...] | None = None
        self._reached = at  # the latest moment that was advanced to
        self._begin(0, at)

    @property
    def record(self) -> tuple[Happening, ...]:
        """What happened, oldest first; the last 10,000."""
        return tuple(self._record)

    @property
    def vms(self) -> Mapping[str, VirtualMachine]:
        """All VMs of the playlist by name, the one at the root first.

        The first description of a VM counts.
        """
        found: dict[str, VirtualMachine] = {}
        for scenario in self.playlist.scenarios:
            for vm in scenario.vms:
                found.setdefault(vm.name, vm)
        return found

    @property
    def next_at(self) -> float | None:
        """The moment of the next change, None when nothing is to come."""
        due = min((life.agenda[0][0] for life in self._lives if life.agenda), default=None)
        if due is not None:
            return due
        # No event of this scenario is to change any more: what comes is the next scenario, if any.
        is_last = self._place == len(self.playlist.scenarios) - 1
        if is_last and not self.playlist.loop:
            return None
        shortest = self.scenario.shortest / self.playlist.speed
        over = max(self._changed_at, self._began + shortest)
        if self._replay is None:
            return over
        if self._replay.ended_at is None:  # its last document was not served yet
            return None
        return max(over, self._replay.ended_at)

    def recorded(self, now: float) -> bytes | None:
        """Return the body to serve at ``now`` while a recording is played, else None."""
        if self._replay is None or self._placed is not None:
            return None
        return self._replay.body(now)

    def advance(self, now: float) -> None:
        """Apply all changes due at ``now``, each at its own time."""
        while (due := self.next_at) is not None and due <= now:
            if not any(life.agenda for life in self._lives):  # then the scenario is over
                self._begin(self._place + 1, due)
                continue
            for life in self._lives:
                for what in life.advance(due):
                    self._note(life, what, due)
            self._changed_at = due
            self._show()
        self._reached = max(self._reached, now)

    def play(self, playlist: Playlist, now: float) -> None:
        """Play ``playlist`` from now on; the events of the previous one leave the document."""
        self.advance(now)
        self.playlist = playlist
        self._placed = None
        self._begin(0, self._reached)

    def place(self, events: Sequence[WireEvent] | None, now: float) -> int:
        """Serve ``events`` instead of the scenario's; return the incarnation.

        None returns to the scenario.
        """
        self.advance(now)
        self._placed = None if events is None else tuple(dict(event) for event in events)
        self._show()
        return self.incarnation

    def knows(self, event_id: str) -> bool:
        """Return whether ``event_id``, in any case, is a current event, which can be approved."""
        if self._replay is not None and self._placed is None:
            return self._replay.knows(event_id)
        return self._find(event_id) is not None

    def approve(self, event_id: str, vm: str, now: float) -> None:
        """Receive an approval from the simulated VM ``vm``.

        That of an event placed by hand is recorded, and starts nothing.
        """
        if self._placed is None:  # a recording has no lives: it continues unchanged
            for life in self._lives:
                if life.event_id == event_id.upper() and life.approve(now):
                    self._note(life, What.APPROVED, now, vm)
        elif event := self._find(event_id):
            self._record.append(_approval(event, vm, now))
            self.happened += 1
        self.advance(now)

    def stop_faults(self, now: float) -> None:
        """End the scenario's faults that are active at ``now``; later ones still begin."""
        self.windows = tuple(each for each in self.windows if each.at > now)

    def _begin(self, place: int, at: float) -> None:
        """Begin the scenario at ``place`` of the playlist, which starts again after its end."""
        self._place = place % len(self.playlist.scenarios)
        self._plays += 1
        self._began = at
        self._changed_at = at
        scenario = self.playlist.scenarios[self._place]
        speed = self.playlist.speed
        self.scenario = scenario
        self._lives = []
        for index, plan in enumerate(scenario.events):
            own_id = event_id(self._seed, self._plays, scenario.name, index)
            self._lives.append(Life(own_id, plan, speed, agenda_of(plan, at, speed)))
        self.windows = tuple(FaultPlan.placed(plan, at, speed) for plan in scenario.faults)
        recording = scenario.recording
        self._replay = None
        if recording:
            self._replay = Replay(recording, at=at, speed=speed)
        self._show()

    def _note(self, life: Life, what: What, at: float, vm: str = "") -> None:
        """Record that ``what`` happened to an event; ``vm`` is the one that approved."""
        happening = Happening(
            event_id=life.event_id,
            event_type=life.plan.event_type,
            event_source=life.plan.source,
            resources=life.plan.resources,
            what=what,
            at=at,
            vm=vm,
            scenario=self.scenario.name,
            not_before=life.not_before,
        )
        self._record.append(happening)
        self.happened += 1

    def _show(self) -> None:
        """Show what is current now; a change gives the document another incarnation."""
        shown = self._placed
        if shown is None:
            shown = tuple(life.on_wire() for life in self._lives if life.status)
        if shown != self.events:
            self.events = shown
            self.incarnation += 1

    def _find(self, event_id: str) -> WireEvent | None:
        """Return the current event with this id, in any case; None if there is none."""
        for event in self.events:
            if str(event.get("EventId")).upper() == event_id.upper():
                return event
        return None


def _approval(event: WireEvent, vm: str, at: float) -> Happening:
    """Return the happening that ``vm`` has approved ``event``, which was placed by hand."""
    resources = event.get("Resources")
    names = tuple(map(str, resources)) if isinstance(resources, list | tuple) else ()
    return Happening(
        event_id=str(event["EventId"]).upper(),
        event_type=str(event.get("EventType", "")),
        event_source=str(event.get("EventSource", "")),
        resources=names,
        what=What.APPROVED,
        at=at,
        vm=vm,
    )
