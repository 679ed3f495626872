"""The command ``hook`` when something fails: kills, disks, clocks, locales, and mistakes."""

import json
import os
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from azure_scheduled_events_exporter.commands.hook.stored import state_file
from azure_scheduled_events_exporter.journal.disk.lock import writer_lock
from azure_scheduled_events_exporter.simulator import Simulator
from support.commands import assert_one_line, command
from support.events.hooked_vm import (
    SCRIPT,
    Start,
    approvals,
    event,
    outcomes,
    polls,
    script_starts,
)
from support.programs import COMMAND, Exporter, Program, environment, eventually
from trials.clock import WallClock

NOBODY = 65534
"""The uid and gid of the account ``nobody``."""


def test_killed_in_the_middle(imds: Simulator, hook: Start, tmp_path: Path) -> None:
    """A hook that starts again after it was killed runs the script again: the interrupted run has
    failed. If the event is over when it starts, as after a reboot, it recovers.
    """
    first = hook(script="exec sleep 60")
    imds.set_document([event()])
    eventually(lambda: script_starts(tmp_path) == ["prepare A"], "the first run")
    first.kill()
    second = hook(script="exec sleep 60")
    eventually(lambda: script_starts(tmp_path) == ["prepare A"] * 2, "the second run")
    second.wait_for_line("run was interrupted with the hook.*phase=prepare event_id=A")
    second.kill()
    imds.set_document([])  # the VM has rebooted, and the event is over
    hook()
    eventually(
        lambda: script_starts(tmp_path) == ["prepare A", "prepare A", "recover A"], "the recovery"
    )
    folder = tmp_path / "vm_0"
    stored = json.loads(state_file(folder, "default").read_text())["unsent"]
    runs = [json.loads(text) for text in stored]
    # The second start of the script continued the run of the first one.
    assert [run["outcome"] for run in runs if run["phase"] == "prepare"] == ["failed"]


def test_prepares_without_a_journal(imds: Simulator, hook: Start, tmp_path: Path) -> None:
    """Neither a journal that cannot be made, here below a file, nor an entry of IMDS that cannot be
    read keeps another event from the script.
    """
    (tmp_path / "file").touch()
    imds.serve_body(json.dumps({"DocumentIncarnation": 1, "Events": [{}, event()]}).encode())
    hook("--journal.path", str(tmp_path / "file" / "journal"))
    eventually(lambda: script_starts(tmp_path) == ["prepare A"], "the preparation")


def test_too_late(imds: Simulator, exporter: Exporter, hook: Start, tmp_path: Path) -> None:
    """An event that began while the hook was gone is not prepared for: the series of the alert
    HookFailed counts it.
    """
    first = hook(script="exec sleep 60")
    imds.set_document([event()])
    eventually(lambda: script_starts(tmp_path) == ["prepare A"], "the first run")
    first.kill()
    imds.set_document([event(EventStatus="Started")])
    second = hook()
    exporter.shows(
        "the run that was too late",
        lambda scrape: scrape.total("hook_runs_total", phase="prepare", outcome="too_late") == 1,
    )
    assert script_starts(tmp_path) == ["prepare A"]
    assert second.lines("run begins") == []


def test_recovers_without_the_journal(
    imds: Simulator, exporter: Exporter, hook: Start, tmp_path: Path
) -> None:
    """What a hook prepared for is recovered, although it restarted and the journal is gone: it has
    a file of its own beside the journal.
    """
    first = hook()
    imds.set_document([event()])
    eventually(lambda: outcomes(tmp_path) == [("prepare", "ok")], "the preparation in the journal")
    first.kill()
    exporter.kill()
    for path in (tmp_path / "vm_0").glob("journal.sqlite*"):
        if ".hook-" not in path.name:
            path.unlink()
    imds.set_document([])
    hook()
    eventually(lambda: script_starts(tmp_path) == ["prepare A", "recover A"], "the recovery")


