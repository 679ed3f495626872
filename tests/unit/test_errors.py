"""Text from outside as commands print it."""

from azure_scheduled_events_exporter.commands.table import table
from azure_scheduled_events_exporter.errors import printable


def test_no_cell_ends_its_row_or_controls_the_terminal() -> None:
    """A description with line breaks or escape sequences stays one cell of one row."""
    printed = table([["EVENT", "DESCRIPTION"], ["A", "quiet\nFAKE-ID  Terminate\x1b[2J"]])
    assert printed.splitlines() == ["EVENT  DESCRIPTION", "A      quiet\\nFAKE-ID  Terminate\\x1b[2J"]


def test_what_can_be_printed_stays() -> None:
    """Letters of any language are printed as they are."""
    assert printable("Wartung für 維護 · vmss_0") == "Wartung für 維護 · vmss_0"
