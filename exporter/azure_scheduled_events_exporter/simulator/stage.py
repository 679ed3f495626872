"""Plays a sequence of scenarios, or a document placed by hand, with one incarnation for all.

Time is an argument and only advances. Must not depend on requests or the network.
"""

import hashlib
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from azure_scheduled_events_exporter.errors import UsageError

from .document import WireEvent
from .faults import FaultPlan
from .replay import Replay
from .scenario import Scenario, VirtualMachine
from .timeline import Happening, Timeline, What, begin

SLOWEST: Final = 0.001  # with ``scenario.LONGEST``, NotBefore stays within the years that a date can have
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
                f"speed {self.speed:g} cannot be used: it must be at least {SLOWEST:g} and at most {FASTEST:g}"
            )


def event_id(seed: str, *place: object) -> str:
    """Return the upper-case GUID of an event: the same for the same seed and place in the play."""
    digest = hashlib.sha256("/".join((seed, *map(str, place))).encode(errors="surrogatepass")).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4)).upper()


class Stage:
    """The current events, their incarnation and the record of what happened.

    ``events`` are the current ones in the newest form; ``windows`` are the faults of the scenario being played.
    """

    def __init__(self, playlist: Playlist, *, at: float, seed: str) -> None:
        self.playlist = playlist
        self.incarnation = 1
        self.happened = 0  # number of all happenings; the record keeps the last ones
        self._record: deque[Happening] = deque(maxlen=_KEPT)
        self._seed = seed
        self._plays = 0
        self._reached = at
        self._placed: tuple[WireEvent, ...] | None = None
        self.events: tuple[WireEvent, ...] = ()
        self._place = 0
        self._timeline: Timeline
        self.windows: tuple[FaultPlan, ...]
        self._replay: Replay | None
        self._begin(0, at)

    @property
    def scenario(self) -> Scenario:
        """The scenario being played."""
        return self._timeline.scenario

    @property
    def record(self) -> tuple[Happening, ...]:
        """What happened, oldest first; the last 10,000."""
        return tuple(self._record)

    def recorded(self, now: float) -> bytes | None:
        """Return the body to serve at ``now`` while a recording is played, else None."""
        return self._replay.body(now) if self._replay is not None and self._placed is None else None

    @property
    def next_at(self) -> float | None:
        """The moment of the next change, None when nothing is to come."""
        due, over = self._timeline.next_at, self._timeline.over_at
        if over is None or self._last:
            return due
        if self._replay is None:
            return over
        return None if self._replay.ended_at is None else max(over, self._replay.ended_at)

    @property
    def vms(self) -> Mapping[str, VirtualMachine]:
        """All VMs of the playlist by name; the first is the one at the root, the first description wins."""
        found: dict[str, VirtualMachine] = {}
        for scenario in self.playlist.scenarios:
            for vm in scenario.vms:
                found.setdefault(vm.name, vm)
        return found

    def advance(self, now: float) -> None:
        """Apply all changes due at ``now``, each at its own time."""
        while (due := self.next_at) is not None and due <= now:
            if self._timeline.next_at is None:
                self._begin(self._place + 1, due)
                continue
            self._timeline, happenings = self._timeline.step()
            self._note(happenings)
        self._reached = max(self._reached, now)

    def play(self, playlist: Playlist, now: float) -> None:
        """Play ``playlist`` from now on; the events of the previous one leave the document."""
        self.advance(now)
        self.playlist = playlist
        self._placed = None
        self._begin(0, self._reached)

    def place(self, events: Sequence[WireEvent] | None, now: float) -> int:
        """Serve ``events`` instead of the scenario's (None: the scenario's again); return the incarnation."""
        self.advance(now)
        self._placed = None if events is None else tuple(dict(event) for event in events)
        self._note(())
        return self.incarnation

    def knows(self, event_id: str) -> bool:
        """Return whether ``event_id``, in upper or lower case, is a current event."""
        if self._replay is not None and self._placed is None:
            return self._replay.knows(event_id)
        if self._placed is None:
            return self._timeline.knows(event_id)
        return self._placed_event(event_id) is not None

    def approve(self, event_id: str, vm: str, now: float) -> None:
        """Receive an approval from the simulated VM ``vm``; an event placed by hand is recorded but not started."""
        placed = self._placed_event(event_id)
        if placed is not None:
            self._note((_approval(placed, vm, now),))
        elif self._placed is None and self._replay is None:  # a recording continues unchanged
            self._timeline, happenings = self._timeline.approve(event_id, vm, now)
            self._note(happenings)
        self.advance(now)

    def stop_faults(self, now: float) -> None:
        """End the scenario's faults that are active at ``now``; later ones still begin."""
        self.windows = tuple(each for each in self.windows if each.at > now)

    @property
    def _last(self) -> bool:
        return not self.playlist.loop and self._place == len(self.playlist.scenarios) - 1

    def _begin(self, place: int, at: float) -> None:
        self._place = place % len(self.playlist.scenarios)
        self._plays += 1
        scenario, play = self.playlist.scenarios[self._place], self._plays
        self._timeline = begin(
            scenario,
            at=at,
            speed=self.playlist.speed,
            event_id=lambda index: event_id(self._seed, play, scenario.name, index),
        )
        self.windows = tuple(FaultPlan.placed(plan, at, self.playlist.speed) for plan in scenario.faults)
        recording = scenario.recording
        self._replay = Replay(recording, at=at, speed=self.playlist.speed) if recording else None
        self._note(())

    def _note(self, happenings: Sequence[Happening]) -> None:
        self._record.extend(happenings)
        self.happened += len(happenings)
        shown = self._timeline.events() if self._placed is None else self._placed
        if shown != self.events:
            self.events = shown
            self.incarnation += 1

    def _placed_event(self, event_id: str) -> WireEvent | None:
        wanted = event_id.upper()
        found = (event for event in self._placed or () if str(event.get("EventId")).upper() == wanted)
        return next(found, None)


def _approval(event: WireEvent, vm: str, at: float) -> Happening:
    resources = event.get("Resources")
    names = tuple(map(str, resources)) if isinstance(resources, list | tuple) else ()
    kind, source = str(event.get("EventType", "")), str(event.get("EventSource", ""))
    return Happening(str(event["EventId"]).upper(), kind, source, names, What.APPROVED, at, vm)
