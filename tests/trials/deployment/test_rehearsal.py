"""Two releases as docs/releasing.md describes them, in a repository of their own."""

from pathlib import Path

from support.deployment.checkout import Checkout

CHECKED = (
    "tests/contract",
    "tests/unit/metrics/test_exposition.py",
    "tests/unit/commands/test_cli.py",
    "tests/end_to_end/deployment/test_wheel.py",
)
"""Tests of what a version or a changelog is written in.

The rest of CI depends on neither, and is run on each change.
"""

NOT_CHECKED = (
    "tests/contract/deployment/test_release.py",  # a release in a release
    "tests/contract/deployment/test_setup.py",  # a checkout of a checkout, whose .venv has no pip
    "tests/contract/monitoring/test_boards.py",  # these play events for minutes
    "tests/contract/monitoring/test_boards_in_doubt.py",
    "tests/contract/monitoring/test_boards_of_strange_events.py",
    "tests/contract/monitoring/test_stories.py",
)


def test_two_releases_leave_the_tree_green(tmp_path: Path) -> None:
    """Each release is built, and static checks and tests pass before and after its tag."""
    checkout = Checkout(tmp_path / "checkout")
    assert "Something." not in release(checkout, "0.1.0")
    entry = "## Unreleased\n\n### Fixed\n\n- Something.\n\n## 0.1.0 - "
    checkout.replace("CHANGELOG.md", r"(?m)^## 0\.1\.0 - ", entry)
    assert "Something." in release(checkout, "0.2.0")


def release(checkout: Checkout, version: str) -> str:
    """Make a release of the version as the page says, and check the tree before its tag and after
    it. Return the notes of the release.
    """
    checkout.set_version(version)
    checkout.run("make", "generate")
    checkout.commit(f"Release {version}")
    assert_green(checkout)
    released = checkout.release(version, TAG="1")  # with its tag
    assert released.returncode == 0, released.stdout + released.stderr
    notes = (checkout.folder / "build" / "release" / "notes.md").read_text()
    # What the first change after the release does; then the tree is as it was at the tag again.
    checkout.replace("CHANGELOG.md", rf"(?m)^## {version}", rf"## Unreleased\n\n## {version}")
    checkout.run("scripts/check")
    checkout.git("checkout", "-q", "CHANGELOG.md")
    assert checkout.git("status", "--porcelain") == ""
    return notes


def assert_green(checkout: Checkout) -> None:
    """Run the static checks and the tests that see the version."""
    checkout.run("scripts/check")
    ignored = [f"--ignore={path}" for path in NOT_CHECKED]
    checkout.run(
        *(".venv/bin/python", "-m", "pytest", "-q", "-n", "4", *CHECKED, *ignored),
        XDG_CACHE_HOME=str(Path(checkout.folder) / ".cache"),
    )
