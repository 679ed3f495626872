"""``make setup``: what it does again, and what it does not."""

from pathlib import Path

import pytest

from support.deployment.checkout import Checkout
from support.paths import ROOT

PACKAGES = ".venv/.set-up-from"
"""Written when packages are installed."""
PROJECT = ".venv/.project-set-up-from"
"""Written when the project is installed, with what it was installed from."""


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A checkout whose environment is up to date."""
    if not (ROOT / PROJECT).exists():
        pytest.skip("this environment was not made by scripts/setup")
    checkout = Checkout(tmp_path / "checkout")
    checkout.run("scripts/setup")
    return checkout


def test_only_what_has_changed_is_installed(checkout: Checkout) -> None:
    """After a change of a linter's setting, nothing is installed. After a new command of the
    project, the project is, and no other package.
    """
    installed = (checkout.folder / PROJECT).read_text()
    checkout.replace("pyproject.toml", r"(?m)^\[tool\.ruff\]$", "[tool.ruff]\n# another line")
    done = checkout.run("scripts/setup")
    assert done.stdout + done.stderr == ""
    assert (checkout.folder / PROJECT).read_text() == installed
    command = 'another = "azure_scheduled_events_exporter.commands.cli:main"'
    checkout.replace(
        "pyproject.toml", r"(?m)^\[project\.scripts\]$", f"[project.scripts]\n{command}"
    )
    packages_installed_at = (checkout.folder / PACKAGES).stat().st_mtime_ns
    checkout.run("scripts/setup")
    assert (checkout.folder / PROJECT).read_text() != installed
    assert (checkout.folder / PACKAGES).stat().st_mtime_ns == packages_installed_at
    assert (checkout.folder / ".venv" / "bin" / "another").exists()
