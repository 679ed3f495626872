"""Random fleets against oracles: each event that deserves a page gets one, which stays, and ends when it should.

So do places that events hit, VMs that do not come back, and events that are late. Every other ten fleets are judged by
settings so short that a fleet reaches all of them.
"""

from pathlib import Path

import pytest

from support.monitoring.alert_scenarios import SLOW_EVALUATION
from support.monitoring.random_fleets.fleet_tests import findings
from support.monitoring.random_fleets.limits import BRIEF, SHIPPED, Limits

FLEETS, TOGETHER = 30, 10
SEED_MESSAGE = "the seed is in the event_id, E<seed>-0, in the subscription, sub-<seed>, or in the vm_id, id-<seed>-0"


def _played(*limits: Limits) -> list[tuple[int, Limits]]:
    return [(first, limits[first // TOGETHER % 2]) for first in range(0, FLEETS, TOGETHER)]


def _name(value: object) -> str:
    return ("brief" if value is BRIEF else "shipped") if isinstance(value, Limits) else str(value)


@pytest.mark.parametrize(("first", "limits"), _played(BRIEF, SHIPPED), ids=_name)
def test_each_event_is_one_page(first: int, limits: Limits, tmp_path: Path) -> None:
    """One page for each event, place and VM that deserve one, for as long as they do, and none else."""
    found = findings(range(first, first + TOGETHER), tmp_path, SLOW_EVALUATION, limits=limits)
    assert not found, f"{SEED_MESSAGE}\n{found}"


@pytest.mark.parametrize(("first", "limits"), _played(SHIPPED, BRIEF), ids=_name)
def test_groups_have_no_order(first: int, limits: Limits, tmp_path: Path) -> None:
    """In a random order of groups, pages may come and go one evaluation later, and the first one may be wrong."""
    found = findings(range(first, first + TOGETHER), tmp_path, SLOW_EVALUATION, shuffled=True, limits=limits)
    assert not found, f"{SEED_MESSAGE}\n{found}"
