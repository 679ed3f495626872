"""Tables for a terminal."""

from azure_scheduled_events_exporter.commands.table import table


def test_no_cell_ends_its_row_or_controls_the_terminal() -> None:
    """A description with line breaks or escape sequences stays one cell of one row."""
    printed = table([["EVENT", "DESCRIPTION"], ["A", "quiet\nFAKE-ID  Terminate\x1b[2J"]])
    assert printed.splitlines() == [
        "EVENT  DESCRIPTION",
        "A      quiet\\nFAKE-ID  Terminate\\x1b[2J",
    ]
