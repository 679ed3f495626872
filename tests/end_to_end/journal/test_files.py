"""Journal files that are removed, replaced, linked, locked or brought from elsewhere under a running exporter."""

import os
import shutil
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.core.spans import trace_id
from azure_scheduled_events_exporter.simulator import Simulator
from support.events.follower import FAST, Follower, event, settled
from support.events.gate import Nameless
from support.events.journal_contents import counted, history, rows, vm
from support.programs import COMMAND, PATIENCE, Exporter, environment, eventually, fetch
from trials.storage.image import Image
from trials.trial import polls_on

NOBODY = 65534


def refused(url: str, path: Path) -> bool:
    """Return whether an exporter on this journal is refused, because another one writes it."""
    command = [COMMAND, "run", "--imds.endpoint", url, "--web.listen-address", "127.0.0.1:0"]
    done = subprocess.run(
        [*command, "--journal.path", str(path)],
        check=False,
        capture_output=True,
        text=True,
        env=environment(),
        timeout=PATIENCE,
    )
    return done.returncode == 1 and "writes the journal" in done.stderr


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Image]:
    """Return a mounted file system of its own."""
    with ExitStack() as stack:
        try:
            image = stack.enter_context(Image(tmp_path / "disk"))
        except OSError as error:
            pytest.skip(f"mounts need root and a loop device: {error}")
        yield image


