"""Which spans are complete at each transition of an event, and from when to when they last."""

from dataclasses import dataclass

import pytest

from azure_scheduled_events_exporter.core.approvals import mark_requested
from azure_scheduled_events_exporter.core.document import ScheduledEvent
from azure_scheduled_events_exporter.core.lifecycle import Approver
from azure_scheduled_events_exporter.core.spans import unfinished
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from support.events.span_watcher import (
    GUID,
    PREFIX,
    START,
    STARTED,
    Watcher,
    scheduled,
    times,
)


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


class TestTransitions:
    """Which spans are complete, and from when to when, at each transition."""

    @pytest.mark.parametrize(
        ("steps", "approver", "outcome"),
        [
            pytest.param(
                [
                    Step(0, scheduled(), {"detected": (0, 0)}),
                    Step(901, STARTED, {"scheduled": (0, 901), "approval": (0, 901)}),
                    Step(1500, None, {"started": (901, 1500), "scheduled_event": (0, 1500)}),
                ],
                "deadline",
                "completed",
                id="started at NotBefore",
            ),
            pytest.param(
                [
                    Step(0, scheduled(), {"detected": (0, 0)}),
                    Step(60, STARTED, {"scheduled": (0, 60), "approval": (0, 60)}),
                ],
                "external",
                None,
                id="approved elsewhere",
            ),
            pytest.param(
                [
                    Step(0, STARTED, {"detected": (0, 0)}),
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

    def test_an_approval_by_this_exporter(self) -> None:
        """An approval that IMDS has accepted completes its span at once, not with the start."""
        vm = Watcher()
        vm.sees(scheduled(), at=0)
        assert times(vm.approves(at=2)) == {"approval": (0, 2)}
        assert times(vm.sees(STARTED, at=60)) == {"scheduled": (0, 60)}
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
        """The span of an approval ends when the approval was sent, not when the exporter is back
        after the reboot.
        """
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
        vm.sees(STARTED, at=901)
        spans = {span.name: span for span in unfinished([vm.life], Timestamp(START + 930))}
        assert times(spans) == {
            "started": (901, 930),
            "scheduled_event": (0, 930),
        }
        assert all(PREFIX + "outcome" not in span.attributes for span in spans.values())
