"""Random fleets against an oracle: each event that deserves a page gets one, which stays, and ends when it should."""

from pathlib import Path

import pytest

from support.alert_scenarios import promtool
from support.random_fleets import fleet

FLEETS = 30


@pytest.mark.parametrize("seed", range(FLEETS))
def test_each_event_is_one_page(seed: int, tmp_path: Path) -> None:
    """One page for each event that somebody shows, from then until somebody sees its end, and none else."""
    done = promtool(tmp_path, fleet(seed))
    assert done.returncode == 0, f"seed {seed}\n{done.stdout}{done.stderr}"