class TestDiskIsBack:
    """The disk did not work at the start, and its record is older."""

    def test_what_the_disk_knows_wins(
        self, run: Callable[..., Exporter], simulator: Simulator, state: Path, tmp_path: Path
    ) -> None:
        """Each transition is counted once, an event ends once, and is as old and as approved as the disk says."""
        exporter = run()
        simulator.set_document([event("E1"), event("E2"), event("E3")])
        counted(exporter, detected=3)
        command = [COMMAND, "approve", "--imds.endpoint", simulator.url, "--journal.path", str(state), "E1", "--yes"]
        simulator.set_document([event("E1"), event("E2"), event("E3")])
        subprocess.run(command, check=False, capture_output=True, env=environment(), timeout=2 * PATIENCE)
        approved = exporter.scrape().total("event_approved") == 1
        simulator.set_document([event("E1"), event("E3")])
        counted(exporter, detected=3, cancelled=1, **({"approved": 1} if approved else {}))
        first_seen = exporter.scrape().value("event_first_seen_timestamp_seconds", event_id="E1")
        exporter.kill()
        state.rename(tmp_path / "away")
        state.write_text("a file in the way")
        eventually(lambda: time.time() > (first_seen or 0) + 2, "a later moment")
        simulator.set_document([event("E1"), event("E2"), event("E3")])
        exporter = run(path=state / "journal.sqlite")
        counted(exporter, detected=3)
        simulator.set_document([event("E1")])
        eventually(lambda: exporter.scrape().transitions().get("cancelled") == 2, "two ends in memory")
        state.unlink()
        (tmp_path / "away").rename(state)
        exporter.shows("the journal on disk", lambda scrape: scrape.value("journal_up") == 1)
        polls_on(exporter, 4)
        scrape = exporter.scrape()
        # E2 was called off before, and again in memory; E3 in memory only.
        twice = [row for row, count in Counter(rows(state)).items() if count > 1]
        assert twice == []
        ends = Counter(event_id for event_id, transition in rows(state) if transition in {"cancelled", "lost"})
        assert all(count == 1 for count in ends.values()), ends
        assert scrape.value("event_first_seen_timestamp_seconds", event_id="E1") == first_seen
        assert scrape.total("event_approved") == approved
        assert scrape.transitions() == Counter(transition for _, transition in rows(state))
        exporter.kill()
        assert run().scrape().transitions() == scrape.transitions()

    @pytest.mark.parametrize("ends", ["fails first", "is pulled out"])
    def test_a_disk_that_is_mounted_again(
        self, run: Callable[..., Exporter], simulator: Simulator, disk: Image, ends: str
    ) -> None:
        """While the disk is not mounted, no other journal is begun in its place, and the disk's history continues."""
        journal = disk.place / "state" / "journal.sqlite"
        exporter = run(path=journal)
        simulator.set_document([event("E1")])
        counted(exporter, detected=1)
        if ends == "fails first":
            disk.fails()
            simulator.set_document([event("E1"), event("E2")])
            exporter.shows("entries in memory", lambda now: now.value("journal_up") == 0)
            disk.unmount()
        else:
            disk.pull_out()
            exporter.shows("entries in memory", lambda now: now.value("journal_up") == 0)
            simulator.set_document([event("E1"), event("E2")])
        counted(exporter, detected=2)
        failures = exporter.scrape().total("journal_errors_total")
        exporter.shows("an attempt", lambda now: now.total("journal_errors_total") > failures)
        assert list(disk.place.iterdir()) == []
        disk.mount()
        exporter.shows("the journal on disk", lambda now: now.value("journal_up") == 1)
        assert exporter.scrape().transitions() == {"detected": 2}
        exporter.kill()
        assert sorted(rows(journal)) == [("E1", "detected"), ("E2", "detected")]
        assert [path.name for path in journal.parent.iterdir() if "set-aside" in path.name] == []

    def test_a_disk_that_is_mounted_after_the_start(
        self, run: Callable[..., Exporter], simulator: Simulator, disk: Image
    ) -> None:
        """What was recorded in the mount point is added to the history on the disk, which stays in its place."""
        journal = disk.place / "state" / "journal.sqlite"
        exporter = run(path=journal)
        simulator.set_document([event("OVER"), event("E1")])
        counted(exporter, detected=2)
        simulator.set_document([event("E1")])
        counted(exporter, detected=2, cancelled=1)
        exporter.kill()
        disk.unmount()
        exporter = run(path=journal)
        simulator.set_document([event("E1"), event("E2")])
        counted(exporter, detected=2)
        disk.mount()
        counted(exporter, detected=3, cancelled=1)
        exporter.shows("the journal on disk", lambda now: now.value("journal_up") == 1)
        exporter.kill()
        expected = [("E1", "detected"), ("E2", "detected"), ("OVER", "cancelled"), ("OVER", "detected")]
        assert sorted(rows(journal)) == expected
        assert [path.name for path in journal.parent.iterdir() if "set-aside" in path.name] == []

    def test_while_imds_is_away(
        self,
        run: Callable[..., Exporter],
        start_exporter: Callable[..., Exporter],
        simulator: Simulator,
        state: Path,
        tmp_path: Path,
    ) -> None:
        """Events on the disk are on the page as soon as it is back, and in metrics once IMDS shows them."""
        exporter = run()
        simulator.set_document([event("OVER"), event("A")])
        counted(exporter, detected=2)
        simulator.set_document([event("A")])
        counted(exporter, detected=2, cancelled=1)
        exporter.kill()
        state.rename(tmp_path / "away")
        state.write_text("a file in the way")
        simulator.inject("500")
        exporter = start_exporter(simulator.url, *FAST, "--journal.path", str(state / "journal.sqlite"))
        exporter.shows("failed polls", lambda scrape: scrape.value("polls_total", outcome="http_error"))
        state.unlink()
        (tmp_path / "away").rename(state)
        exporter.shows("the journal on disk", lambda scrape: scrape.value("journal_up") == 1)
        scrape = exporter.scrape()
        assert (scrape.value("up"), scrape.series("event_info")) == (0, [])
        assert scrape.value("event_ended_timestamp_seconds", event_id="OVER", outcome="cancelled")
        page = fetch(f"{exporter.url}/").body.decode()
        assert f'id="life-{trace_id("OVER")}-' in page
        assert f'id="event-{trace_id("A")}' in page
        simulator.heal()
        exporter.shows("an answer", lambda scrape: scrape.value("up"))
        assert exporter.scrape().total("event_info", event_id="A") == 1


