"""What the runner ``prepare-and-recover`` refuses at its start, and a hook that is gone later."""

from pathlib import Path

import pytest

from support.example_scripts import EXAMPLES, Stage, reads_journal, scenario, two_hooks, verbs
from support.programs import COMMAND, PATIENCE, eventually


def refused(stage: Stage, *words: str, **settings: str) -> str:
    """Start the runner with ``words``, which it refuses at once; return its last line."""
    script = stage.run(str(EXAMPLES / "prepare-and-recover"), *words, **settings)
    assert script.process.wait(PATIENCE) == 2, script.output.read_text()
    return script.output.read_text().splitlines()[-1]


@pytest.mark.parametrize(("types", "name"), [("Preemt", "Preemt"), ("Reboot,,Freeze", ""), ("Reboot Freeze",) * 2])
def test_types_that_do_not_exist(types: str, name: str, stage: Stage) -> None:
    """A type that Azure does not have is refused at the start, in place of waiting for it for ever."""
    line = refused(stage, "--types", types, str(EXAMPLES / "kubectl-drain"))
    known = "Freeze, Reboot, Redeploy, Preempt, Terminate"
    assert line == f"prepare-and-recover: error: argument --types: unknown type '{name}'; known are {known}"


def test_types_in_another_spelling(stage: Stage) -> None:
    """Types may have blanks around them and other capitals than Azure's."""
    stage.exporter()
    stage.run(
        str(EXAMPLES / "prepare-and-recover"), "--types", "freeze, reBoot", str(EXAMPLES / "kubectl-drain"), NODE="n"
    )
    stage.simulator.play(scenario("Reboot", notice=30))
    eventually(lambda: verbs(stage) == ["drain"], "the drain")


def test_hook_that_is_not_there(stage: Stage, tmp_path: Path) -> None:
    """A hook that is missing or not executable is refused at the start, not when an event comes."""
    data = tmp_path / "data"
    data.write_text("#!/bin/sh\n")
    for hook in (tmp_path / "missing", data, tmp_path):
        text = f"prepare-and-recover: error: {hook} does not exist, or is not an executable file"
        assert refused(stage, str(hook)) == text


def test_no_exporter_on_the_path(stage: Stage) -> None:
    """Without the exporter on the PATH, the runner says so at the start."""
    line = refused(stage, str(EXAMPLES / "kubectl-drain"), PATH="/usr/bin:/bin")
    assert line == f"prepare-and-recover: error: {Path(COMMAND).name} is not on the PATH"


def test_hook_that_is_gone_later(stage: Stage) -> None:
    """A hook that cannot be run when an event comes has failed: one line says why, and it is tried again."""
    hook = two_hooks(stage)
    aside = hook.with_name("aside")
    stage.exporter()
    script = stage.run(str(EXAMPLES / "prepare-and-recover"), str(hook))
    eventually(lambda: reads_journal(script), "the follower")
    hook.rename(aside)
    stage.simulator.play(scenario("Preempt", notice=30))
    eventually(lambda: "cannot be run" in script.output.read_text(), "the failure")
    begins, failure = script.output.read_text().splitlines()
    event_id = begins.removeprefix("prepare for Preempt ")
    reason = f"{hook} cannot be run: No such file or directory"
    assert failure == f"prepare-and-recover: {reason}; prepare for {event_id} is tried again"
    aside.rename(hook)
    eventually(lambda: stage.calls == ["Preempt prepare", "Preempt prepare done"], "the next try")
