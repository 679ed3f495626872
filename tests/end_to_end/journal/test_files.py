"""Journal files that are removed, replaced, linked, locked or brought from elsewhere under a
running exporter.
"""

import json
import os
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from email.utils import formatdate
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.simulator import Simulator
from support.events.approve_command import command_line
from support.events.follower import Follower, event
from support.events.journal_contents import history, rows, vm, wait_for_counts
from support.programs import COMMAND, PATIENCE, Exporter, environment, eventually
from support.servers.http_peer import Peer
from trials.storage.image import Image
from trials.trial import polls_on

NOBODY = 65534


def is_refused(url: str, path: Path) -> bool:
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
    """Return a mounted file system of its own.

    Its blocks have 1 KiB, so a page of memory, in which SQLite maps a part of a file, needs several
    blocks.
    """
    with ExitStack() as stack:
        try:
            image = stack.enter_context(Image(tmp_path / "disk", block=1024))
        except OSError as error:
            pytest.skip(f"mounts need root and a loop device: {error}")
        yield image


class TestDisk:
    """The disk of the journal hangs or is full."""

    def test_it_hangs(
        self, disk: Image, run: Callable[..., Exporter], simulator: Simulator
    ) -> None:
        """While the disk does not answer, a Preempt is shown and pushed. Once the disk answers
        again, all events are in the journal, in their order.
        """
        journal = disk.place / "state" / "journal.sqlite"
        with Peer() as alertmanager:
            exporter = run("--alertmanager.url", alertmanager.url, path=journal)
            soon = formatdate(time.time() + 600, usegmt=True)
            with disk.frozen():
                simulator.set_document([event("A")])
                wait_for_counts(exporter, detected=1)
                simulator.set_document([event("A"), event("B", kind="Preempt", not_before=soon)])
                wait_for_counts(exporter, detected=2)
                eventually(
                    lambda: any(b'"B"' in body for _, _, body in alertmanager.requests), "the push"
                )
                assert exporter.scrape().value("journal_up") == 0
                polls_on(exporter, 4)  # still, after the write has waited for seconds
            exporter.shows("the journal on disk", lambda now: now.value("journal_up") == 1)
        assert rows(journal) == [("A", "detected"), ("B", "detected")]

    def test_it_is_full_after_a_kill(
        self, disk: Image, run: Callable[..., Exporter], simulator: Simulator
    ) -> None:
        """After a kill on a full disk, a command and the next exporter read what was written.

        SQLite maps the file ``-shm``, which the killed exporter has left, into memory. If a page of
        that memory finds no room on the full disk, a write to the page ends the process.
        """
        journal = disk.place / "state" / "journal.sqlite"
        simulator.set_document([event("A")])
        killed = run(path=journal)
        wait_for_counts(killed, detected=1)
        disk.fill()
        killed.kill()
        command = [COMMAND, "history", "--journal.path", str(journal), "--json"]
        done = subprocess.run(
            command, check=True, capture_output=True, env=environment(), timeout=PATIENCE
        )
        assert [each["event_id"] for each in json.loads(done.stdout)] == ["A"]
        exporter = run(path=journal)
        wait_for_counts(exporter, detected=1)
        assert exporter.scrape().value("journal_up") == 0
        disk.empty()
        exporter.shows("the journal on disk", lambda now: now.value("journal_up") == 1)
        assert rows(journal) == [("A", "detected")]


class TestOneWriter:
    """No other process can write while the exporter runs, also while it keeps entries in memory."""

    def test_the_lock_is_kept_while_entries_are_in_memory(
        self, run: Callable[..., Exporter], simulator: Simulator, state: Path
    ) -> None:
        """While another program's lock keeps the journal in memory, a second exporter is still
        refused.
        """
        exporter = run()
        with closing(sqlite3.connect(state / "journal.sqlite", isolation_level=None)) as backup:
            backup.execute("BEGIN IMMEDIATE")
            simulator.set_document([event("A")])
            exporter.shows("the trouble", lambda scrape: scrape.value("journal_up") == 0)
            assert is_refused(simulator.url, state)
        exporter.shows("the journal on disk", lambda scrape: scrape.value("journal_up") == 1)
        assert rows(state) == [("A", "detected")]

    def test_a_second_exporter_is_refused_late(
        self, disk: Image, run: Callable[..., Exporter]
    ) -> None:
        """A second exporter runs while the disk does not answer, and ends when it is refused."""
        journal = disk.place / "state" / "journal.sqlite"
        run(path=journal)
        with disk.frozen():
            second = run(path=journal)
        assert second.process.wait(PATIENCE) == 1
        assert "writes the journal" in second.log

    def test_a_link_is_no_second_journal(
        self, run: Callable[..., Exporter], simulator: Simulator, state: Path, tmp_path: Path
    ) -> None:
        """A second exporter on a symbolic link to the journal is refused, whichever part of the
        path is the link.
        """
        run()
        (tmp_path / "folder-link").symlink_to(state)
        (tmp_path / "file-link.sqlite").symlink_to(state / "journal.sqlite")
        for path in ("folder-link", "file-link.sqlite"):
            assert is_refused(simulator.url, tmp_path / path), path

    def test_root_leaves_nothing_in_the_way(
        self, simulator: Simulator, follow: Callable[..., Follower], state: Path
    ) -> None:
        """A follower creates nothing, and what ``approve`` creates as root belongs to the owner of
        the folder.
        """
        if os.geteuid() != 0:
            pytest.fail("this test needs root, to make a folder of somebody else")
        state.mkdir(mode=0o700)
        os.chown(state, NOBODY, NOBODY)
        simulator.set_document([event("A")])
        follow().wait_for(("A", "detected"))
        assert list(state.iterdir()) == []
        command = command_line(simulator.url, state, "A", "--yes")
        # Whatever the command says: its files are what is tested.
        subprocess.run(
            command, check=False, capture_output=True, env=environment(), timeout=2 * PATIENCE
        )
        owners = {path.name: path.stat().st_uid for path in state.iterdir()}
        assert owners, "the command creates files"
        assert {name: owner for name, owner in owners.items() if owner != NOBODY} == {}


class TestAnotherVm:
    """The journal came with a captured image."""

    def test_it_is_set_aside(
        self, run: Callable[..., Exporter], simulator: Simulator, state: Path
    ) -> None:
        """Another VM does not report the first one's events, logs this, and sets the history
        aside.
        """
        first = run()
        # Its NotBefore has passed: where it is missing later, its own VM would report an end.
        simulator.set_document([event("THEIRS", not_before="Mon, 11 Apr 2022 22:26:58 GMT")])
        wait_for_counts(first, detected=1)
        first.kill()
        with Simulator(vm(1)) as other:  # a VM with another vmId
            other.set_document([])
            clone = run(url=other.url)
            clone.wait_for_line("journal belongs to another VM")
            line = clone.wait_for_line("set aside, and a new one begun.*").group()
            polls_on(clone, 4)
            assert clone.scrape().transitions() == {}
            assert not clone.lines("event lost")
            assert not clone.lines("event completed")
            other.set_document([event("OURS")])
            wait_for_counts(clone, detected=1)
        # A moment in digits ends its name; behind those of the files beside it are letters.
        (aside,) = state.glob("*.set-aside-*[0-9]")
        assert "THEIRS" in Path(f"{aside}.documents").read_text()
        assert str(aside) in line
        assert history(aside) == {"THEIRS"}
        assert history(state) == {"OURS"}
