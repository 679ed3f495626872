"""Random fleets against an oracle: each event that deserves a page gets one, which stays, and ends when it should."""

from pathlib import Path

import pytest

from support.monitoring.alert_scenarios import SLOW_EVALUATION
from support.monitoring.random_fleets.fleet_tests import findings

FLEETS, TOGETHER = 30, 10


SEED_MESSAGE = "the seed is in the event_id, E<seed>-0, or in the subscription, sub-<seed>"


@pytest.mark.parametrize("first", range(0, FLEETS, TOGETHER))
def test_each_event_is_one_page(first: int, tmp_path: Path) -> None:
    """One page for each event and each place that deserve one, for as long as they do, and none else."""
    found = findings(range(first, first + TOGETHER), tmp_path, SLOW_EVALUATION)
    assert not found, f"{SEED_MESSAGE}\n{found}"


@pytest.mark.parametrize("first", range(0, FLEETS, TOGETHER))
def test_groups_have_no_order(first: int, tmp_path: Path) -> None:
    """In a random order of groups, pages may come and go one evaluation later, and the first one may be wrong."""
    found = findings(range(first, first + TOGETHER), tmp_path, SLOW_EVALUATION, shuffled=True)
    assert not found, f"{SEED_MESSAGE}\n{found}"