def test_one_document_without_the_event(imds: Simulator, hook: Start, tmp_path: Path) -> None:
    """A document that lacks the event for a moment recovers nothing, and prepares nothing again."""
    started = hook()
    started.wait_for_line("name is known")
    imds.set_document([event()])
    eventually(lambda: script_starts(tmp_path) == ["prepare A"], "the preparation")
    asked = polls(imds)
    eventually(lambda: polls(imds) >= asked + 4, "documents with the event, after the run")
    imds.set_document([])
    asked = polls(imds)
    # An event is over for a hook when three documents in a row have lacked it.
    eventually(lambda: polls(imds) > asked, "one document without the event")
    imds.set_document([event(), event("B")])
    eventually(lambda: "prepare B" in script_starts(tmp_path), "the preparation of another event")
    assert script_starts(tmp_path) == ["prepare A", "prepare B"]


def test_a_wrong_clock(imds: Simulator, tmp_path: Path) -> None:
    """The notice is measured by the clock of IMDS: a VM whose clock is ahead is not too late."""
    notice = 40.0
    clock = WallClock(tmp_path / "faketime")
    clock.set(60)  # by this clock, NotBefore is over
    script = tmp_path / "script"
    script.write_text(SCRIPT.format(log=tmp_path / "vm_0.log"))
    script.chmod(0o755)
    flags = ("--imds.endpoint", f"{imds.url}/vm/vm_0", "--journal.path", str(tmp_path / "vm_0"))
    imds.set_document([event(notice=notice, EventType="Preempt")])
    arguments = [COMMAND, "hook", *flags, "--", str(script)]
    with Program(arguments, tmp_path / "hook.log", **environment(**clock.environment)) as hook:
        eventually(lambda: script_starts(tmp_path) == ["prepare A"], "the preparation")
        left = float(hook.wait_for_line(r"outcome=ok seconds_left=([\d.]+)")[1])
        hook.terminate()
    assert 0 < left < notice


def read(path: Path) -> str:
    """Return the text of a file."""
    return path.read_text(encoding="utf-8")


def test_a_locale_without_the_letters(imds: Simulator, hook: Start, tmp_path: Path) -> None:
    """A description reaches the script although the locale cannot encode its letters. If it is too
    long for a variable, its beginning does.
    """
    description = "Wartung 日本 " + "x" * 200_000
    write_description = f'printf %s "$EVENT_DESCRIPTION" >"{tmp_path}/said"'
    hook(script=write_description, PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", LC_ALL="C")
    imds.set_document([event(Description=description)])
    eventually(lambda: (tmp_path / "said").exists() and len(read(tmp_path / "said")), "the script")
    assert read(tmp_path / "said").startswith("Wartung 日本 x"), "the beginning"


def test_a_command_that_is_gone(imds: Simulator, hook: Start, tmp_path: Path) -> None:
    """A command that cannot be started when an event comes ends no hook: it is tried again."""
    started = hook()
    started.wait_for_line("name is known")
    script = tmp_path / "vm_0.sh"
    away = script.rename(tmp_path / "away")
    imds.set_document([event()])
    started.wait_for_line("command cannot be run.*event_id=A")
    away.rename(script)
    eventually(lambda: script_starts(tmp_path) == ["prepare A"], "another try")


@pytest.mark.parametrize("output", ["stands still", "closed"])
def test_output_that_nobody_reads(
    imds: Simulator, hook: Start, tmp_path: Path, output: str
) -> None:
    """A script that prints more than the hook's standard output takes ends all the same, and so
    does the approval behind it. The log says once that output is lost, and the end of the script's
    output is kept.
    """
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    target = "&-" if output == "closed" else f'"{fifo}"'
    through = ("/bin/sh", "-c", f'exec "$0" "$@" >{target}')
    prints = "yes | head -c 1000000; echo the end"
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)  # it never reads
    try:
        # So that IMDS throttles neither the hook nor the command that approves.
        flags = ("--approve", "own", "--poll.interval", "1s")
        started = hook(*flags, through=through, script=prints)
        imds.set_document([event()])
        started.wait_for_line("run ended.* phase=prepare .*outcome=ok")
        eventually(lambda: approvals(imds) == 1, "the approval")
        process = psutil.Process(started.process.pid)
        eventually(lambda: not process.children(), "the end of the command that approves")
        assert len(started.lines("standard output of the hook is lost")) == 1
        assert started.terminate() == 0
    finally:
        os.close(reader)
    [stored] = json.loads(state_file(tmp_path / "vm_0", "default").read_text())["runs"]
    assert json.loads(stored)["output"].endswith("the end")