class TestOneWriter:
    """No other process can write while the exporter runs, also while it keeps entries in memory."""

    def test_the_lock_is_kept_in_memory(self, run: Callable[..., Exporter], simulator: Simulator, state: Path) -> None:
        """While a disk error keeps the journal in memory, a second exporter is still refused."""
        exporter = run()
        with closing(sqlite3.connect(state / "journal.sqlite", isolation_level=None)) as backup:
            backup.execute("BEGIN IMMEDIATE")
            simulator.set_document([event("A")])
            exporter.shows("the trouble", lambda scrape: scrape.value("journal_up") == 0)
            assert refused(simulator.url, state)
        exporter.shows("the journal on disk", lambda scrape: scrape.value("journal_up") == 1)
        assert rows(state) == [("A", "detected")]

    def test_a_document_from_meanwhile(self, run: Callable[..., Exporter], simulator: Simulator, state: Path) -> None:
        """A document that came while the disk was away is kept once the disk is back, if it is still the newest."""
        exporter = run()
        with closing(sqlite3.connect(state / "journal.sqlite", isolation_level=None)) as backup:
            backup.execute("BEGIN IMMEDIATE")
            simulator.set_document([event("A")])
            exporter.shows("the trouble", lambda scrape: scrape.value("journal_up") == 0)
        with closing(sqlite3.connect(state / "journal.sqlite")) as reader:
            kept = "SELECT count(*) FROM documents WHERE CAST(body AS TEXT) LIKE '%\"A\"%'"
            eventually(lambda: reader.execute(kept).fetchone() == (1,), "the document")

    def test_a_link_is_no_second_journal(
        self, run: Callable[..., Exporter], simulator: Simulator, state: Path, tmp_path: Path
    ) -> None:
        """A second exporter on a symbolic link to the journal is refused, whichever part of the path is the link."""
        run()
        (tmp_path / "folder-link").symlink_to(state)
        (tmp_path / "file-link.sqlite").symlink_to(state / "journal.sqlite")
        for path in ("folder-link", "file-link.sqlite"):
            assert refused(simulator.url, tmp_path / path), path

    def test_root_leaves_nothing_in_the_way(
        self, simulator: Simulator, follow: Callable[..., Follower], state: Path
    ) -> None:
        """A follower creates nothing, and what ``approve`` creates as root belongs to the owner of the folder."""
        if os.geteuid() != 0:
            pytest.fail("this test needs root, to make a folder of somebody else")
        state.mkdir(mode=0o700)
        os.chown(state, NOBODY, NOBODY)
        simulator.set_document([event("A")])
        follow().wait_for(("A", "detected"))
        assert list(state.iterdir()) == []
        command = [COMMAND, "approve", "--imds.endpoint", simulator.url, "--journal.path", str(state), "A", "--yes"]
        subprocess.run(command, check=False, capture_output=True, env=environment(), timeout=2 * PATIENCE)
        assert {path.stat().st_uid for path in state.iterdir()} == {NOBODY}


def everything(folder: Path) -> None:
    """Remove the journal, its logs and its lock."""
    for path in folder.iterdir():
        path.unlink()


def the_folder(folder: Path) -> None:
    """Remove the folder too."""
    shutil.rmtree(folder)


def the_logs(folder: Path) -> None:
    """Remove the write-ahead log and its index."""
    for suffix in ("-wal", "-shm"):
        (folder / f"journal.sqlite{suffix}").unlink()


def replaced(folder: Path) -> None:
    """Put an older copy of the journal in its place."""
    with closing(sqlite3.connect(folder / "journal.sqlite")) as journal, closing(sqlite3.connect(folder / "x")) as copy:
        journal.backup(copy)
    (folder / "x").replace(folder / "journal.sqlite")


def linked(folder: Path) -> None:
    """Give the journal a second name, as some backups do."""
    os.link(folder / "journal.sqlite", folder / "journal.sqlite.backup")


