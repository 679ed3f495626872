"""Which approvals go into the next request."""

import logging
from contextlib import closing

from azure_scheduled_events_exporter.approval.policy import DOCUMENTED
from azure_scheduled_events_exporter.approval.scheduler import ApprovalScheduler
from azure_scheduled_events_exporter.approval.sender import ApprovalSender
from azure_scheduled_events_exporter.core.document import Document, ScheduledEvent
from azure_scheduled_events_exporter.core.lifecycle import Lifecycles, State
from azure_scheduled_events_exporter.core.observation import observe
from azure_scheduled_events_exporter.core.observation_context import ObservationContext
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.imds.api_versions import ApiVersions
from azure_scheduled_events_exporter.imds.client import ImdsClient
from azure_scheduled_events_exporter.imds.rate_limiter import RateLimiter
from azure_scheduled_events_exporter.journal.journal import Journal
from support.programs import NOBODY

LOG = logging.getLogger("tests.approval")


def test_an_event_that_is_not_shown_holds_up_no_other() -> None:
    """An event that has left the document is not sent, and the next one is."""
    now = Timestamp(1_700_000_000.0, 1000.0, "boot")
    events = tuple(
        ScheduledEvent(name, "Reboot", State.SCHEDULED, "User", ("vm",), None, sent_id=name)
        for name in "AB"
    )
    known, _ = observe(Lifecycles(), Document(1, events), ObservationContext(now, "vm"))
    client = ImdsClient(
        f"http://{NOBODY}",
        ApiVersions("2020-07-01"),
        RateLimiter(),
        wait=lambda _: False,
        connect_seconds=1.0,
    )
    with closing(Journal(None, 86_400.0, LOG)) as journal:
        sender = ApprovalSender(
            ApprovalScheduler(DOCUMENTED, LOG),
            client,
            journal,
            timeout=1.0,
            now=lambda: now,
            machine_clock=lambda: now,
            log=LOG,
        )
        first = sender.due(known, {"A", "B"}, "vm", is_name_confirmed=True)
        assert first is not None
        assert first.life.event_id == "A"
        sender.send(first)
        answer = sender.answer(60.0)
        assert answer is not None
        assert answer.error is not None, "nobody listens there, so the approval of A fails"
        # A is due again after a pause, and has left the document until then.
        now = Timestamp(now.wall + 3600.0, now.monotonic + 3600.0, now.boot_id)
        left = sender.due(known, {"B"}, "vm", is_name_confirmed=True)
    assert left is not None
    assert left.life.event_id == "B"
