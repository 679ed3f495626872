"""How many events are known at most, whatever IMDS sends.

A document that is partly unreadable ends no event, so a series of such documents could add events
without end. Therefore the known events and the new ones of a document are limited together. Pure:
derives no transition.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from .document import MOST_NAMES, Document, ScheduledEvent, comparable_name
from .lifecycle import REMEMBERED_ENDS, Lifecycle, Lifecycles

MOST_PEERS = 1000
"""How many current events of other VMs are known. Azure shows one VM a few at a time."""
MOST_OWN = 1000
"""How many current events of this VM are known. Events of other VMs take none of these places."""
SMALL_BYTES = 2048
"""For each so many bytes of its texts, an event counts as one more.

An event of 100 VMs counts as 3 to 6.
"""


def weight(event: ScheduledEvent) -> int:
    """Return as how many events ``event`` counts: 1, or more if its texts are long.

    :data:`SMALL_BYTES` says by how much.
    """
    texts = (
        event.event_id,
        event.sent_id,
        event.event_type,
        event.status,
        event.source,
        event.resource_type,
        event.description,
        *event.resources[:MOST_NAMES],  # no more of them are kept
    )
    return 1 + sum(map(sys.getsizeof, texts)) // SMALL_BYTES


@dataclass(slots=True)
class _Room:
    """How many more events can be known, each counted by its :func:`weight`.

    Attributes:
        own: room for events of this VM.
        peers: room for events of other VMs.

    Both can fall below 0: if the name of this VM changes, events of other VMs become its own, or
    its own become those of others. Then there may be more of a sort than permitted.
    """

    own: int = MOST_OWN
    peers: int = MOST_PEERS

    def has(self, needed: int, *, is_mine: bool) -> bool:
        """Return whether events with the weight ``needed`` fit, of this VM or of others."""
        of_this_sort = self.peers
        of_other_sort = self.own
        if is_mine:
            of_this_sort = self.own
            of_other_sort = self.peers
        # If the other sort has more than its room, it has taken the excess from this one.
        excess = max(0, -of_other_sort)
        return needed <= of_this_sort - excess

    def take(self, needed: int, *, is_mine: bool) -> None:
        """Use room for the weight ``needed``; a negative one gives room back."""
        if is_mine:
            self.own -= needed
        else:
            self.peers -= needed


def within_bounds(
    known: Lifecycles, document: Document, staying: Iterable[Lifecycle], vm_name: str | None
) -> Document:
    """Return ``document`` without the events for which there is no room.

    Current events get room first, then ended ones that are in the document again, then new ones: so
    no new event pushes out a known one.

    A current event that is left out of a wholly readable document would end, so it always stays. A
    document that is partly unreadable ends nothing. There, a current event whose texts have grown
    beyond the room is left out, and so stays known as it was.

    Args:
        known: the known events.
        document: as IMDS sent it.
        staying: the current events that are not in the document, and do not end.
        vm_name: this VM's name; None while unknown, when all new events count as other VMs'.
    """
    room = _room_beside(known, document, staying, vm_name)
    kept = set()
    for event in _known_first(known, document):
        before = known.current.get(event.event_id)
        is_mine = _is_mine(event, before, vm_name)
        needed = weight(event)
        if before is not None:
            needed -= weight(before.event)  # it has that room already
        would_end_without = before is not None and not document.unreadable
        if needed <= 0 or would_end_without or room.has(needed, is_mine=is_mine):
            room.take(needed, is_mine=is_mine)
            kept.add(event.event_id)
    if len(kept) == len(document.events):
        return document
    events = tuple(event for event in document.events if event.event_id in kept)
    return replace(document, events=events)


def _room_beside(
    known: Lifecycles, document: Document, staying: Iterable[Lifecycle], vm_name: str | None
) -> _Room:
    """Return the room beside the current events, each with the weight that it had until now.

    Events that are in neither ``staying`` nor ``document`` end, and take no room.
    """
    room = _Room()
    for life in staying:
        room.take(weight(life.event), is_mine=life.is_mine)
    for event in document.events:
        before = known.current.get(event.event_id)
        if before is not None:
            room.take(weight(before.event), is_mine=_is_mine(event, before, vm_name))
    return room


def _is_mine(event: ScheduledEvent, before: Lifecycle | None, vm_name: str | None) -> bool:
    """Return whether ``event`` is an event of the VM ``vm_name``.

    It is if its Resources name this VM, or named it earlier: ``before`` is the event as it was
    known until now, None for a new one.
    """
    if event.spelling(vm_name):
        return True
    if before is None or not before.is_mine:
        return False
    return vm_name is None or comparable_name(before.own_name) == comparable_name(vm_name)


def _known_first(known: Lifecycles, document: Document) -> list[ScheduledEvent]:
    """Return the events of ``document``: current ones, then ended ones, then new ones."""

    def rank(event: ScheduledEvent) -> int:
        if event.event_id in known.current:
            return 0
        if event.event_id in known.ended:
            return 1
        return 2

    return sorted(document.events, key=rank)


def without_oldest(ended: Mapping[str, Lifecycle], just_ended: int) -> dict[str, Lifecycle]:
    """Return the newest of ``ended``, which has the oldest end first, in the same order.

    As many are kept as :data:`REMEMBERED_ENDS` permits, and at least all that have just ended,
    because each of these may be in the next document again. ``just_ended`` is the sum of their
    weights.
    """
    newest_first = reversed(list(ended.values()))
    kept = list(newest_ended(newest_first, max(REMEMBERED_ENDS, just_ended)))
    return {life.event_id: life for life in reversed(kept)}


def newest_ended(
    newest_first: Iterable[Lifecycle], most: int = REMEMBERED_ENDS
) -> Iterator[Lifecycle]:
    """Yield the first lives, until the sum of their weights would exceed ``most``."""
    left = most
    for life in newest_first:
        left -= weight(life.event)
        if left < 0:
            return
        yield life


def current_with_room(newest_first: Iterable[Lifecycle]) -> Iterator[Lifecycle]:
    """Yield those current events of a journal for which there is room; the first get it first."""
    room = _Room()
    for life in newest_first:
        needed = weight(life.event)
        if room.has(needed, is_mine=life.is_mine):
            room.take(needed, is_mine=life.is_mine)
            yield life
