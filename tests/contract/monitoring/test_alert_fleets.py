"""Random fleets against an oracle: each event that deserves a page gets one, which stays, and ends when it should."""

from pathlib import Path

import pytest

from support.monitoring.alert_scenarios import promtool
from support.monitoring.random_fleets import GROUPS, Fleets, fleet

FLEETS, TOGETHER = 30, 10


@pytest.mark.parametrize("first", range(0, FLEETS, TOGETHER))
def test_each_event_is_one_page(first: int, tmp_path: Path) -> None:
    """One page for each event that somebody shows, from then until somebody sees its end, and none else."""
    fleets = Fleets(tuple(fleet(seed) for seed in range(first, first + TOGETHER)))
    done = promtool(tmp_path, fleets, names=GROUPS)
    assert done.returncode == 0, f"the seed is in the id of the event, E<seed>-0\n{done.stdout}{done.stderr}"
