"""Entries that wait take a bounded amount of memory."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

from azure_scheduled_events_exporter.core.lifecycle import Change, Lifecycle, Transition
from azure_scheduled_events_exporter.journal.access import writable
from azure_scheduled_events_exporter.journal.thread.queue import MOST_BYTES
from support.events.journal_recorder import Open, Recorder, history, transitions
from support.hosts.small_disk import SmallDisk
from support.programs import eventually


def record_transitions(recorder: Recorder, life: Lifecycle, name: str, at_once: int) -> int:
    """Record, in one entry, the cancellation of ``at_once`` events whose ids begin with ``name``,
    and as many reschedulings of ``life``. Return the number of transitions.
    """
    cancelled = [
        replace(
            life,
            event=replace(life.event, event_id=f"{name}-{number}"),
            outcome=Transition.CANCELLED,
            ended_at=recorder.now,
        )
        for number in range(at_once)
    ]
    changes = [
        *(Change(Transition.CANCELLED, each, recorder.now) for each in cancelled),
        *(Change(Transition.RESCHEDULED, life, recorder.now) for _ in range(at_once)),
    ]
    recorder.statistics = recorder.statistics.plus(changes)
    recorder.journal.record(
        changes, cancelled, statistics=recorder.statistics, lifecycles=recorder.known
    )
    return len(changes)


def test_memory_is_bounded(disk: SmallDisk) -> None:
    """While the disk is full, transitions wait in memory. Of very many, the oldest are counted and
    dropped; the others are written when the disk works again, and so is what is known of events.
    """
    recorder = disk.begin(disk.folder)
    recorder.sees("A", "GONE")
    disk.fill()
    recorder.after(1).sees("A")
    life = recorder.known.current["A"]
    last_number = 3  # transitions until now: A and GONE were detected, and GONE ended
    for entry in range(24):
        last_number += record_transitions(recorder, life, f"E{entry}", at_once=200)
    assert not recorder.is_up()
    disk.works_again()
    eventually(lambda: len(transitions(disk.folder)) > 2, "what was kept")
    first, second, *waited = (number for number, _ in transitions(disk.folder))
    assert (first, second) == (1, 2), "they were on disk before it was full"
    assert waited == list(range(waited[0], last_number + 1)), "the newest, without a gap"
    all_that_waited = last_number - len([first, second])
    assert 1000 < len(waited) < all_that_waited, "some were dropped, but not nearly all"
    recorder.journal.close()
    after = disk.begin(disk.folder)
    assert after.statistics == recorder.statistics
    assert after.known.current.keys() == {"A"}, "GONE has ended meanwhile"


def test_a_flood_is_reported(folder: Path, start: Open) -> None:
    """A full queue drops its oldest entries. As they are lost, the journal is reported as not up,
    although the disk works again.
    """
    recorder = start(folder)
    recorder.sees("A")
    life = recorder.known.current["A"]
    large = replace(life, event=replace(life.event, description="x" * 4096))
    with closing(writable(folder)) as store:
        store.connection.execute("BEGIN IMMEDIATE")
        # The writer waits for this lock, and the entries for the writer.
        entry_bytes = 50 * 4096
        for _ in range(MOST_BYTES // entry_bytes + 1):  # one more than the queue takes
            recorder.journal.record(lives=[large] * 50)
        store.connection.rollback()
    recorder.after(1).sees("A", "B")
    eventually(lambda: history(folder) == ["A", "B"], "what is left on disk")
    assert not recorder.is_up()
    assert recorder.journal.state.errors > 0
