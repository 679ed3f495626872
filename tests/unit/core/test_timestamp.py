"""A moment by two clocks, and how it is written."""

import pytest
from freezegun import freeze_time
from hypothesis import given, settings
from hypothesis import strategies as st

from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.polling.clock import system_clock

FINITE = st.floats(min_value=-1e11, max_value=1e11)
INSTANTS = st.builds(Timestamp, FINITE, FINITE, st.sampled_from(["", "a", "b"]))


@pytest.mark.parametrize("jump", [-3600.0, -30.0, 0.0, 3600.0])
def test_within_one_boot_a_wall_clock_jump_changes_no_duration(jump: float) -> None:
    """Setting the wall clock does not change durations."""
    began = Timestamp(1000.0, 50.0, "boot-1")
    assert Timestamp(1007.0 + jump, 57.0, "boot-1").since(began) == 7.0


def test_across_boots_the_wall_clock_counts() -> None:
    """The duration of a reboot is measured by the wall clock: the monotonic clock begins again."""
    before = Timestamp(1000.0, 90_000.0, "boot-1")
    assert Timestamp(1045.0, 12.0, "boot-2").since(before) == 45.0


def test_without_a_boot_id_the_wall_clock_counts() -> None:
    """Moments known by the wall clock only are compared by it."""
    assert Timestamp(1045.0, 12.0).since(Timestamp(1000.0, 11.0)) == 45.0
    assert Timestamp(1045.0, 12.0, "boot-1").since(Timestamp(1000.0, 11.0)) == 45.0


@settings(deadline=None)
@given(INSTANTS, INSTANTS)
def test_no_duration_is_negative(one: Timestamp, other: Timestamp) -> None:
    """No pair of clocks makes something end before it began."""
    assert one.since(other) >= 0.0
    assert one.since(one) == 0.0
    assert min(one.since(other), other.since(one)) == 0.0


def test_frozen_wall_clock() -> None:
    """A clock uses the current wall clock, also after it was set."""
    with freeze_time("2022-04-11T22:26:58Z"):
        assert system_clock()().wall == 1649716018.0


def test_a_clock_that_lags_after_a_boot_hides_no_boot() -> None:
    """Another boot is recognized by its id, even if its wall-clock time is earlier."""
    before = Timestamp(1000.0, 500.0, "first")
    assert Timestamp(990.0, 3.0, "second").is_another_boot_after(before)
    assert not Timestamp(1010.0, 510.0, "first").is_another_boot_after(before)
    assert Timestamp(1010.0).is_another_boot_after(before)
    assert not Timestamp(990.0).is_another_boot_after(before)
