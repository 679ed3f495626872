"""The tables of a journal that several processes make at once."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier

from azure_scheduled_events_exporter.journal.tables.schema import check_schema

WRITERS = 4
"""Threads, each with a connection of its own: SQLite treats them as it treats processes."""


def test_several_make_the_tables_at_once(tmp_path: Path) -> None:
    """If an exporter, a hook and ``approve`` open an empty file at once, all find the tables then.

    The file is in WAL mode before: while one process changes the mode, SQLite gives the others an
    error at once, and does not let them wait.
    """
    for number in range(10):  # writers collide by chance, so there are several attempts
        file = tmp_path / str(number)
        with closing(sqlite3.connect(file)) as first:
            first.execute("PRAGMA journal_mode = WAL")
        all_are_ready = Barrier(WRITERS)
        with ThreadPoolExecutor(WRITERS) as pool:
            runs = [pool.submit(make_tables, file, all_are_ready) for _ in range(WRITERS)]
        for run in runs:
            run.result()  # raises what the thread has raised


def make_tables(file: Path, all_are_ready: Barrier) -> None:
    """Make the tables at the same time as all others, and read one of them."""
    with closing(sqlite3.connect(file)) as connection:
        all_are_ready.wait()
        check_schema(connection, creates=True)
        assert connection.execute("SELECT * FROM lives").fetchall() == []
