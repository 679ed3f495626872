"""Which programs a hook refuses at its start, because they could not be executed at the event."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.commands.hook.script import check_script
from azure_scheduled_events_exporter.errors import UsageError


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        (b"\xef\xbb\xbf#!/bin/sh\n", "it begins with a byte order mark"),
        ("#!/bin/sh\n".encode("utf-16"), "it begins with a byte order mark"),
        (b"#!/bin/bash\r\necho\r\n", "its lines end with CR LF"),
        (b"#!/usr/bin/env nosuch\n", "its interpreter nosuch is not on PATH"),
        (b"#!/usr/bin/env -S A=1 nosuch -x\n", "its interpreter nosuch is not on PATH"),
        (b"#!/opt/none/python3\n", "its interpreter /opt/none/python3 does not exist"),
        (b"#! \n", "its first line names no interpreter"),
        (b"echo drained\n", "it has no first line that names its interpreter"),
    ],
)
def test_a_script_that_cannot_be_executed(tmp_path: Path, script: bytes, cause: str) -> None:
    """Such a script is refused at the start, with the cause, and not at the first event."""
    path = tmp_path / "script"
    path.write_bytes(script)
    path.chmod(0o755)
    with pytest.raises(UsageError, match=re.escape(f"{path}: {cause}")):
        check_script(str(path))


@pytest.mark.parametrize(
    ("interpreter", "cause"),
    [
        (b"#!/bin/sh\r\n", "its lines end with CR LF"),
        (b"echo drained\n", "it has no first line that names its interpreter"),
        (b"#!/opt/none/python3\n", "its interpreter /opt/none/python3 does not exist"),
    ],
)
def test_an_interpreter_that_is_a_script(tmp_path: Path, interpreter: bytes, cause: str) -> None:
    """A script is also refused if its interpreter is a script that cannot be executed itself. The
    error has the cause of that.
    """
    wrapper = tmp_path / "wrapper"
    wrapper.write_bytes(interpreter)
    wrapper.chmod(0o755)
    script = tmp_path / "script"
    script.write_text(f"#!{wrapper}\n")
    script.chmod(0o755)
    whole = f"{script}: its interpreter {wrapper} cannot be executed: {cause}"
    with pytest.raises(UsageError, match=re.escape(whole)):
        check_script(str(script))


def test_what_is_no_program(tmp_path: Path) -> None:
    """A folder, a file that is not executable, or nothing is named as what it is."""
    plain = tmp_path / "plain"
    plain.touch(mode=0o644)
    for name, cause in (
        (str(tmp_path), "is a folder"),
        (str(plain), "is not an executable file: run chmod +x"),
        (str(tmp_path / "none"), "does not exist"),
        ("no-such-program", "there is no such program on PATH"),
    ):
        with pytest.raises(UsageError, match=re.escape(f"{name}: {cause}")):
            check_script(name)


def test_what_can_be_executed(tmp_path: Path) -> None:
    """Compiled programs, and scripts in all usual forms, are accepted."""
    script = tmp_path / "script"
    script.touch(mode=0o755)
    for line in (
        "#!/bin/sh",
        "#! /bin/sh -e",
        "#!/usr/bin/env sh",
        "#!/usr/bin/env\tsh",
        "#!/usr/bin/env -S LC_ALL=C sh -e",
        "#!/usr/bin/env -i sh",
        f"#!{sys.executable}",
    ):
        script.write_text(f"{line}\n")
        check_script(str(script))
    check_script("sh")
    check_script(str(shutil.which("true")))
