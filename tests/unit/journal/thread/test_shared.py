"""How long a caller waits for the disk."""

import signal
import subprocess
import sys
import time
from pathlib import Path

from azure_scheduled_events_exporter.journal.thread.shared import WAIT_SECONDS


def test_a_pause_of_the_vm_is_no_hanging_disk(folder: Path) -> None:
    """A writer that was stopped together with the one who waits still has all its time afterwards.

    The process waits 0.6 s for its own lock; it is stopped in the middle, for longer than anybody
    waits for a disk.
    """
    code = """
import logging, os, signal, sys, threading, time
from pathlib import Path
from azure_scheduled_events_exporter.journal.journal import Journal
journal = Journal(Path(sys.argv[1]), 86400.0, logging.getLogger())
assert journal.wait_until_read(60) and journal.adopt()
journal.record()
from contextlib import closing
from azure_scheduled_events_exporter.journal.access import writable
with closing(writable(Path(sys.argv[1]))) as store:
    store.connection.execute("BEGIN IMMEDIATE")
    # In steps: one long sleep would run out while the process is stopped.
    def ends() -> None:
        for _ in range(6):
            time.sleep(0.1)
        store.connection.rollback()
    threading.Thread(target=ends).start()
    print("waits", flush=True)
    journal.record()
print("up" if journal.state.up else "down", flush=True)
journal.close()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "waits\n"
        time.sleep(0.3)  # so that it waits for its entry
        # All clocks go on, as on a host that pauses a VM.
        process.send_signal(signal.SIGSTOP)
        time.sleep(WAIT_SECONDS + 1)
        process.send_signal(signal.SIGCONT)
        assert process.stdout.readline() == "up\n"
