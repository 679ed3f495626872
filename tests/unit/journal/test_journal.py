"""What the journal has after a restart, without a file, and after its retention."""

from pathlib import Path

from support.events.journal_recorder import DAY, MANY, Open, history


def test_survives_a_restart(folder: Path, start: Open) -> None:
    """Lives, counters and undelivered spans are there again after a restart."""
    before = start(folder)
    before.sees("A", "B")
    before.after(5).sees("A")
    before.journal.close()
    after = start(folder)
    assert after.lives == before.lives
    assert after.statistics == before.statistics
    assert {span.name for span in after.journal.queued_spans(MANY).values()} == {
        "detected",
        "scheduled",
        "scheduled_event",
    }
    assert after.journal.spans_queued() == 4, "the beginnings of A and B, and two for B's end"


def test_memory(tmp_path: Path, start: Open) -> None:
    """Without a path, everything works in memory, and the journal reports that it is not on
    disk.
    """
    recorder = start(None)
    recorder.sees("A")
    assert recorder.journal.remembered.statistics == recorder.statistics
    assert not recorder.is_up()
    assert recorder.journal.state.errors == 0
    assert list(tmp_path.iterdir()) == []


def test_counters_stay(folder: Path, start: Open) -> None:
    """After the retention an event is in no history, and still in every counter and
    histogram.
    """
    recorder = start(folder)
    recorder.sees("OLD", "OPEN")
    recorder.after(5).sees("OPEN")
    statistics = recorder.statistics
    recorder.after(91 * DAY)  # one more than the retention
    recorder.journal.maintain(recorder.now, clock_confirmed=lambda: True)
    recorder.journal.close()
    assert history(folder) == ["OPEN"]
    assert start(folder).statistics == statistics
