"""The end of the process when a part of it hangs, or when it can start no thread."""

import subprocess
import sys
import time

FAILS = """
import asyncio, threading, time
from azure_scheduled_events_exporter.service.ending import Ending

async def run():
    ending = Ending()
    ending.attach()
    print("begins", flush=True)
    threading.Thread(target=time.sleep, args=(60,)).start()
    ending.fail()

asyncio.run(run())
"""

GETS_A_SIGNAL = """
import asyncio, os, signal, sys, threading
from azure_scheduled_events_exporter.service.ending import Ending

async def run():
    ending.attach()
    threading.stack_size(1 << 46)  # bytes; no system gives a thread so many
    os.kill(os.getpid(), signal.SIGTERM)
    await ending.wait()
    print("ended in order")
    return ending.status

ending = Ending()
with ending.on_signals():
    sys.exit(asyncio.run(run()))
"""


def test_a_thread_that_hangs_does_not_keep_the_process() -> None:
    """After an internal error the process ends within two seconds, with status 1: its supervisor
    must start it again.
    """
    with subprocess.Popen([sys.executable, "-c", FAILS], stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        began = time.monotonic()
        assert process.wait(60) == 1
        assert time.monotonic() - began < 30, "2 s on a machine that is not busy with tests"


def test_a_signal_when_no_thread_can_be_started() -> None:
    """At the limit of the unit's tasks, a signal ends the process in order, as it usually does."""
    command = [sys.executable, "-c", GETS_A_SIGNAL]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended in order\n", "")
