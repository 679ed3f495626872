"""How values are written to the journal: damage of the file and bugs of the exporter are
distinguished.
"""

import pytest

from azure_scheduled_events_exporter.core.lifecycle import Lifecycle
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import CodecError, DamagedTextError
from azure_scheduled_events_exporter.journal.content.codec import decode, encode


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


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999", str(1 << 63), "true", '"5"'])
def test_a_number_out_of_range(number: str) -> None:
    """A number out of range, or a value of another type, does not fit."""
    with pytest.raises(
        CodecError,
        match="bug: Timestamp cannot be read from the journal: TypeError: expected float",
    ):
        decode(Timestamp, f'{{"wall": {number}}}')


def test_a_value_that_has_no_form() -> None:
    """A value that JSON cannot hold is a bug of the exporter."""
    with pytest.raises(CodecError, match="bug: object cannot be written"):
        encode(object())
