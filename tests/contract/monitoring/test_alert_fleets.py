"""Random fleets against an oracle: each event that deserves a page gets one, which stays, and ends when it should."""

from pathlib import Path

import pytest

from support.monitoring.alert_scenarios import SLOW_EVALUATION, promtool
from support.monitoring.random_fleets.fleet_tests import GROUPS, Fleets
from support.monitoring.random_fleets.generator import fleet, twin

FLEETS, TOGETHER = 30, 10


@pytest.mark.parametrize("first", range(0, FLEETS, TOGETHER))
def test_each_event_is_one_page(first: int, tmp_path: Path) -> None:
    """One page for each event and each place that deserve one, for as long as they do, and none else."""
    fleets = [fleet(seed) for seed in range(first, first + TOGETHER)]
    for several in (fleets, [other for each in fleets if (other := twin(each))]):
        done = promtool(tmp_path, Fleets(tuple(several), SLOW_EVALUATION), names=GROUPS)
        assert done.returncode == 0, f"the seed is in the id of the event, E<seed>-0\n{done.stdout}{done.stderr}"
