"""What a hook keeps of its runs, in a file of its own, and hands to the journal."""

import json
import logging
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.commands.hook.runs import Runs
from azure_scheduled_events_exporter.commands.hook.stored import state_file
from azure_scheduled_events_exporter.journal.access import read_only
from azure_scheduled_events_exporter.journal.content.codec import encode
from azure_scheduled_events_exporter.snapshot.hooks import HookRun, Phase, counted
from support.events.journal_recorder import recorders
from support.programs import eventually

LOG = logging.getLogger("tests.hook")
# A thread of Runs may log after its test, when pytest does not capture: not to standard error then.
LOG.addHandler(logging.NullHandler())
NAME = "worker"


def run(name: str, phase: Phase = Phase.PREPARE, outcome: str | None = "ok") -> HookRun:
    """Return a run."""
    return HookRun(name, "drain.sh", "A", "Reboot", phase, 1_700_000_000.0, outcome)


def known(folder: Path) -> list[str]:
    """Return the runs that the next hook knows."""
    return [each.run for each in Runs(folder, NAME, LOG).known]


def journalled(folder: Path) -> list[str]:
    """Return the runs that the journal has."""
    with closing(read_only(folder)) as store:
        return [each.run for each in store.hook_runs.all()]


def test_a_restart_knows_what_was_prepared(tmp_path: Path) -> None:
    """The next hook knows all runs since the last recovery, and no others."""
    runs = Runs(tmp_path, NAME, LOG)
    runs.keep(run("1"))
    runs.keep(run("2", outcome=None))
    assert known(tmp_path) == ["1", "2"]
    assert state_file(tmp_path, NAME).stat().st_mode & 0o777 == 0o600
    runs.keep(run("3", Phase.RECOVER))
    assert known(tmp_path) == []
    runs.keep(run("4"))
    assert known(tmp_path) == ["4"]


def test_another_name_is_another_hook(tmp_path: Path) -> None:
    """The runs of the hook of one name are not those of another one."""
    Runs(tmp_path, NAME, LOG).keep(run("1"))
    assert Runs(tmp_path, "other", LOG).known == ()


def test_the_journal_gets_runs_when_there_is_one(tmp_path: Path) -> None:
    """Runs from before the first exporter get into its journal: those of the hook that runs, and
    those of an earlier process of that hook.
    """
    # The earlier process is played by a hook in another folder. Its threads go on, but find no
    # journal there. So run 1 can get into the journal only from the file that it leaves.
    elsewhere = tmp_path / "elsewhere"
    Runs(elsewhere, NAME, LOG).keep(run("1"))
    folder = tmp_path / "state"
    folder.mkdir()
    state_file(elsewhere, NAME).rename(state_file(folder, NAME))
    Runs(folder, NAME, LOG).keep(run("2", Phase.RECOVER))
    with recorders() as start:
        start(folder).sees("A")
    eventually(lambda: journalled(folder) == ["1", "2"], "the runs")


def test_a_damaged_run_costs_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What cannot be read of the file is left out, and said."""
    state_file(tmp_path, NAME).write_text(
        json.dumps({"runs": ["{", encode(run("1")), '{"run": 3}'], "unsent": 7})
    )
    assert known(tmp_path) == ["1"]
    assert "the file of the hook is damaged" in caplog.text
    state_file(tmp_path, NAME).write_text("no JSON")
    assert known(tmp_path) == []


def test_a_disk_that_fails(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A run that cannot be kept in the file of the hook goes on all the same. It is written as soon
    as the disk works.
    """
    (tmp_path / "folder").touch()  # a file where a folder should be
    folder = tmp_path / "folder" / "journal"
    runs = Runs(folder, NAME, LOG)
    runs.keep(run("1"))
    assert [each.run for each in runs.known] == ["1"]
    assert "the hook cannot use its file" in caplog.text
    (tmp_path / "folder").unlink()
    eventually(lambda: state_file(folder, NAME).exists(), "the file")
    assert known(folder) == ["1"]


def test_invented_types_are_bounded() -> None:
    """Of many unknown types, most are counted together, and no run is lost. A documented type that
    comes last has its own series.
    """
    ended = replace(run("1"), duration=1.0, seconds_left=60.0)
    invented = [replace(ended, event_type=f"Type{number}") for number in range(500)]
    found = counted([*invented, replace(ended, event_type="Terminate")])
    assert sum(found.runs.values()) == len(invented) + 1
    assert found.runs["Terminate", "prepare", "ok"] == 1
    most_types = 30 + 1  # those with series of their own, and "other"
    assert len(found.runs) <= most_types
    assert len(found.durations) <= most_types
    assert len(found.seconds_left) <= most_types
    assert found.runs["other", "prepare", "ok"] > len(invented) - most_types
