"""A moment by two clocks, and how it is written."""

from datetime import UTC, datetime

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
    began = Timestamp(wall=1000.0, monotonic=50.0, boot_id="boot-1")
    now = Timestamp(wall=1007.0 + jump, monotonic=57.0, boot_id="boot-1")
    assert now.since(began) == 7.0


def test_across_boots_the_wall_clock_counts() -> None:
    """The duration of a reboot is measured by the wall clock: the monotonic clock begins again."""
    before = Timestamp(wall=1000.0, monotonic=90_000.0, boot_id="boot-1")
    after = Timestamp(wall=1045.0, monotonic=12.0, boot_id="boot-2")
    assert after.since(before) == 45.0


def test_without_a_boot_id_the_wall_clock_counts() -> None:
    """Moments known by the wall clock only are compared by it."""
    before = Timestamp(wall=1000.0, monotonic=11.0)
    assert Timestamp(wall=1045.0, monotonic=12.0).since(before) == 45.0
    assert Timestamp(wall=1045.0, monotonic=12.0, boot_id="boot-1").since(before) == 45.0


@settings(deadline=None)
@given(INSTANTS, INSTANTS)
def test_no_duration_is_negative(one: Timestamp, other: Timestamp) -> None:
    """No pair of clocks makes something end before it began."""
    assert one.since(other) >= 0.0
    assert one.since(one) == 0.0
    assert min(one.since(other), other.since(one)) == 0.0


def test_a_wall_clock_that_is_set() -> None:
    """This machine's clock has the wall clock of the moment, also if it is set meanwhile."""
    clock = system_clock()
    moment = datetime(2022, 4, 11, 22, 26, 58, tzinfo=UTC)
    with freeze_time(moment):
        assert clock().wall == moment.timestamp()


def test_a_clock_that_lags_after_a_boot_hides_no_boot() -> None:
    """Another boot is recognized by its id, even if its wall-clock time is earlier; without an id,
    a later time is one of another boot.
    """
    before = Timestamp(wall=1000.0, monotonic=500.0, boot_id="first")
    assert Timestamp(wall=990.0, monotonic=3.0, boot_id="second").is_another_boot_after(before)
    assert not Timestamp(wall=1010.0, monotonic=510.0, boot_id="first").is_another_boot_after(
        before
    )
    assert Timestamp(wall=1010.0).is_another_boot_after(before)
    assert not Timestamp(wall=990.0).is_another_boot_after(before)
