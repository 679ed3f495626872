"""The process of one run of a hook."""

from pathlib import Path
from queue import SimpleQueue

import psutil
import pytest

from azure_scheduled_events_exporter.commands.hook.process import Process
from azure_scheduled_events_exporter.snapshot.hooks import Phase
from support.events.hooked_events import NOW, ran
from support.hosts.task_limit import no_more_threads
from support.programs import QUIET_PATIENCE


def test_no_script_runs_unknown_to_the_hook() -> None:
    """If the threads for its input and output cannot be started, the script is not started
    either: the hook could neither watch nor stop it.
    """
    this = psutil.Process()
    children = set(this.children())
    descriptors = this.num_fds()
    run = ran("A", Phase.PREPARE, NOW, outcome=None)
    with no_more_threads(), pytest.raises(OSError, match="thread"):
        Process(["sleep", "60"], run, lambda _: None)
    assert set(this.children()) == children
    assert this.num_fds() == descriptors


def test_output_of_what_a_script_leaves_running(tmp_path: Path) -> None:
    """A process in the background that inherits the output of its script goes on printing to it
    after the end of the run.
    """
    go = tmp_path / "go"
    late = f'while [ ! -e "{go}" ]; do sleep 0.02; done; echo late'
    printed: SimpleQueue[bytes] = SimpleQueue()
    run = ran("A", Phase.PREPARE, NOW, outcome=None)
    with Process(["sh", "-c", f"({late}) & echo now"], run, printed.put) as process:
        process.wait()
        assert process.last_lines() == "now"
        assert printed.get() == b"now\n"
        go.touch()
        assert printed.get(timeout=QUIET_PATIENCE) == b"late\n"
