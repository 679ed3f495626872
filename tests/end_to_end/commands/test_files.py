"""Files and folders that a command is given and cannot use: one line, at once."""

import os
import subprocess
from pathlib import Path

import pytest

from support.programs import COMMAND, PATIENCE, environment

NOWHERE = "http://127.0.0.1:1"
FILES = {
    "env-file": ("check-config", "--env-file", "{}"),
    "config.file": ("check-config", "--config.file", "{}"),
    "policy": ("check-config", "--approval.policy", "{}"),
    "web.config.file": ("check-config", "--web.config.file", "{}"),
    "http-config": ("check-config", "--alertmanager.url", NOWHERE, "--alertmanager.http-config.file", "{}"),
    "journal": ("approve", "--all-mine", "--yes", "--imds.endpoint", NOWHERE, "--journal.path", "{}"),
    "scenario": ("simulate", "--scenario", "{}"),
}


def run(*command: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    env = environment()
    return subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)


def complaint(*arguments: str) -> str:
    """Return the one line of a command that ends at once with a failure."""
    done = run(COMMAND, *arguments)
    assert done.returncode in {1, 2}
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


@pytest.fixture
def pipe(tmp_path: Path) -> str:
    """A pipe that nobody writes to, with a name that any setting takes."""
    path = tmp_path / "pipe.yaml"
    os.mkfifo(path)
    return str(path)


@pytest.mark.parametrize("name", FILES)
def test_no_file(name: str, pipe: str) -> None:
    """A device that never ends, or a pipe that nobody writes to, is refused at once, whatever it was given as."""
    for path in (pipe, "/dev/zero")[: 1 if name == "scenario" else 2]:
        words = complaint(*(each.format(path) for each in FILES[name]))
        assert f"{path}: is a pipe or a device: name a regular file" in words


@pytest.mark.parametrize(
    "command",
    [
        ("run", "--journal.path", "j", "--imds.endpoint", NOWHERE),
        ("history", "--journal.path", "j"),
        ("approve", "--all-mine", "--yes", "--journal.path", "j", "--imds.endpoint", NOWHERE),
    ],
)
def test_deleted_directory(command: tuple[str, ...], tmp_path: Path) -> None:
    """A relative path in a directory that was deleted is one line, not a traceback."""
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"rmdir {gone}; exec {COMMAND} {' '.join(command)}"
    done = run("/bin/sh", "-c", script, folder=gone)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1, done.stderr
    assert "the current directory has been deleted" in done.stderr


def test_password_of_a_misspelled_flag() -> None:
    """A password is not printed back where the flag before it is unknown or has no command."""
    for arguments in (("run", "--imds.endpoin", "http://u:sesame@h"), ("--imds.endpoint=http://u:sesame@h",)):
        assert "sesame" not in complaint(*arguments)


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("http://127.0.0.1:", "write http://HOST[:PORT], or 'discover'\n"),
        ("http://u:sesame@127.0.0.1/?x", "write http://HOST[:PORT], or 'discover'\n"),
    ],
)
def test_endpoint(url: str, advice: str) -> None:
    """An endpoint that cannot be is refused with what to write, and without its password."""
    words = complaint("run", "--imds.endpoint", url)
    assert words.endswith(advice)
    assert "sesame" not in words
