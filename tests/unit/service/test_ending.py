"""The end of the process when a thread has failed and another one hangs."""

import subprocess
import sys
import time

CODE = """
import threading, time
from azure_scheduled_events_exporter.service.ending import Ending
print("begins", flush=True)
threading.Thread(target=time.sleep, args=(60,)).start()
Ending().fail()
"""


def test_a_thread_that_hangs_does_not_keep_the_process() -> None:
    """After an internal error the process ends within two seconds, with status 1: its supervisor
    must start it again.
    """
    with subprocess.Popen([sys.executable, "-c", CODE], stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        began = time.monotonic()
        assert process.wait(60) == 1
        assert time.monotonic() - began < 30, "2 s on a machine that is not busy with tests"
