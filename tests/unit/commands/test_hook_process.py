"""The process of one run of a hook."""

import psutil
import pytest

from azure_scheduled_events_exporter.commands.hook.process import Process
from azure_scheduled_events_exporter.snapshot.hooks import Phase
from support.events.hooked_events import NOW, ran
from support.hosts.task_limit import no_more_threads


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
