"""The table of event types, and what reads it."""

import pytest

from azure_scheduled_events_exporter.core.event_types import (
    EVENT_FACTS,
    EventType,
    hidden_by,
    takes_vm_down,
)


@pytest.mark.parametrize(
    ("api_version", "hidden"),
    [
        ("2017-03-01", ("Preempt", "Terminate")),
        ("2017-11-01", ("Terminate",)),
        ("2019-01-01", ()),
        ("2020-07-01", ()),
    ],
)
def test_types_that_an_api_version_hides(api_version: str, hidden: tuple[str, ...]) -> None:
    """An old api-version hides the types that came after it."""
    assert hidden_by(api_version) == hidden


def test_notice_of_an_eviction() -> None:
    """Of the notice of an eviction, both of Microsoft's pages are told, and the shorter notice that
    people report.
    """
    assert EventType.PREEMPT.facts.usual_notice == 30.0
    assert (
        "at least 30 seconds in one table, and of up to 30 seconds, best effort, on another page;"
        " people report less than 10 seconds" in EventType.PREEMPT.facts.meaning
    )


def test_a_type_that_azure_adds() -> None:
    """A type that the table does not have is no reboot and has no facts."""
    assert not takes_vm_down("OfTomorrow")
    assert EVENT_FACTS.get("OfTomorrow") is None
    # The documented types, for comparison.
    assert all(map(takes_vm_down, ("Reboot", "Redeploy", "Preempt", "Terminate")))
    assert not takes_vm_down("Freeze")
