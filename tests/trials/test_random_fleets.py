"""Random fleets against oracles: each event that deserves a page gets one, which stays, and ends when it should.

So do places that events hit, VMs that do not come back, and events that are late. Each ten fleets are judged by other
settings: those that are shipped, such that a fleet reaches all of them, and with a memory that is longer than alerts.
"""

from pathlib import Path

import pytest

from support.monitoring.alert_scenarios import SLOW_EVALUATION
from support.monitoring.random_fleets.fleet_tests import findings
from support.monitoring.random_fleets.limits import LIMITS, Limits

FLEETS, TOGETHER = 30, 10
SEED_MESSAGE = "the seed is in the event_id, E<seed>-0, in the subscription, sub-<seed>, or in the vm_id, id-<seed>-0"


def _played(shift: int) -> list[tuple[int, Limits]]:
    return [(ten * TOGETHER, LIMITS[(ten + shift) % len(LIMITS)]) for ten in range(FLEETS // TOGETHER)]


def _name(value: object) -> str:
    return value.name if isinstance(value, Limits) else str(value)


@pytest.mark.parametrize(("first", "limits"), _played(1), ids=_name)
def test_each_event_is_one_page(first: int, limits: Limits, seed: int, tmp_path: Path) -> None:
    """One page for each event, place and VM that deserve one, for as long as they do, and none else."""
    found = findings(range(seed + first, seed + first + TOGETHER), tmp_path, SLOW_EVALUATION, limits=limits)
    assert not found, f"{SEED_MESSAGE}\n{found}"


@pytest.mark.parametrize(("first", "limits"), _played(2), ids=_name)
def test_groups_have_no_order(first: int, limits: Limits, seed: int, tmp_path: Path) -> None:
    """In a random order of groups, pages may come and go one evaluation later, and the first one may be wrong."""
    found = findings(
        range(seed + first, seed + first + TOGETHER), tmp_path, SLOW_EVALUATION, shuffled=True, limits=limits
    )
    assert not found, f"{SEED_MESSAGE}\n{found}"
