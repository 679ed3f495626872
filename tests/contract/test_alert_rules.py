"""Every alert in the stories in which it must fire, and in those in which it must not."""

from pathlib import Path

import pytest

from support.adversary_stories import ADVERSARY
from support.alert_scenarios import ALL, Story, promtool
from support.firing_stories import FIRING
from support.quiet_stories import QUIET


@pytest.mark.parametrize("story", FIRING, ids=lambda story: story.name)
def test_fires(story: Story, tmp_path: Path) -> None:
    """An alert fires with its whole text in the story it is made for."""
    done = promtool(tmp_path, story)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("story", QUIET, ids=lambda story: story.name)
def test_stays_quiet(story: Story, tmp_path: Path) -> None:
    """Nobody hears of an alert in a story that only looks like the one it is made for."""
    done = promtool(tmp_path, story)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("story", ADVERSARY, ids=lambda story: story.name)
def test_holds_against_an_adversary(story: Story, tmp_path: Path) -> None:
    """Blind exporters, VMs counted twice, changing labels and silent failures neither make nor hide a page."""
    done = promtool(tmp_path, story)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_its_stories() -> None:
    """No alert is shipped without a story in which it fires and one in which it must not."""
    fires = {name for story in (*FIRING, *ADVERSARY) for name, _ in story.fires}
    quiet = {name for story in (*FIRING, *QUIET, *ADVERSARY) for name in story.quiet}
    assert set(ALL) - fires == set()
    assert set(ALL) - quiet == set()
