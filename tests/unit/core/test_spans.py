"""The trace of an event: ids that all VMs share, and the spans of each transition."""

import hashlib
from dataclasses import dataclass, field, replace

import pytest

from azure_scheduled_events_exporter.core.approvals import mark_approved, mark_requested
from azure_scheduled_events_exporter.core.document import Document, ScheduledEvent
from azure_scheduled_events_exporter.core.lifecycle import Approver, Lifecycle, Lifecycles, State
from azure_scheduled_events_exporter.core.observation import observe
from azure_scheduled_events_exporter.core.observation_context import ObservationContext
from azure_scheduled_events_exporter.core.pause import Pause
from azure_scheduled_events_exporter.core.spans import (
    SpanFacts,
    finished,
    is_traced,
    span_id,
    trace_id,
    unfinished,
)
from azure_scheduled_events_exporter.core.timestamp import Timestamp

GUID = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"
START = 1_700_000_000.0
PREFIX = "azure.scheduled_event."


def sha256(text: str) -> str:
    """Return the hash in hexadecimal digits, as the contract writes it."""
    return hashlib.sha256(text.encode()).hexdigest()


def scheduled(event_id: str = GUID, **more: object) -> ScheduledEvent:
    """Return an announced Freeze of two VMs, with 900 s of notice."""
    event = ScheduledEvent(
        event_id=event_id,
        event_type="Freeze",
        status=State.SCHEDULED,
        source="Platform",
        resources=("vmss_0", "vmss_1"),
        not_before=START + 900,
        description="Live Migration",
        duration_seconds=5.0,
    )
    return replace(event, **more)  # type: ignore[arg-type]


def started(event: ScheduledEvent) -> ScheduledEvent:
    """Return ``event`` as IMDS shows it once it has begun."""
    return replace(event, status=State.STARTED, not_before=None)


@dataclass
class Watcher:
    """One VM that looks at documents and makes spans of what changes."""

    vm: str = "vmss_0"
    boot: Timestamp = field(default_factory=lambda: Timestamp(START - 9e6, 0.0, "boot-1"))
    known: Lifecycles = field(default_factory=Lifecycles)

    def sees(
        self, *events: ScheduledEvent, at: float, watched: bool = True, pause: float = 0.0
    ) -> dict[str, SpanFacts]:
        """Return by name the spans that are finished by a document of ``events``, ``at`` seconds
        after START.
        """
        now = Timestamp(START + at, START + at - self.boot.wall, self.boot.boot_id)
        measured = Pause(pause)
        context = ObservationContext(now, self.vm, watched, measured)
        self.known, changes = observe(self.known, Document(1, events), context)
        return {span.name: span for change in changes for span in finished(change)}

    def approves(self, at: float) -> dict[str, SpanFacts]:
        """Return by name the spans that an accepted approval of the event finishes."""
        now = Timestamp(START + at, START + at - self.boot.wall, self.boot.boot_id)
        self.known, changes = mark_approved(self.known, GUID, Approver.EXPORTER, now)
        return {span.name: span for change in changes for span in finished(change)}

    @property
    def life(self) -> Lifecycle:
        """The one current event."""
        (life,) = self.known.current.values()
        return life


def times(spans: dict[str, SpanFacts]) -> dict[str, tuple[float, float]]:
    """Return start and end of each span, in seconds after START."""
    return {name: (span.start - START, span.end - START) for name, span in spans.items()}


RUNS = started(scheduled())


@dataclass(frozen=True)
class Step:
    """One document of the life of an event.

    Attributes:
        seconds: when it comes, after START.
        event: what it shows; None: no event.
        spans: start and end of the spans that it completes, in seconds after START, by name.
        is_watched: whether somebody polled until then.
    """

    seconds: float
    event: ScheduledEvent | None
    spans: dict[str, tuple[float, float]]
    is_watched: bool = True


# These have the length of a GUID, and int() takes the first two for hexadecimal numbers.
ALMOST_GUIDS = (
    "C7061BAC-AFDC-4513-B24B-AA5F13A161_3",
    "0XC061BA-AFDC-4513-B24B-AA5F13A16123",
    GUID[:-4] + "----",
)


