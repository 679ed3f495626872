"""A file that cannot be used is renamed, and a new one begun."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.journal.journal import Journal
from support.events.journal_recorder import (
    DAY,
    LOG,
    MANY,
    Open,
    bit_rot,
    history,
    set_aside,
    transitions,
)
from support.programs import eventually

SET_ASIDE = "journal cannot be used: set aside, and a new one begun"


def corrupted(path: Path) -> None:
    """Change as many bytes as a page has, from the second page on."""
    content = path.read_bytes()
    start = 4200
    page = 4096
    path.write_bytes(content[:start] + b"\xff" * page + content[start + page :])


def without_a_table(path: Path) -> None:
    """Remove one table."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE lives")


def of_a_newer_version(path: Path) -> None:
    """Set the next version of the schema: this program writes 1."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 2")


def of_another_program(path: Path) -> None:
    """Put another database there."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE photographs (taken REAL)")


def with_an_unknown_field(path: Path) -> None:
    """Let a life have a field that this version does not know."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("""UPDATE lives SET life = '{"nonsense": 1}' WHERE event_id = 'E7'""")


DAMAGES = [
    corrupted,
    bit_rot,
    without_a_table,
    of_a_newer_version,
    of_another_program,
    with_an_unknown_field,
]


def leave_a_damaged_journal(damage: Callable[[Path], None], folder: Path, start: Open) -> None:
    """Write a journal of the events E0 to E39, which fill several pages; close and damage it."""
    before = start(folder)
    before.sees(*(f"E{number}" for number in range(40)))
    before.journal.close()
    damage(folder / "journal.sqlite")


@pytest.mark.parametrize("damage", DAMAGES)
def test_only_the_exporter_renames(
    damage: Callable[[Path], None], folder: Path, start: Open
) -> None:
    """If a command such as ``approve`` cannot use the file, it reports that, and leaves the file
    where it is.
    """
    leave_a_damaged_journal(damage, folder, start)
    with closing(Journal(folder, 90 * DAY, LOG, renames=False)) as journal:
        refusal = eventually(lambda: journal.refusal, "the refusal")
    assert str(folder / "journal.sqlite") in str(refusal)
    assert set_aside(folder) == []


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_unusable_file_at_the_start(
    damage: Callable[[Path], None],
    folder: Path,
    start: Open,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """If the exporter cannot use the file when it starts, it keeps that file under another name,
    logs an error, and begins an empty journal: nothing of the old one has been read.
    """
    leave_a_damaged_journal(damage, folder, start)
    recorder = start(folder)
    assert recorder.is_up()
    assert recorder.detected == 0
    recorder.sees("NEW")
    assert history(folder) == ["NEW"]
    (record,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert record.message == SET_ASIDE
    assert len(list(folder.glob("journal.sqlite.set-aside-*"))) == 1


def test_only_the_newest_files_set_aside_are_kept(folder: Path, start: Open) -> None:
    """A disk that damages the journal again and again is not filled: the three newest journals
    that were set aside are kept. What the user has renamed stays.
    """
    folder.mkdir()
    of_the_user = folder / "journal.sqlite.set-aside-for-the-vendor"
    of_the_user.write_text("a file of the user")
    moments = [f"20260101T00000{number}.000000" for number in range(5)]
    for moment in moments:
        for suffix in ("", "-wal", ".documents"):
            (folder / f"journal.sqlite.set-aside-{moment}{suffix}").write_text("old")
    of_another_program(folder / "journal.sqlite")
    start(folder).sees("NEW")
    names = {path.name for path in folder.glob("*set-aside*")}
    two_newest = {
        f"journal.sqlite.set-aside-{moment}{suffix}"
        for moment in moments[-2:]
        for suffix in ("", "-wal", ".documents")
    }
    assert names > two_newest | {of_the_user.name}
    # The third is the journal that was set aside now, which has no files beside it.
    (set_aside_now,) = names - two_newest - {of_the_user.name}
    assert not any(moment in set_aside_now for moment in moments)


def removed(path: Path) -> None:
    """Remove the file, and all others in its folder."""
    for each in path.parent.iterdir():
        each.unlink()


def replaced_by_a_copy(path: Path) -> None:
    """Put the file ``copy`` of its folder there."""
    (path.parent / "copy").replace(path)


def without_logs(path: Path) -> None:
    """Remove the files that SQLite keeps beside it."""
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink()


@pytest.mark.parametrize("damage", [without_a_table, removed, replaced_by_a_copy, without_logs])
def test_a_file_that_is_lost_in_use(
    damage: Callable[[Path], None], folder: Path, start: Open
) -> None:
    """If the file is damaged, removed or replaced while it is in use, the new one has counters,
    current events and ended events of the lost one, and continues the numbers of its transitions.
    """
    file = folder / "journal.sqlite"
    recorder = start(folder)
    recorder.sees("OLD")
    # The state of now, which replaced_by_a_copy puts in the place of a later one.
    with (
        closing(sqlite3.connect(file)) as source,
        closing(sqlite3.connect(folder / "copy")) as copy,
    ):
        source.backup(copy)
    recorder.after(5).sees("A")
    damage(file)
    recorder.journal.maintain(recorder.now, clock_confirmed=lambda: False)  # looks at the file
    recorder.after(5).sees("A", "B")
    recorder.regains_disk()
    *_, (last_number, _) = transitions(folder)
    assert last_number == 4, (
        "1 is the beginning of OLD, 2 and 3 that of A and the end of OLD, 4 is B"
    )
    recorder.journal.close()
    after = start(folder)
    assert (after.statistics, after.lives) == (recorder.statistics, recorder.lives)


@pytest.mark.parametrize("content", ["'x'", "CAST(x'6AFC' AS TEXT)"], ids=["not JSON", "not UTF-8"])
def test_one_unreadable_span(content: str, folder: Path, start: Open) -> None:
    """A span whose content is damaged holds up no other one."""
    recorder = start(folder)
    recorder.sees("A", "B")
    recorder.after(5).sees()
    count = recorder.journal.spans_queued()
    with closing(sqlite3.connect(folder / "journal.sqlite")) as connection, connection:
        newest = "(SELECT max(rowid) FROM spans)"
        connection.execute(f"UPDATE spans SET span = {content} WHERE rowid = {newest}")  # noqa: S608 - ours
    # The journal reads what another connection has changed.
    recorder.journal.maintain(recorder.now, clock_confirmed=lambda: False)
    # Asking for the spans removes one that cannot be read.
    eventually(lambda: len(recorder.journal.queued_spans(MANY)) == count - 1, "the others")
    eventually(lambda: recorder.journal.spans_queued() == count - 1, "it waits no longer")
