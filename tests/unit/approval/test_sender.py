"""Which approvals go into the next request, and a request that cannot be begun."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from azure_scheduled_events_exporter.approval.policy import DOCUMENTED
from azure_scheduled_events_exporter.approval.scheduler import ApprovalScheduler
from azure_scheduled_events_exporter.approval.sender import Answer, ApprovalSender
from azure_scheduled_events_exporter.core.document import Document, ScheduledEvent
from azure_scheduled_events_exporter.core.lifecycle import Lifecycles, State
from azure_scheduled_events_exporter.core.observation import observe
from azure_scheduled_events_exporter.core.observation_context import ObservationContext
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.imds.api_versions import ApiVersions
from azure_scheduled_events_exporter.imds.client import ImdsClient
from azure_scheduled_events_exporter.imds.rate_limiter import RateLimiter
from azure_scheduled_events_exporter.journal.journal import Journal
from azure_scheduled_events_exporter.snapshot.approvals import ApprovalOutcome
from support.programs import NOBODY

LOG = logging.getLogger("tests.approval")
NOW = Timestamp(1_700_000_000.0, 1000.0, "boot")
HUGE_STACK = 1 << 46  # bytes; no system gives a thread so many


@dataclass
class Clock:
    """A clock that is set by hand."""

    now: Timestamp = NOW

    def __call__(self) -> Timestamp:
        """Return this moment."""
        return self.now

    def passes(self, seconds: float) -> None:
        """Let so many seconds pass."""
        before = self.now
        self.now = Timestamp(before.wall + seconds, before.monotonic + seconds, before.boot_id)


@pytest.fixture
def clock() -> Clock:
    """Return the clock of the sender."""
    return Clock()


@pytest.fixture
def sender(clock: Clock) -> Iterator[ApprovalSender]:
    """Return a sender whose IMDS does not listen."""
    client = ImdsClient(
        f"http://{NOBODY}",
        ApiVersions("2020-07-01"),
        RateLimiter(),
        wait=lambda _: False,
        connect_seconds=1.0,
    )
    journal = Journal(None, 86_400.0, LOG)
    yield ApprovalSender(
        ApprovalScheduler(DOCUMENTED, LOG),
        client,
        journal,
        timeout=1.0,
        now=clock,
        machine_clock=clock,
        log=LOG,
    )
    journal.close()


@pytest.fixture
def known() -> Lifecycles:
    """Return two events, which the policy approves."""
    events = tuple(
        ScheduledEvent(name, "Reboot", State.SCHEDULED, "User", ("vm",), None, sent_id=name)
        for name in "AB"
    )
    context = ObservationContext(NOW, "vm")
    after, _changes = observe(Lifecycles(), Document(1, events), context)
    return after


def send_first(sender: ApprovalSender, known: Lifecycles) -> Answer:
    """Send the approval of A, which is due first; return how it failed."""
    first = sender.due(known, {"A", "B"}, "vm", is_name_confirmed=True)
    assert first is not None
    assert first.life.event_id == "A"
    sender.send(first, NOW)
    answer = sender.answer(60.0)
    assert answer is not None
    assert answer.error is not None
    return answer


def test_an_event_that_is_not_shown_holds_up_no_other(
    sender: ApprovalSender, known: Lifecycles
) -> None:
    """An event that the newest document does not show is not sent, and the next one is."""
    left = sender.due(known, {"B"}, "vm", is_name_confirmed=True)
    assert left is not None
    assert left.life.event_id == "B"


def test_an_event_whose_approval_fails_holds_up_no_other(
    sender: ApprovalSender, known: Lifecycles, clock: Clock
) -> None:
    """However far apart polls are, the events that are due take turns: the one that was tried
    longest ago, or never, is sent first.
    """
    tried = []
    for _ in range(4):
        due = sender.due(known, {"A", "B"}, "vm", is_name_confirmed=True)
        assert due is not None
        tried.append(due.life.event_id)
        sender.send(due, NOW)
        sender.answer(60.0)  # nobody listens there, so it has failed
        clock.passes(3600.0)  # more than any pause, so that both are due
    assert tried == ["A", "B", "A", "B"]


@contextmanager
def no_threads() -> Iterator[None]:
    """Within the block, no thread can be started, as at the limit of the unit's tasks."""
    usual = threading.stack_size(HUGE_STACK)
    try:
        yield
    finally:
        threading.stack_size(usual)


def test_a_thread_that_cannot_be_started(
    sender: ApprovalSender,
    known: Lifecycles,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """If the thread of a request cannot be started, the request is logged as not sent, counted as
    an error, and tried again after the usual pause.
    """
    with no_threads():
        answer = send_first(sender, known)
    assert "cannot start a thread" in str(answer.error)
    assert [record.message for record in caplog.records] == ["approval not sent"]
    assert sender.scheduler.counts[ApprovalOutcome.ERROR] == 1
    assert not sender.is_waiting
    assert sender.due(known, {"A"}, "vm", is_name_confirmed=True) is None
    clock.passes(1.0)  # the pause after a first failure
    again = sender.due(known, {"A"}, "vm", is_name_confirmed=True)
    assert again is not None
    assert again.life.event_id == "A"