class TestIds:
    """Every id follows from the event, the VM and the span's name."""

    def test_the_trace_id_of_a_guid(self) -> None:
        """It is the EventId without dashes, but never zeros, which OpenTelemetry refuses."""
        assert trace_id(GUID) == trace_id(GUID.lower()) == "c7061bacafdc4513b24baa5f13a16123"
        assert int(trace_id("00000000-0000-0000-0000-000000000000"), 16) != 0

    @pytest.mark.parametrize(
        "text",
        [
            "NO-ID-0123456789ABCDEF01234567",
            "x",
            "G7061BAC-AFDC-4513-B24B-AA5F13A16123",
            *ALMOST_GUIDS,
        ],
    )
    def test_the_trace_id_of_an_event_id_that_is_no_guid(self, text: str) -> None:
        """It is the first 16 bytes of the hash."""
        assert trace_id(text) == sha256(text.lower())[:32]

    @pytest.mark.parametrize(
        "name", ["scheduled_event", "detected", "scheduled", "approval", "started"]
    )
    def test_a_span_id_is_a_hash_of_event_vm_and_name(self, name: str) -> None:
        """A span's id is computed from event, VM and span name."""
        assert span_id(GUID, "vmss_0", name) == sha256(f"{GUID.lower()}/vmss_0/{name}")[:16]

    def test_two_vms_tell_one_trace(self) -> None:
        """The second VM's whole life hangs under the first VM's, and its phases under its own."""
        first = Watcher("vmss_0")
        second = Watcher("vmss_1")
        roots = []
        for vm in (first, second):
            vm.sees(scheduled(), at=0)
            spans = vm.sees(at=100)
            roots.append(spans["scheduled_event"])
            assert spans["scheduled"].parent_id == spans["scheduled_event"].span_id
        of_first, of_second = roots
        assert of_first.trace_id == of_second.trace_id
        assert of_first.parent_id == ""
        assert of_second.parent_id == of_first.span_id
        assert of_second.span_id != of_first.span_id

    def test_names_agree_whatever_their_spelling(self) -> None:
        """Underscores of the preview version and another case of a VM's name split no trace."""
        event = scheduled(resources=("_VMSS_0", "_VMSS_1"))
        first = Watcher("vmss_0")
        second = Watcher("VmSs_1")
        detected = [vm.sees(event, at=0)["detected"] for vm in (first, second)]
        roots = [vm.sees(at=100)["scheduled_event"] for vm in (first, second)]
        of_first, of_second = roots
        assert of_first.parent_id == ""
        assert of_second.parent_id == of_first.span_id
        assert [span.parent_id for span in detected] == [span.span_id for span in roots]
        assert of_first.span_id == span_id(GUID, "VMSS_0", "scheduled_event")

    def test_without_resources_each_view_is_a_root(self) -> None:
        """An event that names no VM has a parentless span, not one under a VM called nothing."""
        vm = Watcher()
        vm.sees(scheduled(resources=()), at=0)
        assert vm.sees(at=100)["scheduled_event"].parent_id == ""


