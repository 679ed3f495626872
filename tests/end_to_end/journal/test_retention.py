"""What a running exporter removes from its journal by age, with a right and a wrong clock."""

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from azure_scheduled_events_exporter.simulator import Simulator
from support.events.follower import event
from support.events.journal_contents import history, wait_for_counts
from support.programs import Exporter, eventually
from trials.clock import WallClock
from trials.trial import polls_on


class TestClock:
    """A restart with the clock of this machine, or with a wrong one."""

    def test_history_is_not_removed(
        self, run: Callable[..., Exporter], simulator: Simulator, state: Path, tmp_path: Path
    ) -> None:
        """With a clock that is 100 days ahead, more than the retention, nothing is removed, since
        IMDS' own clock does not confirm it.
        """
        exporter = run()
        simulator.set_document([event("OLD")])
        wait_for_counts(exporter, detected=1)
        simulator.set_document([])
        wait_for_counts(exporter, detected=1, cancelled=1)
        exporter.kill()
        clock = WallClock(tmp_path / "faketime")
        clock.set(100 * 86_400)
        exporter = run(**clock.environment)
        polls_on(exporter, 4)  # entries are removed while the exporter polls
        exporter.kill()
        assert history(state) == {"OLD"}

    def test_old_entries_are_removed(
        self, run: Callable[..., Exporter], simulator: Simulator, state: Path
    ) -> None:
        """With a correct clock, entries older than the retention are removed, and still counted."""
        exporter = run()
        simulator.set_document([event("OLD"), event("NEWER")])
        wait_for_counts(exporter, detected=2)
        simulator.set_document([])
        wait_for_counts(exporter, detected=2, cancelled=2)
        exporter.kill()
        with closing(sqlite3.connect(state / "journal.sqlite")) as connection, connection:
            now = time.time()
            old = (now - 200 * 86_400, "OLD")
            connection.execute("UPDATE transitions SET wall = ? WHERE instr(record, ?)", old)
            connection.execute("UPDATE lives SET ended = ? WHERE event_id = ?", old)
        exporter = run()
        eventually(lambda: history(state) == {"NEWER"}, "the old entry is removed")
        polls_on(exporter, 4)
        assert history(state) == {"NEWER"}, "nothing else is removed later"
        wait_for_counts(exporter, detected=2, cancelled=2)
