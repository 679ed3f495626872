"""Plays scenarios one after another, and has the document that results from them.

A user can also place a document by hand, which is shown instead. All of them share one incarnation.
Time is an argument and only advances. Must not depend on requests or the network.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from azure_scheduled_events_exporter.errors import UsageError

from .document import WireEvent, guid
from .faults import FaultWindow
from .playback import Playback
from .scenario import Scenario, VirtualMachine
from .timeline import Happening, Life, What

# With ``scenario_file.LONGEST``, NotBefore stays within the years that a date can have.
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
    """Return the upper-case GUID of an event: the same for the same seed and place in the play.

    ``place``: how many scenarios have begun, and what identifies the event in the scenario.
    """
    return guid(seed, *place).upper()


class Stage:
    """The current events, their incarnation and the record of what happened.

    Attributes:
        playlist: what is being played.
        events: the current events, in the form of the newest api-version.
        incarnation: increases when ``events`` change.
        happened: the number of all happenings; ``record`` has only the last ones.
    """

    def __init__(self, playlist: Playlist, *, at: float, seed: str) -> None:
        self.playlist = playlist
        self.incarnation = 1
        self.happened = 0
        self.events: tuple[WireEvent, ...] = ()
        self._record: deque[Happening] = deque(maxlen=_KEPT)
        self._seed = seed
        self._begun = 0  # number of scenarios that have begun
        # The events that `place` shows instead of the scenario's, perhaps none; None while those of
        # the scenario are shown.
        self._by_hand: tuple[WireEvent, ...] | None = None
        self._reached = at  # the latest moment that was advanced to
        # The scenario that is being played, and its number in the playlist, from 0.
        self._playback: Playback
        self._number: int
        self._begin(0, at)

    @property
    def scenario(self) -> Scenario:
        """The scenario that is being played."""
        return self._playback.scenario

    @property
    def windows(self) -> tuple[FaultWindow, ...]:
        """When the faults of the scenario that is being played are active."""
        return self._playback.windows

    @property
    def record(self) -> tuple[Happening, ...]:
        """What happened, oldest first; the last 10,000."""
        return tuple(self._record)

    @property
    def vms(self) -> Mapping[str, VirtualMachine]:
        """All VMs of the playlist by name. The first one gets requests whose path names no VM.

        If scenarios describe a VM differently, the first description counts.
        """
        found: dict[str, VirtualMachine] = {}
        for scenario in self.playlist.scenarios:
            for vm in scenario.vms:
                found.setdefault(vm.name, vm)
        return found

    @property
    def next_at(self) -> float | None:
        """The moment at which an event changes next, or else the next scenario begins.

        None when nothing is to come, or when that depends on a client (:attr:`Playback.ends_at`).
        """
        change = self._playback.next_change
        if change is not None:
            return change
        is_last = self._number == len(self.playlist.scenarios) - 1
        if is_last and not self.playlist.loop:
            return None
        return self._playback.ends_at

    def body_of_recording(self, now: float) -> bytes | None:
        """Return the body to serve at ``now`` while a recording is played, else None."""
        replay = self._playback.replay
        if replay is None or self._by_hand is not None:
            return None
        return replay.body(now)

    def happenings_after(self, count: int) -> tuple[Happening, ...]:
        """Return what happened after the first ``count`` happenings, as far as it is recorded."""
        new = self.happened - count
        if new == 0:
            return ()
        return self.record[-new:]

    def advance(self, now: float) -> None:
        """Apply all changes due at ``now``, each at its own time."""
        while (due := self.next_at) is not None and due <= now:
            if self._playback.next_change is None:  # then ``due`` is the end of the scenario
                self._begin(self._number + 1, due)
                continue
            for life, what in self._playback.advance(due):
                self._note(life, what, due)
            self._show()
        self._reached = max(self._reached, now)

    def play(self, playlist: Playlist, now: float) -> None:
        """Play ``playlist`` from now on; the events of the previous one leave the document."""
        self.advance(now)
        self.playlist = playlist
        self._by_hand = None
        # Not at ``now``, which may be before a moment that was already advanced to.
        self._begin(0, self._reached)

    def place(self, events: Sequence[WireEvent] | None, now: float) -> int:
        """Show ``events`` instead of the scenario's; return the incarnation.

        None returns to the scenario.
        """
        self.advance(now)
        self._by_hand = None
        if events is not None:
            self._by_hand = tuple(dict(event) for event in events)
        self._show()
        return self.incarnation

    def knows(self, event_id: str) -> bool:
        """Return whether ``event_id``, in any case, is a current event, which can be approved."""
        if self._playback.replay is not None and self._by_hand is None:
            return self._playback.replay.knows(event_id)
        return self._find(event_id) is not None

    def approve(self, event_id: str, vm: str, now: float) -> None:
        """Receive an approval of the event ``event_id``, in any case, from the simulated VM ``vm``.

        For an event that was placed by hand, it is recorded and starts nothing. For an event of a
        recording, it does nothing: the recording continues unchanged.
        """
        if self._by_hand is None:
            for life in self._playback.lives:  # a recording has none
                if life.event_id == event_id.upper() and life.approve(now):
                    self._note(life, What.APPROVED, now, vm)
            self.advance(now)  # without a delay, the event starts now
        elif event := self._find(event_id):
            self._add(_approval(event, vm, now))

    def stop_faults(self, now: float) -> None:
        """End the scenario's faults that are active at ``now``; later ones still begin."""
        self._playback.stop_faults(now)

    def _begin(self, number: int, at: float) -> None:
        """Begin a scenario of the playlist; the number after the last one is the first again."""
        self._number = number % len(self.playlist.scenarios)
        self._begun += 1
        scenario = self.playlist.scenarios[self._number]
        # A scenario that is played again has other EventIds.
        id_of = partial(event_id, self._seed, self._begun, scenario.name)
        self._playback = Playback(scenario, began=at, speed=self.playlist.speed, id_of=id_of)
        self._show()

    def _note(self, life: Life, what: What, at: float, vm: str = "") -> None:
        """Record that ``what`` happened to an event; ``vm`` is the one that approved."""
        self._add(
            Happening(
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
        )

    def _add(self, happening: Happening) -> None:
        self._record.append(happening)
        self.happened += 1

    def _show(self) -> None:
        """Show what is current now; a change gives the document another incarnation."""
        shown = self._by_hand
        if shown is None:
            # Without a status, an event is not in the document yet, or not any more.
            shown = tuple(life.on_wire() for life in self._playback.lives if life.status)
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
    names: tuple[str, ...] = ()
    if isinstance(resources, list | tuple):  # by hand, it can be anything
        names = tuple(map(str, resources))
    return Happening(
        event_id=str(event["EventId"]).upper(),
        event_type=str(event.get("EventType", "")),
        event_source=str(event.get("EventSource", "")),
        resources=names,
        what=What.APPROVED,
        at=at,
        vm=vm,
    )
