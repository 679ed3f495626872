"""The commands by which the pages install a hook as a service."""

import os
import re
import subprocess

import pytest

from support.events.hook_stage import INSTALLED, Stage
from support.paths import ROOT
from support.programs import COMMAND, environment


@pytest.mark.parametrize(
    ("page", "unit"),
    [
        ("databases-install.md", "patroni-switchover"),
        ("hook.md", "azure-scheduled-events-hook@worker"),
        ("aks.md", "kubectl-drain"),
        ("spot.md", "checkpoint-before-eviction"),
    ],
)
def test_installation_of_a_page(page: str, unit: str, stage: Stage) -> None:
    """The commands of a page put script, unit and drop-in where systemd finds them, and systemd
    takes all of them.

    The commands are run with other paths: /usr/local and /etc are below a folder of the test.
    Those that call systemctl are left out.
    """
    scripts = re.findall(r"(?ms)^```sh\n(.*?)^```$", (ROOT / "docs" / page).read_text())
    (script,) = [each for each in scripts if f"systemctl enable --now {unit}.service" in each]
    root = stage.folder / "root"
    for folder in ("/usr/local/", "/etc/"):
        script = script.replace(folder, f"{root}{folder}")
    lines = [line for line in script.splitlines() if not line.startswith("systemctl ")]
    (stage.folder / "save-work").write_text("#!/bin/sh\n")  # the user's own, on hook.md
    subprocess.run(
        ["sh", "-eu", "-c", "\n".join(lines)], cwd=stage.folder, env=stage.environment, check=True
    )
    units = root / "etc/systemd/system"
    for file in [each for each in units.rglob("*") if each.is_file()]:
        text = file.read_text().replace(INSTALLED, COMMAND)
        # The script is where the commands have put it; a drop-in of the page names that already.
        file.write_text(re.sub(r"(?<= -- )/usr/local/", f"{root}/usr/local/", text))
    done = subprocess.run(
        ["systemd-analyze", "verify", f"{unit}.service"],
        env={**environment(), "SYSTEMD_UNIT_PATH": f"{units}:"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert (units / f"{unit.replace('@worker', '@')}.service").exists()
    assert [line for line in done.stderr.splitlines() if unit in line] == []
    text_of_all_units = "".join(file.read_text() for file in units.rglob("*") if file.is_file())
    started = re.findall(rf" -- ({root}\S+)", text_of_all_units)
    # A template unit names its script by a specifier such as %i, which its drop-in replaces.
    (script_file,) = [each for each in started if "%" not in each]
    assert os.access(script_file, os.X_OK)