class TestTransitions:
    """Which spans are complete, and from when to when, at each transition."""

    @pytest.mark.parametrize(
        ("steps", "approver", "outcome"),
        [
            pytest.param(
                [
                    Step(0, scheduled(), {"detected": (0, 0)}),
                    Step(901, RUNS, {"scheduled": (0, 901), "approval": (0, 901)}),
                    Step(1500, None, {"started": (901, 1500), "scheduled_event": (0, 1500)}),
                ],
                "deadline",
                "completed",
                id="started at NotBefore",
            ),
            pytest.param(
                [
                    Step(0, scheduled(), {"detected": (0, 0)}),
                    Step(60, RUNS, {"scheduled": (0, 60), "approval": (0, 60)}),
                ],
                "external",
                None,
                id="approved elsewhere",
            ),
            pytest.param(
                [
                    Step(0, RUNS, {"detected": (0, 0)}),
                    Step(300, None, {"started": (0, 300), "scheduled_event": (0, 300)}),
                ],
                None,
                "completed",
                id="first seen started",
            ),
            pytest.param(
                [
                    Step(0, scheduled(), {"detected": (0, 0)}),
                    Step(10, scheduled(not_before=START + 1200), {}),
                    Step(100, None, {"scheduled": (0, 100), "scheduled_event": (0, 100)}),
                ],
                None,
                "cancelled",
                id="rescheduled, then cancelled",
            ),
            pytest.param(
                [
                    Step(0, scheduled(), {"detected": (0, 0)}),
                    Step(
                        100,
                        None,
                        {"scheduled": (0, 100), "scheduled_event": (0, 100)},
                        is_watched=False,
                    ),
                ],
                None,
                "lost",
                id="lost",
            ),
            pytest.param(
                [
                    Step(0, scheduled(status="Advisory"), {"detected": (0, 0)}),
                    Step(100, None, {"scheduled_event": (0, 100)}),
                ],
                None,
                "withdrawn",
                id="advice",
            ),
            pytest.param(
                [
                    Step(100, scheduled(), {"detected": (100, 100)}),
                    Step(40, None, {"scheduled": (100, 100), "scheduled_event": (100, 100)}),
                ],
                None,
                "cancelled",
                id="the wall clock was set back",
            ),
        ],
    )
    def test_a_life(self, steps: list[Step], approver: str | None, outcome: str | None) -> None:
        """Each transition completes its spans, and the last ones have the outcome."""
        vm = Watcher()
        for step in steps:
            events = () if step.event is None else (step.event,)
            spans = vm.sees(*events, at=step.seconds, watched=step.is_watched)
            assert times(spans) == step.spans
        outcomes = {span.attributes.get(PREFIX + "outcome") for span in spans.values()}
        assert outcomes == {outcome}, "of the spans of the last step"
        [life] = [*vm.known.current.values(), *vm.known.ended.values()]
        assert (life.approved_by, life.outcome) == (approver, outcome)

    def test_an_approval_from_here(self) -> None:
        """An approval that IMDS has accepted completes its span at once, not with the start."""
        vm = Watcher()
        vm.sees(scheduled(), at=0)
        assert times(vm.approves(at=2)) == {"approval": (0, 2)}
        assert times(vm.sees(RUNS, at=60)) == {"scheduled": (0, 60)}
        assert vm.life.approved_by is Approver.EXPORTER

    def test_a_reboot_nobody_saw_begin(self) -> None:
        """After a reboot the spans meet at NotBefore, when the event began, without a hole."""
        vm = Watcher()
        vm.sees(scheduled(event_type="Reboot"), at=0)
        vm.boot = Timestamp(START + 910, 0.0, "boot-2")
        spans = vm.sees(at=960, watched=False)
        assert times(spans) == {
            "scheduled": (0, 900),
            "approval": (0, 900),
            "started": (900, 960),
            "scheduled_event": (0, 960),
        }
        assert spans["scheduled_event"].attributes[PREFIX + "outcome"] == "completed"

    def test_an_approval_that_a_reboot_shows(self) -> None:
        """The approval ends when it was sent, not when the exporter is back after the reboot."""
        vm = Watcher()
        vm.sees(scheduled(event_type="Reboot"), at=0)
        vm.known = mark_requested(
            vm.known, GUID, Approver.EXPORTER, Timestamp(START + 10, START + 10, "boot-1")
        )
        vm.boot = Timestamp(START + 60, 0.0, "boot-2")
        spans = vm.sees(at=90, watched=False)
        assert times(spans) == {
            "approval": (0, 10),
            "scheduled": (0, 60),
            "started": (60, 90),
            "scheduled_event": (0, 90),
        }

    def test_open_spans_as_they_stand(self) -> None:
        """An exporter that is stopped during an event sends unfinished spans without an outcome."""
        vm = Watcher()
        vm.sees(scheduled(), at=0)
        spans = {span.name: span for span in unfinished([vm.life], Timestamp(START + 30))}
        assert times(spans) == {
            "scheduled": (0, 30),
            "scheduled_event": (0, 30),
        }
        vm.sees(RUNS, at=901)
        spans = {span.name: span for span in unfinished([vm.life], Timestamp(START + 930))}
        assert times(spans) == {
            "started": (901, 930),
            "scheduled_event": (0, 930),
        }
        assert all(PREFIX + "outcome" not in span.attributes for span in spans.values())


class TestAttributes:
    """The attributes of spans."""

    def test_all_of_them(self) -> None:
        """The whole life carries everything that is known."""
        vm = Watcher()
        vm.sees(scheduled(), at=0)
        vm.sees(RUNS, at=901)
        vm.sees(RUNS, at=902, pause=2.5)
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
        spans |= vm.sees(RUNS, at=901)
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
        """An unknown duration, an empty description and an open outcome are no attributes; a
        duration of 0 is one.
        """
        vm = Watcher()
        bare = scheduled(duration_seconds=None, description="", source="", not_before=None)
        assert vm.sees(bare, at=0)["detected"].attributes.keys() == {
            PREFIX + name for name in ("id", "type", "resources", "resource_count")
        }
        none_at_all = Watcher().sees(scheduled(duration_seconds=0.0), at=0)["detected"]
        assert none_at_all.attributes[PREFIX + "duration_seconds"] == 0.0


class TestWhoIsTraced:
    """Which events a VM traces."""

    @pytest.mark.parametrize(
        ("vm", "peers_too", "traced"),
        [
            ("vmss_0", False, True),
            ("VMSS_1", False, True),
            ("vmss_4", False, False),
            ("vmss_4", True, True),
            (None, False, False),
            (None, True, False),
            ("", True, False),
        ],
    )
    def test_own_events_and_peers_on_request(
        self, vm: str | None, *, peers_too: bool, traced: bool
    ) -> None:
        """Other VMs' events are traced with scope all only, and nothing without a name of one's
        own.
        """
        watcher = Watcher(vm or "")
        watcher.sees(scheduled(), at=0)
        assert is_traced(watcher.life, peers_too=peers_too) is traced


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
