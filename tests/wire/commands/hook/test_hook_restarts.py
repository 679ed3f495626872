"""The command ``hook`` that starts again during an event: with another command, beside another
hook, and with a file that is damaged or belongs to another user.
"""

import os
from pathlib import Path

from azure_scheduled_events_exporter.simulator import Simulator
from support.events.hooked_vm import Start, event, polls, script_starts
from support.programs import eventually

NOBODY = 65534
"""The uid and gid of the account ``nobody``."""


def wait_for_polls(imds: Simulator, more: int = 4) -> None:
    """Wait until more than ``more`` further documents were asked for."""
    asked = polls(imds)
    eventually(lambda: polls(imds) > asked + more, "more documents")


def test_another_command_recovers(imds: Simulator, hook: Start, tmp_path: Path) -> None:
    """A hook that starts with another command during an event recovers what was prepared, and
    prepares nothing again.
    """
    first = hook(file="ok")
    imds.set_document([event()])
    first.wait_for_line("run ended.* phase=prepare .*outcome=ok")
    first.terminate()
    second = hook(file="ok2")
    second.wait_for_line(r"hook has prepared before its restart.*event_id=A.*/ok\.sh")
    wait_for_polls(imds)
    imds.set_document([event(EventStatus="Started")])
    second.wait_for_line("event started")
    second.terminate()
    hook(file="ok3")
    imds.set_document([])
    eventually(lambda: script_starts(tmp_path, "ok3"), "the recovery")
    starts = [script_starts(tmp_path, name) for name in ("ok", "ok2", "ok3")]
    assert starts == [["prepare A"], [], ["recover A"]]
    files = list((tmp_path / "vm_0").glob("*.json"))
    assert len(files) == 1, "they keep what they have prepared in one file, by the hook's name"


def test_empty_answers_after_a_restart(imds: Simulator, hook: Start, tmp_path: Path) -> None:
    """Some empty bodies after a restart are not the end of the event that was prepared."""
    first = hook()
    imds.set_document([event()])
    first.wait_for_line("run ended.* phase=prepare .*outcome=ok")
    first.terminate()
    imds.serve_body(b"")
    second = hook()
    second.wait_for_line("empty body while events are current: not believed yet")
    wait_for_polls(imds, 2)  # within the 5 s after which they are believed
    imds.set_document([event()])
    wait_for_polls(imds)
    assert script_starts(tmp_path) == ["prepare A"]
    imds.set_document([])
    eventually(lambda: script_starts(tmp_path) == ["prepare A", "recover A"], "the recovery")


def test_two_hooks_beside_each_other(imds: Simulator, hook: Start, tmp_path: Path) -> None:
    """Two hooks of one VM with names of their own prepare and recover each for itself, also if one
    starts again with another command. A second hook of the same name is refused.
    """
    first = hook("--name", "first", file="first")
    hook("--name", "second", file="second")
    imds.set_document([event()])
    first.wait_for_line("run ended.* phase=prepare .*outcome=ok")
    eventually(lambda: script_starts(tmp_path, "second") == ["prepare A"], "the other preparation")
    refused = hook("--name", "second", file="third")
    refused.wait_for_line("another hook named 'second' runs.* own name with --name")
    assert refused.process.wait(10) == 1
    first.terminate()
    hook("--name", "first", file="fourth").wait_for_line("hook has prepared before its restart")
    wait_for_polls(imds)
    imds.set_document([])
    eventually(
        lambda: script_starts(tmp_path, "fourth") == ["recover A"], "the recovery of the first"
    )
    eventually(
        lambda: script_starts(tmp_path, "second") == ["prepare A", "recover A"],
        "that of the second",
    )
    assert script_starts(tmp_path, "first") == ["prepare A"]
    assert script_starts(tmp_path, "third") == []


def test_a_hook_of_another_name_is_missed(imds: Simulator, hook: Start) -> None:
    """If the name is changed during an event, the log names the file of the hook that has prepared
    and does not run; a hook that runs is not named.
    """
    # Files are looked at in the order of their names: this hook would be named before the first.
    running = hook("--name", "always", file="always")
    first = hook("--name", "first", file="first")
    imds.set_document([event()])
    for program in (running, first):
        program.wait_for_line("run ended.* phase=prepare .*outcome=ok")
    first.terminate()
    second = hook("--name", "second", file="second")
    second.wait_for_line("has prepared, and does not run.*hook-first.json.*event_id=A")
    assert second.lines("hook-always.json") == []


def test_a_damaged_file(imds: Simulator, hook: Start, tmp_path: Path) -> None:
    """A file that cannot be read is set aside, named in the log, and keeps no event from the
    script.
    """
    folder = tmp_path / "vm_0"
    folder.mkdir()
    file = folder / "journal.sqlite.hook-default.json"
    file.write_text("[" * 100_000)
    started = hook()
    started.wait_for_line(f"the file of the hook is damaged.*{file}")
    imds.set_document([event()])
    eventually(lambda: script_starts(tmp_path) == ["prepare A"], "the preparation")
    eventually(lambda: file.read_text().startswith("{"), "a new file")
    imds.set_document([])
    eventually(lambda: script_starts(tmp_path) == ["prepare A", "recover A"], "the recovery")
    [aside] = folder.glob("*.damaged")
    assert aside.read_text().startswith("[[")


def test_a_folder_of_another_user(imds: Simulator, hook: Start, tmp_path: Path) -> None:
    """Root's hook keeps what it has prepared as the user of the exporter, and recovers it with
    another command.
    """
    assert os.geteuid() == 0, "this test needs root, to make a folder of somebody else"
    folder = tmp_path / "vm_0"
    folder.mkdir(mode=0o700)
    os.chown(folder, NOBODY, NOBODY)
    first = hook(file="ok")
    imds.set_document([event()])
    first.wait_for_line("run ended.* phase=prepare .*outcome=ok")
    first.terminate()
    [file] = folder.glob("*.json")
    assert (file.stat().st_uid, file.stat().st_mode & 0o777) == (NOBODY, 0o600)
    hook(file="ok2")
    imds.set_document([])
    eventually(lambda: script_starts(tmp_path, "ok2") == ["recover A"], "the recovery")
