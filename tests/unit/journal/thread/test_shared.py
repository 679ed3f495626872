"""How long a caller waits for the disk."""

import signal
import subprocess
import sys
import time
from pathlib import Path

from azure_scheduled_events_exporter.journal.thread.shared import WAIT_SECONDS

PROGRAM = """
import logging, sys, threading, time
from contextlib import closing
from pathlib import Path
from azure_scheduled_events_exporter.journal.access import writable
from azure_scheduled_events_exporter.journal.journal import Journal
folder = Path(sys.argv[1])
journal = Journal(folder, 86400.0, logging.getLogger())
assert journal.wait_until_read(60) and journal.adopt()
journal.record()
with closing(writable(folder)) as store:
    store.connection.execute("BEGIN IMMEDIATE")
    def release() -> None:
        # In steps: one long sleep would run out while the process is stopped.
        for _ in range(6):
            time.sleep(0.1)
        store.connection.rollback()
    threading.Thread(target=release).start()
    print("waits", flush=True)
    journal.record()
print("up" if journal.state.up else "down", flush=True)
journal.close()
"""
"""Writes an entry while it holds the journal's write lock itself, for 0.6 s in which it runs, and
prints whether the entry was then on disk in time.
"""


def test_a_pause_of_the_vm_is_no_hanging_disk(folder: Path) -> None:
    """If the process is stopped while it waits for the disk, for longer than anybody waits for a
    disk, then the time in which it was stopped does not count.
    """
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "waits\n"
        time.sleep(0.3)  # half of the time for which it waits for its own lock
        # All clocks go on, as on a host that pauses a VM.
        process.send_signal(signal.SIGSTOP)
        time.sleep(WAIT_SECONDS + 1)
        process.send_signal(signal.SIGCONT)
        assert process.stdout.readline() == "up\n"
