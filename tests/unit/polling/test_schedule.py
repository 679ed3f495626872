"""When polls are due, and the limit on requests."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from azure_scheduled_events_exporter.imds.rate_limiter import RateLimiter
from azure_scheduled_events_exporter.polling.schedule import SLOWEST_SECONDS, PollSchedule


def test_first_poll_is_due_at_once() -> None:
    """Polling begins at the start."""
    assert PollSchedule(1.0, 100.0).due == 100.0


def test_beat_is_kept() -> None:
    """Polls begin at a fixed rate, independent of their duration within the interval."""
    pace = PollSchedule(1.0, 100.0)
    began = []
    for took in (0.01, 0.9, 0.5, 0.0):
        began.append(pace.due)
        pace.polled(pace.due + took, throttled=False)
    assert began == [100.0, 101.0, 102.0, 103.0]


def test_polls_never_wait_for_the_limit() -> None:
    """With a tiny interval, polls come evenly, as often as the limit allows, instead of in bursts that wait."""
    limiter = RateLimiter()
    pace = PollSchedule(0.01, 100.0, limiter.spacing)
    for _ in range(20):
        assert limiter.reserve(pace.due) == pytest.approx(pace.due)
        pace.polled(pace.due + 0.005, throttled=False)


def test_late_polls_are_dropped() -> None:
    """After a poll that took several intervals, the next one is on the beat, and none is made up for."""
    pace = PollSchedule(1.0, 100.0)
    pace.polled(103.5, throttled=False)
    assert pace.due == 104.0
    pace.polled(104.01, throttled=False)
    assert pace.due == 105.0


def test_throttled_polls_slow_down_and_recover() -> None:
    """Each 429 doubles the interval, up to 5 s, since a Spot VM has 30 s; each other answer halves it."""
    pace = PollSchedule(1.0, 100.0)
    steps = []
    for throttled in (True, True, True, True, False, False, False, False):
        before = pace.due
        pace.polled(before + 0.01, throttled=throttled)
        steps.append(pace.due - before)
    assert steps == [2.0, 4.0, 5.0, 5.0, 2.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("interval", [5.0, 7.0, 3600.0])
def test_a_slow_rhythm_is_not_slowed_down_further(interval: float) -> None:
    """Polling that is slow enough by itself stays as configured, throttled or not."""
    pace = PollSchedule(interval, 0.0)
    pace.polled(0.1, throttled=True)
    assert pace.due == interval


def test_a_fast_rhythm_slows_down_as_far() -> None:
    """However short the interval, 429 brings it down to one poll in 5 s, and no further."""
    pace = PollSchedule(0.01, 0.0)
    for _ in range(20):
        before = pace.due
        pace.polled(before, throttled=True)
    assert pace.due - before == pytest.approx(SLOWEST_SECONDS)


def test_at_once() -> None:
    """An immediate poll can be requested, and later polls follow from there."""
    pace = PollSchedule(10.0, 0.0)
    pace.polled(0.1, throttled=False)
    pace.at_once(3.0)
    assert pace.due == 3.0
    pace.polled(3.1, throttled=False)
    assert pace.due == 13.0


@given(
    interval=st.sampled_from([0.01, 0.3, 1.0, 10.0]),
    polls=st.lists(st.tuples(st.floats(0, 60), st.floats(0, 60), st.booleans()), max_size=30),
)
@settings(deadline=None)
def test_never_two_polls_in_one_beat(interval: float, polls: list[tuple[float, float, bool]]) -> None:
    """Whatever polls take and however late they begin, due times lie at least an interval apart, on the beat."""
    pace = PollSchedule(interval, 0.0)
    now = 0.0
    for late, took, throttled in polls:
        due = pace.due
        now = max(now, due) + late + took
        pace.polled(now, throttled=throttled)
        assert pace.due - due >= interval * (1 - 1e-6)
        assert pace.due >= now - 1e-6 * max(1.0, now)
        assert pace.due - now <= max(interval, SLOWEST_SECONDS) * (1 + 1e-6)
        beats = pace.due / interval
        assert beats == pytest.approx(round(beats), abs=1e-3)


def test_limiter_lets_the_first_requests_go() -> None:
    """Up to the limit, requests do not wait."""
    limiter = RateLimiter(limit=4, window=1.0)
    assert [limiter.reserve(10.0) for _ in range(4)] == [10.0] * 4


def test_limiter_makes_a_burst_wait() -> None:
    """Requests beyond the limit wait until a place is free, in the order in which they came."""
    limiter = RateLimiter(limit=2, window=1.0)
    assert [limiter.reserve(now) for now in (10.0, 10.4, 10.5, 10.5, 10.5)] == [10.0, 10.4, 11.0, 11.4, 12.0]


def test_limiter_recovers() -> None:
    """After a quiet time all requests are allowed again."""
    limiter = RateLimiter(limit=2, window=1.0)
    for _ in range(6):
        limiter.reserve(10.0)
    assert [limiter.reserve(20.0) for _ in range(2)] == [20.0, 20.0]


def test_default_budget_is_what_azure_allows() -> None:
    """All parts of the process together stay under 5 requests in any second."""
    limiter = RateLimiter()
    places = [limiter.reserve(0.0) for _ in range(20)]
    assert max(len([place for place in places if start <= place < start + 1.0]) for start in places) < 5


@given(
    limit=st.integers(1, 6),
    window=st.sampled_from([0.1, 1.0, 2.5]),
    pauses=st.lists(st.floats(0, 0.7) | st.just(0.0) | st.floats(-0.1, 3), max_size=60),
)
@settings(deadline=None)
def test_limiter_in_any_window(limit: int, window: float, pauses: list[float]) -> None:
    """For any arrivals, no window has more requests than the limit, none is early, and the order is kept."""
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


def test_limiter_of_requests_that_come_out_of_order() -> None:
    """A thread whose reading of the clock is older does not overtake one that has its place already."""
    limiter = RateLimiter(limit=4, window=1.0)
    assert [limiter.reserve(now) for now in (10.0, 9.9, 9.8)] == [10.0] * 3


def test_request_that_was_held_up() -> None:
    """A request that took long to arrive counts from its arrival: the next ones do not come together with it."""
    limiter = RateLimiter(limit=2, window=1.0)
    first = limiter.reserve(10.0)
    limiter.arrived(first, 12.0)
    assert [limiter.reserve(12.0) for _ in range(3)] == [12.0, 13.0, 13.0]
    limiter.arrived(99.0, 100.0)  # one that has no place any more
    assert limiter.reserve(20.0) == 20.0


@given(
    limit=st.integers(1, 5),
    requests=st.lists(st.tuples(st.floats(0, 2), st.floats(0, 3) | st.just(0.0)), max_size=40),
)
@settings(deadline=None)
def test_limiter_of_arrivals(limit: int, requests: list[tuple[float, float]]) -> None:
    """However long requests are on their way, one after another, no window sees more than the limit arrive."""
    limiter = RateLimiter(limit, 1.0)
    now = 1000.0
    arrivals = []
    for pause, delay in requests:
        place = limiter.reserve(now + pause)
        now = place + delay
        limiter.arrived(place, now)
        arrivals.append(now)
    for earlier, later in zip(arrivals, arrivals[limit:], strict=False):
        assert later >= earlier + 1.0


@given(pauses=st.lists(st.floats(0, 0.7), max_size=60))
@settings(deadline=None)
def test_limiter_makes_nobody_wait_for_nothing(pauses: list[float]) -> None:
    """A request waits for a slot that is really taken."""
    limiter = RateLimiter(3, 1.0)
    now = 1000.0
    places: list[float] = []
    for pause in pauses:
        now += pause
        place = limiter.reserve(now)
        if place > now:
            assert place in {places[-1], places[-3] + 1.0}
        places.append(place)


def test_limiter_is_shared_by_threads() -> None:
    """Threads that ask at the same time get places of their own."""
    limiter = RateLimiter(limit=4, window=1.0)
    places: list[float] = []

    def ask() -> None:
        for _ in range(50):
            places.append(limiter.reserve(0.0))  # noqa: PERF401 - threads are to take turns

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(places) == [float(second) for second in range(100) for _ in range(4)]
