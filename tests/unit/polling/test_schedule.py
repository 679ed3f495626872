"""When polls are due, and the limit on requests."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.imds.rate_limiter import RateLimiter
from azure_scheduled_events_exporter.polling.liveness import Liveness
from azure_scheduled_events_exporter.polling.schedule import SLOWEST_SECONDS, PollSchedule


def test_beat_is_kept() -> None:
    """Polls begin at a fixed rate, independent of their duration within the interval."""
    pace = PollSchedule(interval=1.0, start=100.0)
    began = []
    for took in (0.01, 0.9, 0.5, 0.0):
        began.append(pace.due)
        pace.polled(pace.due + took, throttled=False)
    assert began == [100.0, 101.0, 102.0, 103.0]


def test_polls_never_wait_for_the_limit() -> None:
    """With a tiny interval, polls come evenly, as often as the limit allows, instead of in bursts
    that wait.
    """
    limiter = RateLimiter()
    pace = PollSchedule(interval=0.01, start=100.0, spacing=limiter.spacing)
    for _ in range(20):
        assert limiter.reserve(pace.due) == pytest.approx(pace.due)
        pace.polled(pace.due + 0.005, throttled=False)


def test_late_polls_are_dropped() -> None:
    """After a poll that took several intervals, the next one is on the beat, and none is made up
    for.
    """
    pace = PollSchedule(interval=1.0, start=100.0)
    pace.polled(103.5, throttled=False)
    assert pace.due == 104.0
    pace.polled(104.01, throttled=False)
    assert pace.due == 105.0


def test_throttled_polls_slow_down_and_recover() -> None:
    """Each 429 doubles the interval, up to 5 s, because the eviction of a Spot VM is announced only
    30 s before. Each other answer halves it, down to the configured interval. The interval is a
    multiple of the configured one, so half of 5 s is 2 s here.
    """
    pace = PollSchedule(interval=1.0, start=100.0)
    steps = []
    for throttled in (True, True, True, True, False, False, False, False):
        before = pace.due
        pace.polled(before + 0.01, throttled=throttled)
        steps.append(pace.due - before)
    assert steps == [2.0, 4.0, 5.0, 5.0, 2.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("interval", [5.0, 7.0, 3600.0])
def test_a_slow_rhythm_is_not_slowed_down_further(interval: float) -> None:
    """Polling every 5 s or more slowly stays as configured, although IMDS throttles."""
    pace = PollSchedule(interval=interval, start=0.0)
    pace.polled(0.1, throttled=True)
    assert pace.due == interval


def test_a_fast_rhythm_slows_down_to_the_slowest() -> None:
    """However short the interval is, answers of 429 lengthen it to 5 s, and no further."""
    pace = PollSchedule(interval=0.01, start=0.0)
    for _ in range(20):
        before = pace.due
        pace.polled(before, throttled=True)
    assert pace.due - before == pytest.approx(SLOWEST_SECONDS)


def test_at_latest() -> None:
    """The next poll can be requested to be at a moment or before, and later polls follow from
    there.
    """
    pace = PollSchedule(interval=10.0, start=0.0)
    pace.polled(0.1, throttled=False)
    pace.at_latest(3.0)
    pace.at_latest(4.0)
    assert pace.due == 3.0, "a later request postpones nothing"
    pace.polled(3.1, throttled=False)
    assert pace.due == 13.0


def test_a_poll_hangs_if_it_is_late_at_two_looks() -> None:
    """A poll hangs if two looks in a row find it more than 30 s late, until the loop goes on. One
    look, directly after a pause of the VM, does not count: the poll had no time to end.
    """
    now = Timestamp(0.0)  # what the clock says; set again below
    liveness = Liveness(lambda: now)
    seconds_until_due = 130.0
    liveness.expect(seconds_until_due)
    hung = []
    for late in (29.0, 31.0, 32.0):
        now = Timestamp(0.0, monotonic=seconds_until_due + late)
        liveness.look()
        hung.append(liveness.hangs)
    assert hung == [False, False, True]
    liveness.expect(10.0)  # the loop goes on: its next step is due in 10 s
    liveness.look()
    assert not liveness.hangs


def test_limiter_makes_a_burst_wait() -> None:
    """Requests beyond the limit wait until a place is free, in the order in which they came."""
    limiter = RateLimiter(limit=2, window=1.0)
    assert [limiter.reserve(now) for now in (10.0, 10.4, 10.5, 10.5, 10.5)] == [
        10.0,
        10.4,
        11.0,
        11.4,
        12.0,
    ]


def test_default_budget_is_what_azure_allows() -> None:
    """All parts of the process together stay under 5 requests in any second."""
    limiter = RateLimiter()
    places = [limiter.reserve(0.0) for _ in range(20)]
    for start in places:
        in_a_second = [place for place in places if start <= place < start + 1.0]
        assert len(in_a_second) < 5


@given(
    limit=st.integers(1, 6),
    window=st.sampled_from([0.1, 1.0, 2.5]),
    # A pause is below 0 if a thread has read the clock before another one, and reserves after it.
    pauses=st.lists(st.floats(0, 0.7) | st.just(0.0) | st.floats(-0.1, 3), max_size=60),
)
@settings(deadline=None)
def test_limiter_in_any_window(limit: int, window: float, pauses: list[float]) -> None:
    """Whatever the pauses between requests, no window has more of them than the limit, none comes
    before it was reserved, and the order is kept.
    """
    limiter = RateLimiter(limit, window)
    now = 1000.0
    places = []
    for pause in pauses:
        now += pause
        places.append(limiter.reserve(now))
        assert places[-1] >= now
    assert places == sorted(places)
    for earlier, later in zip(places, places[limit:], strict=False):
        assert later >= earlier + window


def test_request_that_was_held_up() -> None:
    """A request that took long to arrive counts from its arrival, so that no more requests than the
    limit arrive together. The limiter remembers only the last two places; the arrival of a
    forgotten one changes nothing.
    """
    limiter = RateLimiter(limit=2, window=1.0)
    held_up = limiter.reserve(10.0)
    limiter.arrived(held_up, 12.0)
    forgotten = limiter.reserve(12.25)
    assert forgotten == 12.25
    assert limiter.reserve(12.5) == 13.0, "12.0 and 12.25 are the last two"
    assert limiter.reserve(12.75) == 13.25, "a second after 12.25"
    limiter.arrived(forgotten, 100.0)
    assert limiter.reserve(20.0) == 20.0
