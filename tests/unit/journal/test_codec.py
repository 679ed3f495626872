"""How values are written to the journal: damage of the file and bugs of the exporter are distinguished."""

import pytest

from azure_scheduled_events_exporter.core.lifecycle import Lifecycle
from azure_scheduled_events_exporter.core.pause import ClockSample
from azure_scheduled_events_exporter.core.statistics import Statistics
from azure_scheduled_events_exporter.errors import CodecError, DamagedTextError
from azure_scheduled_events_exporter.journal.codec import decode, encode


@pytest.mark.parametrize("text", ['{"event":', "dear diary", ""])
def test_damage(text: str) -> None:
    """Text that is not JSON was not written here: the file is damaged."""
    with pytest.raises(DamagedTextError, match="does not hold JSON"):
        decode(Lifecycle, text)


@pytest.mark.parametrize("text", ["{}", "[]", '{"nonsense": 1}', '{"event": 5}'])
def test_a_bug(text: str) -> None:
    """Intact text that does not fit the class is a bug of the exporter, and is reported as one."""
    with pytest.raises(CodecError, match="bug: Lifecycle cannot be read"):
        decode(Lifecycle, text)


@pytest.mark.parametrize("wall", ["NaN", "1e999", "true", '"noon"', "[]", str(1 << 64)])
def test_a_time_that_is_no_number(wall: str) -> None:
    """A time that is not a finite number is refused, before anything calculates with it."""
    with pytest.raises(CodecError, match="stands where float is due"):
        decode(ClockSample, f'{{"wall": {wall}, "monotonic": 1, "since_boot": 2.5}}')


@pytest.mark.parametrize(
    "entry", ['["Freeze", 1]', '["Freeze", "Platform", "self", "started", "1"]', "[1, 1, 1, 1, 1]", "5", "[]"]
)
def test_an_entry_that_is_no_counter(entry: str) -> None:
    """A counter without its four labels, or whose value is no whole number, is refused."""
    with pytest.raises(CodecError, match="Statistics cannot be read"):
        decode(Statistics, f'{{"transitions": [{entry}]}}')


def test_a_value_that_has_no_form() -> None:
    """A value that JSON cannot hold is a bug of the exporter."""
    with pytest.raises(CodecError, match="bug: object cannot be written"):
        encode(object())
