"""Followers of a journal that is set aside or begun anew, and what ``--since`` carries across gaps
of the exporter.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from azure_scheduled_events_exporter.simulator import Simulator
from support.events.follower import Follower, event
from support.events.journal_contents import rows, wait_for_counts
from support.programs import Exporter, eventually
from trials.storage.disk import Foreign, Locked


def one_detected(
    run: Callable[..., Exporter], follow: Callable[..., Follower], simulator: Simulator
) -> tuple[Exporter, Follower]:
    """Return an exporter that has counted event A, and a follower that has printed it."""
    exporter = run()
    simulator.set_document([event("A")])
    wait_for_counts(exporter, detected=1)
    follower = follow("--since", "0")
    follower.wait_for(("A", "detected"))
    return exporter, follower


class TestDamage:
    """The journal is set aside while followers read it."""

    def test_a_follower_is_not_left_behind(
        self,
        run: Callable[..., Exporter],
        follow: Callable[..., Follower],
        simulator: Simulator,
        state: Path,
    ) -> None:
        """When a foreign database has taken the journal's place, the exporter begins a new journal,
        with the transition whose write found the damage. A follower reads on in this one, and the
        numbers continue.
        """
        exporter, follower = one_detected(run, follow, simulator)
        Foreign(None, state / "journal.sqlite").begins()  # type: ignore[arg-type] # it needs no disk of its own
        simulator.set_document([event("A"), event("B")])
        wait_for_counts(exporter, detected=2)
        simulator.set_document([event("A"), event("B"), event("C")])
        wait_for_counts(exporter, detected=3)
        follower.wait_for(("A", "detected"), ("B", "detected"), ("C", "detected"))
        assert [line["seq"] for line in follower.printed] == [1, 2, 3]
        assert rows(state) == [("B", "detected"), ("C", "detected")]
        again = follow("--since", follower.printed[1]["cursor"])
        again.wait_for(("C", "detected"))
        assert exporter.scrape().value("journal_up") == 1


class TestPosition:
    """What ``--since`` carries."""

    def test_a_cursor_knows_its_journal(
        self,
        run: Callable[..., Exporter],
        follow: Callable[..., Follower],
        simulator: Simulator,
        state: Path,
    ) -> None:
        """With the cursor of a journal that is gone, a follower begins with the first transition of
        the new one.
        """
        exporter, follower = one_detected(run, follow, simulator)
        cursor = follower.printed[0]["cursor"]
        follower.kill()
        exporter.kill()
        shutil.rmtree(state)
        simulator.set_document([event("A"), event("B"), event("C")])
        wait_for_counts(run(), detected=3)
        follow("--since", cursor).wait_for(("A", "detected"), ("B", "detected"), ("C", "detected"))

    def test_a_cursor_knows_the_time_of_its_line(
        self,
        run: Callable[..., Exporter],
        follow: Callable[..., Follower],
        simulator: Simulator,
        state: Path,
    ) -> None:
        """An older copy of the journal lacks the last line that a follower printed. An exporter
        that goes on with the copy gives the number of that line to another transition. The cursor
        has the time of the line, too, so the follower prints every line that the copy got.
        """
        exporter, first = one_detected(run, follow, simulator)
        first.kill()
        exporter.terminate()
        copy = state.with_name("copy")
        shutil.copytree(state, copy)
        exporter = run()
        simulator.set_document([event("A"), event("B")])
        wait_for_counts(exporter, detected=2)
        second = follow("--since", "0")
        second.wait_for(("A", "detected"), ("B", "detected"))
        cursor = second.printed[1]["cursor"]
        second.kill()
        exporter.kill()
        shutil.rmtree(state)
        copy.rename(state)
        simulator.set_document([event("A"), event("C"), event("D")])
        wait_for_counts(run(), detected=3)
        assert rows(state) == [("A", "detected"), ("C", "detected"), ("D", "detected")]
        follow("--since", cursor).wait_for(("C", "detected"), ("D", "detected"))


class TestFollowers:
    """Followers while the disk does not work, and without a journal."""

    def test_the_exporter_cannot_write(
        self,
        run: Callable[..., Exporter],
        follow: Callable[..., Follower],
        simulator: Simulator,
        state: Path,
    ) -> None:
        """What waits for the journal is printed once, when the exporter can write it again."""
        exporter, follower = one_detected(run, follow, simulator)
        trouble = Locked(None, state / "journal.sqlite")  # type: ignore[arg-type] # it needs no disk of its own
        trouble.begins()
        simulator.set_document([event("A"), event("B")])
        exporter.shows("the journal in memory", lambda scrape: scrape.value("journal_up") == 0)
        trouble.ends()
        exporter.shows("the journal on disk", lambda scrape: scrape.value("journal_up") == 1)
        simulator.set_document([event("A"), event("B"), event("C")])
        once_each = [("A", "detected"), ("B", "detected"), ("C", "detected")]
        follower.wait_for(*once_each)
        eventually(lambda: rows(state) == once_each, "everything in the journal")

    def test_there_and_back(self, follow: Callable[..., Follower], simulator: Simulator) -> None:
        """A follower that polls by itself, without an exporter, reports each of three reschedules,
        also the one that goes back to the first NotBefore.
        """
        at_first = "Mon, 11 Apr 2072 22:26:58 GMT"
        an_hour_later = "Mon, 11 Apr 2072 23:26:58 GMT"
        simulator.set_document([event("A", not_before=at_first)])
        follower = follow()
        follower.wait_for(("A", "detected"))
        expected = [("A", "detected")]
        for not_before in (an_hour_later, at_first, an_hour_later):
            simulator.set_document([event("A", not_before=not_before)])
            expected.append(("A", "rescheduled"))
            follower.wait_for(*expected)
