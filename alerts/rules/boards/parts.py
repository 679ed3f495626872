"""What the recordings of boards have in common."""

from collections.abc import Mapping

from ..rule import Group, Recording

PLACE = "scale_set, resource_group, location, zone"
BY_TARGET = "on (job, instance)"


def board_groups(groups: Mapping[str, tuple[str, tuple[Recording, ...]]]) -> tuple[Group, ...]:
    """Return the groups, by name: interval and rules.

    Prometheus evaluates the rules of a group one after another, so costly rules are spread over groups.
    """
    return tuple(
        Group(f"azure-scheduled-events-board-{name}", interval, rules) for name, (interval, rules) in groups.items()
    )
