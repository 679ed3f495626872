"""What the spans of an event say about it, and which events a VM traces at all."""

from dataclasses import replace

import pytest

from azure_scheduled_events_exporter.core.spans import is_traced
from support.events.span_watcher import GUID, PREFIX, START, STARTED, Watcher, scheduled


class TestAttributes:
    """The attributes of spans."""

    def test_the_root_span_has_every_attribute(self) -> None:
        """The span of the whole event has everything that was known of it, such as the NotBefore
        that a started event no longer shows.
        """
        vm = Watcher()
        vm.sees(scheduled(), at=0)
        vm.sees(STARTED, at=901)
        vm.sees(STARTED, at=902, pause=2.5)
        assert vm.sees(at=1500)["scheduled_event"].attributes == {
            PREFIX + "id": GUID,
            PREFIX + "type": "Freeze",
            PREFIX + "source": "Platform",
            PREFIX + "description": "Live Migration",
            PREFIX + "resources": ("vmss_0", "vmss_1"),
            PREFIX + "resource_count": 2,
            PREFIX + "not_before": "2023-11-14T22:28:20Z",
            PREFIX + "duration_seconds": 5.0,
            PREFIX + "observed_pause_seconds": 2.5,
            PREFIX + "observed_pauses": 1,
            PREFIX + "outcome": "completed",
            PREFIX + "approved_by": "deadline",
            PREFIX + "notice_seconds": 900.0,
        }

    def test_a_pause_stands_where_it_was(self) -> None:
        """The observed pause is an attribute of the root span and of the span started only."""
        vm = Watcher()
        spans = vm.sees(scheduled(), at=0)
        spans |= vm.sees(STARTED, at=901)
        spans |= vm.sees(at=1500, pause=2.5)
        name_of_pause = PREFIX + "observed_pause_seconds"
        assert {name: span.attributes.get(name_of_pause) for name, span in spans.items()} == {
            "detected": None,
            "scheduled": None,
            "approval": None,
            "started": 2.5,
            "scheduled_event": 2.5,
        }

    def test_what_is_not_known_is_absent(self) -> None:
        """What IMDS did not say, and what has not happened yet, is no attribute; a duration of 0 is
        one.
        """
        vm = Watcher()
        bare = scheduled(duration_seconds=None, description="", source="", not_before=None)
        assert vm.sees(bare, at=0)["detected"].attributes.keys() == {
            PREFIX + name for name in ("id", "type", "resources", "resource_count")
        }
        without_a_pause = Watcher().sees(scheduled(duration_seconds=0.0), at=0)["detected"]
        assert without_a_pause.attributes[PREFIX + "duration_seconds"] == 0.0


class TestEventsOfTheRoot:
    """What happened to an event is shown by events of its root span."""

    def test_a_return(self) -> None:
        """An event that returns after its end continues its trace: the root span has the return and
        the same id.
        """
        vm = Watcher()
        vm.sees(scheduled(), at=0)
        first = vm.sees(at=100)["scheduled_event"]
        assert vm.sees(scheduled(), at=200) == {}
        last = vm.sees(at=300)["scheduled_event"]
        assert (first.span_id, first.events) == (last.span_id, ())
        assert [(event.name, event.at - START) for event in last.events] == [("returned", 200)]

    def test_a_reschedule(self) -> None:
        """The root span has every change of NotBefore, with the old and the new time."""
        vm = Watcher()
        vm.sees(scheduled(), at=0)
        vm.sees(replace(scheduled(), not_before=START + 1800), at=10)
        root = vm.sees(at=100)["scheduled_event"]
        (moved,) = root.events
        assert (moved.name, moved.at - START) == ("rescheduled", 10)
        assert moved.attributes == {
            PREFIX + "previous_not_before": "2023-11-14T22:28:20Z",
            PREFIX + "not_before": "2023-11-14T22:43:20Z",
        }


class TestWhoIsTraced:
    """Which events a VM traces."""

    @pytest.mark.parametrize(
        ("vm", "peers_too", "traced"),
        [
            ("vmss_0", False, True),
            ("VMSS_1", False, True),
            ("vmss_4", False, False),
            ("vmss_4", True, True),
            ("", False, False),
            ("", True, False),
        ],
    )
    def test_own_events_and_peers_on_request(
        self, vm: str, *, peers_too: bool, traced: bool
    ) -> None:
        """A VM traces events of other VMs only with ``--tracing.scope all``, and none at all while
        it does not know its own name (``""``).
        """
        watcher = Watcher(vm)
        watcher.sees(scheduled(), at=0)
        assert is_traced(watcher.life, peers_too=peers_too) is traced
