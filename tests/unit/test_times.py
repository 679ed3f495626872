"""Durations and moments as people write them."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from azure_scheduled_events_exporter.times import format_duration, iso_time, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("0s", 0.0),
        ("1s", 1.0),
        ("250ms", 0.25),
        ("1m", 60.0),
        ("1m30s", 90.0),
        ("2h", 7200.0),
        ("90d", 90 * 86400.0),
        ("1w", 604800.0),
        ("1y", 365 * 86400.0),
        ("1.5s", 1.5),
        ("1d2h3m4s5ms", 93784.005),
    ],
)
def test_parse(text: str, seconds: float) -> None:
    """A duration is written as Prometheus writes it."""
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    ["", "1", "s", "-1s", "+1s", "1 s", " 1s", "1s\n", "1S", "1sec", "1s-", "1e3s", ".5s", "1.s",
     "\u0661s", "1µs", "inf", "nan", "1m30", "00"],
)  # fmt: skip
def test_parse_refuses(text: str) -> None:
    """An invalid duration is refused, and the message shows valid ones."""
    with pytest.raises(
        ValueError, match="is no duration: write a number and a unit, such as 500ms"
    ) as caught:
        parse_duration(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0s"),
        (0.0001, "0s"),
        (0.25, "250ms"),
        (1.0, "1s"),
        (90.0, "1m30s"),
        (59.9996, "1m"),
        (3600.0, "1h"),
        (90 * 86400.0, "90d"),
        (93784.005, "1d2h3m4s5ms"),
        (-90.0, "-1m30s"),
    ],
)
def test_format(seconds: float, text: str) -> None:
    """A duration is shown to the millisecond, largest unit first."""
    assert format_duration(seconds) == text


@settings(deadline=None)
@given(st.integers(min_value=0, max_value=10**13))
def test_round_trip(milliseconds: int) -> None:
    """Every formatted duration can be parsed."""
    assert parse_duration(format_duration(milliseconds / 1000)) == pytest.approx(
        milliseconds / 1000, abs=1e-3
    )


@settings(deadline=None)
@given(st.text() | st.from_regex(r"(\d{1,3}(\.\d)?(ms|[smhdwyx]))+", fullmatch=True))
def test_any_text(text: str) -> None:
    """Every text is a duration of 0 or more, or refused."""
    try:
        seconds = parse_duration(text)
    except ValueError:
        return
    assert 0.0 <= seconds < float("inf")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1649716018.0, "2022-04-11T22:26:58Z"),
        (1649716018.999, "2022-04-11T22:26:58Z"),
        (253402300799, "9999-12-31T23:59:59Z"),
        (253402300800, "253402300800"),
        (-1e300, "-1e+300"),
        (math.inf, "inf"),
        (math.nan, "nan"),
    ],
)
def test_iso_time(seconds: float, text: str) -> None:
    """A time is written in UTC to the second; one that no calendar has stays a number."""
    assert iso_time(seconds) == text
