"""Entries that wait take a bounded amount of memory."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

from azure_scheduled_events_exporter.core.lifecycle import Change, Transition
from azure_scheduled_events_exporter.journal.access import writable
from azure_scheduled_events_exporter.journal.thread.queue import MOST_BYTES
from support.events.journal_recorder import Open, history, transitions
from support.hosts.small_disk import SmallDisk
from support.programs import eventually


def test_memory_is_bounded(disk: SmallDisk) -> None:
    """Of what waits for very long, the oldest transitions are counted only, and all else is
    written.
    """
    recorder = disk.begin(disk.folder)
    recorder.sees("A", "GONE")
    disk.fill()
    recorder.after(1).sees("A")
    life = recorder.known.current["A"]
    rounds = 24
    at_once = 200
    for number in range(rounds):
        lives = [
            replace(
                life,
                event=replace(life.event, event_id=f"E{number}-{n}"),
                outcome=Transition.CANCELLED,
                ended_at=recorder.now,
            )
            for n in range(at_once)
        ]
        changes = [
            *(Change(Transition.CANCELLED, each, recorder.now) for each in lives),
            *(Change(Transition.RESCHEDULED, life, recorder.now) for _ in range(at_once)),
        ]
        recorder.statistics = recorder.statistics.plus(changes)
        recorder.journal.record(
            changes, lives, statistics=recorder.statistics, lifecycles=recorder.known
        )
    assert not recorder.is_up()
    disk.works_again()
    # A and GONE were detected, GONE ended, and each round had a cancellation and a rescheduling of
    # each.
    last = 3 + rounds * 2 * at_once
    eventually(lambda: len(transitions(disk.folder)) > 2, "what was kept")
    first, second, *waited = (number for number, _ in transitions(disk.folder))
    assert (first, second) == (1, 2), "they were on disk before it was full"
    assert waited == list(range(waited[0], last + 1)), "the newest, without a gap"
    assert 1000 < len(waited) < last - 2, "some were dropped, but not most"
    recorder.journal.close()
    after = disk.begin(disk.folder)
    assert after.statistics == recorder.statistics
    assert after.known.current.keys() == {"A"}, "GONE has ended meanwhile"


def test_a_flood_is_told(folder: Path, start: Open) -> None:
    """A full queue drops its oldest entries, and the journal is not up for a minute."""
    recorder = start(folder)
    recorder.sees("A")
    life = recorder.known.current["A"]
    large = replace(life, event=replace(life.event, description="x" * 4096))
    with closing(writable(folder)) as store:
        store.connection.execute("BEGIN IMMEDIATE")
        entry_bytes = 50 * 4096
        for _ in range(MOST_BYTES // entry_bytes + 1):  # one more than the queue takes
            recorder.journal.record(lives=[large] * 50)
        store.connection.rollback()
    recorder.after(1).sees("A", "B")
    eventually(lambda: history(folder) == ["A", "B"], "what is left on disk")
    assert not recorder.is_up()
    assert recorder.journal.state.errors > 0
