"""How many events are known, whatever documents come: also those that end no event, because a part
of them cannot be read.
"""

from collections.abc import Iterable
from dataclasses import replace

from azure_scheduled_events_exporter.core.bounds import (
    MOST_OWN,
    MOST_PEERS,
    SMALL_BYTES,
    weight,
)
from azure_scheduled_events_exporter.core.document import Document, ScheduledEvent, Scope
from azure_scheduled_events_exporter.core.lifecycle import (
    Lifecycle,
    Lifecycles,
    State,
)
from azure_scheduled_events_exporter.core.observation import observe
from azure_scheduled_events_exporter.core.observation_context import ObservationContext
from support.events.lives import SCHEDULED, VM, Watch, at

MALFORMED = ("Events[0] is no object",)
"""What cannot be read in a document. An event that such a document lacks has not ended by that."""
PEER = replace(SCHEDULED, resources=("vm_1",))
LONG = replace(PEER, description="\N{WARNING SIGN}" * 4096, sent_id="x" * 50_000)


def many(prefix: str, event: ScheduledEvent = PEER, count: int = 1500) -> list[ScheduledEvent]:
    """Return so many events like ``event``; by default more than may be known."""
    return [replace(event, event_id=f"{prefix}{number}") for number in range(count)]


def number_of_own(known: Lifecycles) -> int:
    """Return how many of the current events are this VM's."""
    return sum(life.is_mine for life in known.current.values())


def text_bytes(lives: Iterable[Lifecycle]) -> int:
    """Return how many bytes the texts that are long in LONG take in memory."""
    # Each character of that description takes two bytes.
    return sum(len(life.event.sent_id) + 2 * len(life.event.description) for life in lives)


def test_documents_that_end_nothing() -> None:
    """Partly unreadable documents, each with new events: the first one fills the room, and since
    none of them ends an event, later ones add nothing.
    """
    watch = Watch()
    for number in range(4):
        watch.sees(at(number), *many(f"P{number}-"), unreadable=MALFORMED)
    assert len(watch.known.current) == MOST_PEERS
    assert all(event_id.startswith("P0-") for event_id in watch.known.current)
    assert watch.known.seen.keys() == watch.known.current.keys()


def test_a_flood_of_peers_leaves_room_for_own_events() -> None:
    """An event of this VM is known at once, also as the last of a document with too many others,
    and its start is seen.
    """
    watch = Watch()
    watch.sees(at(0), *many("P"), unreadable=MALFORMED)
    watch.sees(at(1), *many("Q"), SCHEDULED, unreadable=MALFORMED)
    assert "A" in watch.known.current
    started = replace(SCHEDULED, status="Started")
    assert watch.sees(at(2), *many("R"), started, unreadable=MALFORMED) == ["approved", "started"]


def test_own_events_are_bounded_too() -> None:
    """Invented events of this VM are bounded, and those that were known before them stay."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    for number in range(3):
        watch.sees(at(number), *many(f"E{number}-", SCHEDULED), unreadable=MALFORMED)
    assert number_of_own(watch.known) == len(watch.known.current) == MOST_OWN
    assert "A" in watch.known.current


def test_readable_documents_make_room() -> None:
    """Events that have left a readable document take no room, and none that it shows is lost."""
    watch = Watch()
    first = many("P", count=MOST_PEERS)
    watch.sees(at(0), *first)
    watch.sees(at(1), *many("Q"), *first)
    assert watch.known.current.keys() == {event.event_id for event in first}
    watch.sees(at(2), *many("Q", count=MOST_PEERS))
    assert watch.known.current.keys() == {f"Q{number}" for number in range(MOST_PEERS)}


def test_an_event_that_returns_comes_before_new_ones() -> None:
    """An event that has ended and comes back behind a flood of new ones is known again, with its
    history.
    """
    watch = Watch()
    watch.sees(at(0), PEER)
    watch.sees(at(1))
    watch.sees(at(2), *many("P"), PEER, unreadable=MALFORMED)
    assert watch.known.current["A"].has_returned


def test_events_of_the_journal_count() -> None:
    """After a restart, the events that only the journal knows count, too: new ones find no room."""
    lives = {
        event.event_id: Lifecycle(event, State.SCHEDULED, Scope.PEER, at(0))
        for event in many("P", count=MOST_PEERS)
    }
    # What this document does not show stays: the journal may be another VM's.
    context = ObservationContext(at(1), VM, keeps_unshown=True)
    newcomers = tuple(many("Q"))
    known, changes = observe(Lifecycles(lives), Document(1, newcomers), context)
    assert known.current.keys() == lives.keys()
    assert not changes


def test_names_that_change_make_no_room() -> None:
    """The limits for events of this VM and for those of others hold together, however often events
    of others become its own, because the VM gets another name.
    """
    watch = Watch("name-0")
    renames = 6
    for number in range(renames):
        watch.vm_name = f"name-{number}"
        # Events of others now, and of this VM with each of its later names.
        later_names = tuple(f"name-{later}" for later in range(number + 1, renames + 1))
        flood = many(f"P{number}-", replace(PEER, resources=later_names))
        # Those of earlier names are shown again, because only then do they become its own.
        shown_again = [life.event for life in watch.known.current.values()]
        watch.sees(at(number), *shown_again, *flood, unreadable=MALFORMED)
    assert len(watch.known.current) <= MOST_PEERS + MOST_OWN


def test_long_texts_count_more() -> None:
    """Events with long texts count as several: those that grow, new ones, and ended ones."""
    watch = Watch()
    watch.sees(at(0), *many("P", count=MOST_PEERS), unreadable=MALFORMED)
    # The same events with long texts.
    watch.sees(at(1), *many("P", LONG, MOST_PEERS), unreadable=MALFORMED)
    assert text_bytes(watch.known.current.values()) <= MOST_PEERS * SMALL_BYTES
    watch.sees(at(2))
    for number in range(20):  # each document has new events, and ends those of the one before
        watch.sees(at(3 + number), *many(f"L{number}-", LONG, 50))
        assert text_bytes(watch.known.current.values()) <= MOST_PEERS * SMALL_BYTES
        assert text_bytes(watch.known.ended.values()) <= MOST_PEERS * SMALL_BYTES


def test_a_known_event_that_grows_comes_before_new_ones() -> None:
    """What a document says of a known event (A) is taken, also as the last of a flood."""
    watch = Watch()
    watch.sees(at(0), PEER)
    watch.sees(at(1), *many("P"), LONG, unreadable=MALFORMED)
    assert watch.known.current["A"].event == LONG


def test_a_readable_document_ends_nothing_that_it_shows() -> None:
    """However long the texts of known events become, none of them seems to end. A new event beside
    them has no room.
    """
    watch = Watch()
    watch.sees(at(0), *many("P", count=MOST_PEERS))
    assert watch.sees(at(1), *many("P", LONG, MOST_PEERS), PEER) == []
    assert len(watch.known.current) == MOST_PEERS


def test_a_real_event_of_a_hundred_vms_counts_little() -> None:
    """The largest event that Azure describes takes the room of a few small ones."""
    names = tuple(f"production-web-server_{number}" for number in range(100))
    assert weight(replace(SCHEDULED, resources=names)) <= 6, "small events"
