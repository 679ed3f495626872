"""Files and folders that a command is given and cannot use: one line, at once."""

import os
import subprocess
from pathlib import Path

import pytest

from support.programs import COMMAND, PATIENCE, environment

NOWHERE = "http://127.0.0.1:1"
# What can be given a file: a command line, in which {} is the file.
FILES = {
    "env-file": ("check-config", "--env-file", "{}"),
    "config.file": ("check-config", "--config.file", "{}"),
    "policy": ("check-config", "--approval.policy", "{}"),
    "web.config.file": ("check-config", "--web.config.file", "{}"),
    "http-config": (
        "check-config",
        "--alertmanager.url",
        NOWHERE,
        "--alertmanager.http-config.file",
        "{}",
    ),
    "journal": (
        "approve",
        "--all-mine",
        "--yes",
        "--imds.endpoint",
        NOWHERE,
        "--journal.path",
        "{}",
    ),
    "scenario": ("simulate", "--scenario", "{}"),
}
DEVICE = "/dev/zero"


def run(*command: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    env = environment()
    return subprocess.run(
        command, env=env, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


@pytest.fixture
def pipe(tmp_path: Path) -> str:
    """A pipe that nobody writes to, with a name that any setting takes."""
    path = tmp_path / "pipe.yaml"
    os.mkfifo(path)
    return str(path)


@pytest.mark.parametrize("name", FILES)
def test_a_pipe(name: str, pipe: str) -> None:
    """A pipe that nobody writes to is refused at once, whatever it was given as."""
    assert_refused(name, pipe)


# A scenario is a file only if its name ends in .yaml, .yml or .json, or if it is a regular file.
@pytest.mark.parametrize("name", [name for name in FILES if name != "scenario"])
def test_a_device(name: str) -> None:
    """A device that never ends is refused at once, whatever it was given as."""
    assert_refused(name, DEVICE)


def assert_refused(name: str, path: str) -> None:
    """A command that is given ``path`` as the file ``name`` ends with one line that says why."""
    done = run(COMMAND, *(each.format(path) for each in FILES[name]))
    assert done.returncode in {1, 2}, "2 for a setting, 1 for what a command works on"
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert f"{path}: is a pipe or a device: name a regular file" in line


@pytest.mark.parametrize(
    ("policy", "complaint"),
    [
        (
            "documentd",
            (
                "--approval.policy: 'documentd' is neither off, documented, documented-all nor a"
                " file in this folder"
            ),
        ),
        ("no.yaml", "--approval.policy: no.yaml: cannot be read: No such file or directory"),
        ("bad.yaml", "bad.yaml:1: rule: unknown key; known here: dry_run, rules"),
    ],
)
def test_policy_that_cannot_be_used(policy: str, complaint: str, tmp_path: Path) -> None:
    """The start and ``check-config`` refuse a policy that cannot be used, with the same line. A
    command that approves nothing by a policy does not need it.
    """
    (tmp_path / "bad.yaml").write_text("rule: []\n")
    chosen = ("--approval.policy", policy, "--journal.path", str(tmp_path))
    for command in ("run --imds.endpoint http://127.0.0.1:1", "check-config"):
        done = run(COMMAND, *command.split(), *chosen, folder=tmp_path)
        assert done.returncode == 2
        assert done.stderr == f"azure-scheduled-events-exporter: {complaint}\n"
    done = run(COMMAND, "history", *chosen, folder=tmp_path)
    assert "there is no journal" in done.stderr


@pytest.mark.parametrize("command", ["run --imds.endpoint http://127.0.0.1:1", "history"])
def test_deleted_directory(command: str, tmp_path: Path) -> None:
    """A relative path in a directory that was deleted is an error of one line, not a traceback."""
    gone = tmp_path / "gone"
    gone.mkdir()
    done = run(
        "/bin/sh", "-c", f"rmdir {gone}; exec {COMMAND} {command} --journal.path j", folder=gone
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1, done.stderr
    assert "the current directory has been deleted" in done.stderr