class TestRemoved:
    """Somebody removes or replaces the files of a journal that is open."""

    @pytest.mark.parametrize("remove", [everything, the_folder, the_logs, replaced, linked], ids=lambda f: f.__name__)
    def test_nothing_is_lost(
        self,
        remove: Callable[[Path], None],
        run: Callable[..., Exporter],
        follow: Callable[..., Follower],
        simulator: Simulator,
        state: Path,
    ) -> None:
        """The journal is written again at the next poll, with its whole history, and a restart repeats nothing."""
        exporter = run()
        simulator.set_document([event("OLD"), event("A")])
        counted(exporter, detected=2)
        simulator.set_document([event("A")])
        counted(exporter, detected=2, cancelled=1)
        follower = follow()
        settled(follower)
        before = (state / "journal.sqlite").stat().st_ino
        # A poll between two removals would write it again twice.
        exporter.process.send_signal(signal.SIGSTOP)
        remove(state)
        exporter.process.send_signal(signal.SIGCONT)
        eventually(
            lambda: (state / "journal.sqlite").exists() and (state / "journal.sqlite").stat().st_ino != before,
            "the journal written again",
        )
        if remove is not linked:
            exporter.shows("the error", lambda scrape: scrape.value("journal_errors_total") == 1)
        simulator.set_document([event("A"), event("B")])
        scrape = counted(exporter, detected=3, cancelled=1)
        assert scrape.value("journal_up") == 1
        follower.wait_for(("B", "detected"))
        everything_known = [("OLD", "detected"), ("A", "detected"), ("OLD", "cancelled"), ("B", "detected")]
        assert rows(state) == everything_known
        exporter.kill()
        counted(run(), detected=3, cancelled=1)
        assert rows(state) == everything_known

    def test_a_follower_remembers(
        self, run: Callable[..., Exporter], follow: Callable[..., Follower], simulator: Simulator, state: Path
    ) -> None:
        """A follower repeats nothing if the exporter is slow to write the removed journal again."""
        exporter = run()
        simulator.set_document([event("A")])
        counted(exporter, detected=1)
        follower = follow()
        settled(follower)
        exporter.process.send_signal(signal.SIGSTOP)
        the_folder(state)
        asked = len(simulator.requests)
        eventually(lambda: len(simulator.requests) > asked + 4, "polls of the follower's own")
        exporter.process.send_signal(signal.SIGCONT)
        exporter.shows("the error", lambda scrape: scrape.value("journal_errors_total") == 1)
        simulator.set_document([event("A"), event("B")])
        follower.wait_for(("B", "detected"))


class TestAnotherVm:
    """The journal came with a captured image."""

    def test_it_is_set_aside(self, run: Callable[..., Exporter], simulator: Simulator, state: Path) -> None:
        """Another VM does not report the first one's events, logs this, and sets the history aside."""
        first = run()
        simulator.set_document([event("THEIRS", not_before="Mon, 11 Apr 2022 22:26:58 GMT")])
        counted(first, detected=1)
        first.kill()
        with Simulator(vm(1)) as other:
            other.set_document([])
            clone = run(url=other.url)
            line = clone.wait_for_line("journal belongs to another VM: set aside.*").group()
            polls_on(clone, 4)
            assert clone.scrape().transitions() == {}
            assert not clone.lines("event lost")
            assert not clone.lines("event completed")
            other.set_document([event("OURS")])
            counted(clone, detected=1)
        (aside,) = [path for path in state.glob("*.set-aside-*") if path.name[-4:] not in {"-wal", "-shm"}]
        assert str(aside) in line
        assert history(aside) == {"THEIRS"}
        assert history(state) == {"OURS"}

    def test_the_disk_fails_before_the_name(
        self, run: Callable[..., Exporter], simulator: Simulator, state: Path
    ) -> None:
        """Nothing of the other VM's events is reported either if the disk fails before IMDS tells this VM's id."""
        first = run()
        simulator.set_document([event("THEIRS")])
        counted(first, detected=1)
        first.kill()
        with Simulator(vm(1)) as other, Nameless(other.url) as gate:
            other.set_document([event("THEIRS")])
            clone = run(url=gate.url)
            clone.shows("the events", lambda scrape: scrape.total("event_info") == 1)
            with closing(sqlite3.connect(state / "journal.sqlite", isolation_level=None)) as backup:
                backup.execute("BEGIN IMMEDIATE")
                other.set_document([event("OURS")])
                clone.shows("the trouble", lambda scrape: scrape.value("journal_up") == 0)
                assert clone.scrape().transitions()["cancelled"] == 1  # not known to be another VM's
                gate.named = True
                clone.shows("its own events", lambda scrape: scrape.transitions() == {"detected": 1})
            clone.shows("the journal on disk", lambda scrape: scrape.value("journal_up") == 1)
            counted(clone, detected=1)
        assert history(state) == {"OURS"}

    def test_the_same_vm_keeps_it(self, run: Callable[..., Exporter], simulator: Simulator, state: Path) -> None:
        """A restart on the same VM keeps its journal."""
        exporter = run()
        simulator.set_document([event("OURS")])
        counted(exporter, detected=1)
        exporter.kill()
        counted(run(), detected=1)
        assert not list(state.glob("*.set-aside-*"))
