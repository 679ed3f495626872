"""How many events are known at most, whatever IMDS sends.

A document that is partly unreadable ends no event, so events that such documents add stay. So the
bound is on what is known and what a document adds to it, together. Pure: it derives no transition.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from .document import MOST_NAMES, Document, ScheduledEvent, comparable_name
from .lifecycle import REMEMBERED_ENDS, Lifecycle, Lifecycles

MOST_PEERS = 1000
"""How many current events of other VMs are known. Azure shows one VM a few at a time."""
MOST_OWN = 1000
"""How many current events of this VM are known. Those of others take no place of them."""
SMALL_BYTES = 2048
"""For each so many bytes of its texts, an event counts as one more: one of 100 VMs as 3 to 6."""


def weight(event: ScheduledEvent) -> int:
    """Return as how many events ``event`` counts: more than one if its texts are long.

    See :data:`SMALL_BYTES`.
    """
    texts = (
        event.event_id,
        event.sent_id,
        event.event_type,
        event.status,
        event.source,
        event.resource_type,
        event.description,
        *event.resources[:MOST_NAMES],
    )
    return 1 + sum(map(sys.getsizeof, texts)) // SMALL_BYTES


@dataclass(slots=True)
class _Room:
    """How many more events can be known, each counted by its :func:`weight`.

    If the name of this VM has changed, events of other VMs have become its own, or its own have
    become those of others. Then there may be more of them than permitted, and their room is less
    than 0.
    """

    own: int = MOST_OWN
    peers: int = MOST_PEERS

    def has(self, needed: int, *, is_mine: bool) -> bool:
        """Return whether there is room for so many more events of this VM, or of others."""
        of_these = self.own if is_mine else self.peers
        # What the others have too much is taken from this room: the sum of both is a limit too.
        return needed <= min(of_these, self.own + self.peers)

    def take(self, needed: int, *, is_mine: bool) -> None:
        """Use room; events that have become smaller give some back."""
        if is_mine:
            self.own -= needed
        else:
            self.peers -= needed


def within_bounds(
    known: Lifecycles, document: Document, staying: Iterable[Lifecycle], vm_name: str | None
) -> Document:
    """Return ``document`` without the events for which there is no room.

    Events that are known come first, then those that have ended, so no real event makes room for
    new ones. If the document is partly unreadable, and so ends nothing, an event that is known and
    has grown may be left out too: it stays as it was.

    Args:
        known: the known events.
        document: as IMDS sent it.
        staying: the known events that are not in the document, and do not end.
        vm_name: this VM's name; None while unknown, when all new events count as other VMs'.
    """
    room = _Room()
    for life in staying:
        room.take(weight(life.event), is_mine=life.is_mine)
    for event in document.events:  # known ones take the room that they had until now
        before = known.current.get(event.event_id)
        if before is not None:
            room.take(weight(before.event), is_mine=_is_mine(event, before, vm_name))
    kept = set()
    for event in _known_first(known, document):
        before = known.current.get(event.event_id)
        is_mine = _is_mine(event, before, vm_name)
        needed = weight(event)
        if before is not None:
            needed -= weight(before.event)
        # A known event that is left out of a document without unreadable entries would end.
        would_end = before is not None and not document.unreadable
        if needed <= 0 or would_end or room.has(needed, is_mine=is_mine):
            room.take(needed, is_mine=is_mine)
            kept.add(event.event_id)
    if len(kept) == len(document.events):
        return document
    return replace(
        document, events=tuple(event for event in document.events if event.event_id in kept)
    )


def _is_mine(event: ScheduledEvent, before: Lifecycle | None, vm_name: str | None) -> bool:
    """Return whether ``event``, known as ``before``, is of the VM ``vm_name``."""
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
        return 1 if event.event_id in known.ended else 2

    return sorted(document.events, key=rank)


def without_oldest(ended: Mapping[str, Lifecycle], just_ended: int) -> dict[str, Lifecycle]:
    """Return the newest of ``ended``: as many as fit, and at least all that have just ended.

    Any of these may be in the next document again. ``just_ended``: as how many events they count.
    """
    most = max(REMEMBERED_ENDS, just_ended)
    newest = list(newest_ended(reversed([*ended.values()]), most))
    return {life.event_id: life for life in reversed(newest)}


def newest_ended(lives: Iterable[Lifecycle], most: int = REMEMBERED_ENDS) -> Iterator[Lifecycle]:
    """Yield the first of ``lives``, which come newest first, that count as at most ``most``."""
    for life in lives:
        most -= weight(life.event)
        if most < 0:
            return
        yield life


def as_many_as_known(lives: Iterable[Lifecycle]) -> Iterator[Lifecycle]:
    """Yield those of ``lives``, current events of a journal, for which there is room."""
    room = _Room()
    for life in lives:
        needed = weight(life.event)
        if room.has(needed, is_mine=life.is_mine):
            room.take(needed, is_mine=life.is_mine)
            yield life