def test_output_that_waits_when_the_hook_ends(imds: Simulator, hook: Start, tmp_path: Path) -> None:
    """What its reader has not taken when the hook ends is lost, and the log says so."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)  # it never reads
    try:
        through = ("/bin/sh", "-c", f'exec "$0" "$@" >"{fifo}"')
        started = hook(through=through, script="yes | head -c 200000")
        imds.set_document([event()])
        started.wait_for_line("run ended.* phase=prepare .*outcome=ok")
        assert not started.lines("standard output of the hook is lost"), "it waits for the reader"
        assert started.terminate() == 0
        assert len(started.lines("standard output of the hook is lost")) == 1
    finally:
        os.close(reader)


def test_root_follows_no_link(imds: Simulator, hook: Start, tmp_path: Path) -> None:
    """The user of the exporter cannot make root's hook write to a file of root through a link."""
    assert os.geteuid() == 0, "this test needs root, to make a folder of somebody else"
    folder = tmp_path / "vm_0"
    folder.mkdir(mode=0o700)
    target = tmp_path / "target"
    target.mkdir(mode=0o755)
    path = state_file(folder, "default")
    for name in (path.name, f"{path.name}.new", f"{path.name}.lock", "journal.sqlite"):
        (folder / name).symlink_to(target / name)
    os.chown(folder, NOBODY, NOBODY)
    hook()
    imds.set_document([event()])
    eventually(lambda: script_starts(tmp_path) == ["prepare A"], "the preparation")
    assert list(target.iterdir()) == []


def test_mistakes(tmp_path: Path) -> None:
    """A mistake in the command line is one line.

    ``--journal.path`` names a file that is not a journal, so that a hook that accepts a wrong flag
    ends at once instead of waiting for events.
    """
    other = tmp_path / "notes.txt"
    other.write_text("another program's file\n" * 100)
    hook = ("hook", "--journal.path", str(other), "--imds.endpoint", "http://127.0.0.1:9")
    for arguments, complaint in (
        (("--kinds", "anounced", "--", "true"), "unknown kind 'anounced'"),
        (("--lead", "soon", "--", "true"), "--lead"),
        (("--kinds", "", "--", "true"), "unknown kind ''"),
        (("--types", "", "--", "true"), "unknown event type ''"),
        (("--approve", "all", "--", "true"), "--approve"),
        (("--marks", "folder", "--", "true"), "--marks"),
        (("--", str(tmp_path / "nothing")), "does not exist"),
        ((), "name the command to run behind --"),
        (
            ("--types", "Premept", "--", "true"),
            "unknown event type 'premept': choose from Freeze, ",
        ),
        (("--name", "../x", "--", "true"), "'../x' is no name of a hook"),
    ):
        assert_one_line(command(*hook, *arguments), 2, complaint)


def test_a_file_that_is_no_journal(tmp_path: Path) -> None:
    """A file of another program is refused as journal, and stays.

    The test holds the lock of the hook's name, so that a hook that accepts the file would end at
    once with another message, instead of waiting for events.
    """
    other = tmp_path / "notes.txt"
    other.write_text("another program's file\n" * 100)
    with closing(writer_lock(state_file(other, "default"))):
        refused = command(
            *("hook", "--journal.path", str(other), "--imds.endpoint", "http://127.0.0.1:9"),
            *("--", "true"),
        )
    assert_one_line(refused, 1, "cannot be used as --journal.path")
    assert other.exists()
