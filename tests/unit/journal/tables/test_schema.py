"""The tables of a journal that several processes make at once."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier

from azure_scheduled_events_exporter.journal.tables.schema import check_schema

PROCESSES = 4


def test_several_make_it_at_once(tmp_path: Path) -> None:
    """An exporter, a hook and ``approve`` that find an empty file all find the tables in it then.

    Only the mode of the file is set before: SQLite lets nobody wait for that.
    """
    for number in range(10):
        file = tmp_path / str(number)
        with closing(sqlite3.connect(file)) as first:
            first.execute("PRAGMA journal_mode = WAL")
        together = Barrier(PROCESSES)

        def make(file: Path = file, together: Barrier = together) -> int:
            with closing(sqlite3.connect(file)) as connection:
                together.wait()
                check_schema(connection, creates=True)
                (tables,) = connection.execute("SELECT count(*) FROM lives").fetchone()
                return int(tables)

        with ThreadPoolExecutor(PROCESSES) as pool:
            assert list(pool.map(lambda _: make(), range(PROCESSES))) == [0] * PROCESSES
