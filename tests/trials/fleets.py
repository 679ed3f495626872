"""Random fleets against oracles of their pages: the long form of ``test_random_fleets.py``, which plays thirty.

Promtool evaluates the rules over what the exporters of each fleet serve: a third of the fleets with the settings as
shipped, the others with short ones, and half of each with the groups of rules in a random order. A finding names the
seed of its fleet, as in ``event_id="E17-0"``, ``subscription_id="sub-17"`` or ``vm_id="id-17-0"``.
"""

from support.monitoring.alert_scenarios import SLOW_EVALUATION
from support.monitoring.random_fleets.fleet_tests import findings
from support.monitoring.random_fleets.generator import fleet, twin
from support.monitoring.random_fleets.limits import LIMITS
from trials.trial import Order, Row

TOGETHER = 10
LARGEST_SEED = 1_000_000


def run(order: Order) -> Row:
    """Play the fleets of consecutive seeds."""
    begin = order.seed % LARGEST_SEED
    seeds = range(begin, begin + order.pick(1000, 10))
    found = []
    for number, first in enumerate(seeds[::TOGETHER]):
        together = range(first, min(first + TOGETHER, seeds.stop))
        limits, is_shuffled = LIMITS[number % len(LIMITS)], number // len(LIMITS) % 2 == 1
        wrong = findings(together, order.folder, SLOW_EVALUATION, shuffled=is_shuffled, limits=limits)
        order.say(wrong or f"{first - begin + TOGETHER} fleets")
        found += [first] if wrong else []
    assert not found, f"pages that are missing, false or late, in the {TOGETHER} fleets from each of the seeds {found}"
    fleets = [fleet(seed) for seed in seeds]
    twins = sum(twin(each) is not None for each in fleets)
    return Row(
        "fleets",
        f"{len(fleets):,} random fleets: {sum(len(each.watchers) for each in fleets):,} VMs, "
        f"{sum(len(each.lives) for each in fleets):,} events, {twins} of them as an HA pair sees them, seed {begin}",
        "one page for each event, place and VM that deserved one, none else; none ended before somebody saw the end, "
        "and each within two minutes of it",
    )
