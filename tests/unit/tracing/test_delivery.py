"""Delivery of spans: what is sent when, what is removed from the queue, and how it ends.

The sender is an argument.
"""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.spans import SpanFacts, span_id
from azure_scheduled_events_exporter.journal.journal import Journal
from azure_scheduled_events_exporter.tracing.delivery import (
    BATCH,
    SpanDelivery,
)
from azure_scheduled_events_exporter.tracing.export import ExportOutcome, ExportResult
from support.events.journal_recorder import adopted
from support.programs import eventually

LOG = logging.getLogger("tests.tracing")
YES = ExportResult(ExportOutcome.ACCEPTED)
LATER = ExportResult(ExportOutcome.LATER, reason="503")
"""The collector asks for another try."""


class Script:
    """A sender that returns the given results in order, repeats the last one, and records what was
    sent.
    """

    def __init__(self, *verdicts: ExportResult) -> None:
        self.verdicts = list(verdicts)
        self.sent: list[tuple[list[str], float | None]] = []

    def send(
        self, spans: Sequence[SpanFacts], _: Instance | None, timeout: float | None
    ) -> ExportResult:
        """Take note and answer."""
        self.sent.append(([span.name for span in spans], timeout))
        if len(self.verdicts) == 1:
            return self.verdicts[0]
        return self.verdicts.pop(0)

    @property
    def names(self) -> list[list[str]]:
        """The names of the spans of each batch."""
        return [names for names, _ in self.sent]


def span(name: str) -> SpanFacts:
    """Return a span; two of one name are the same span."""
    return SpanFacts("f" * 32, span_id(name, "", ""), "", name, 0.0, 1.0)


@pytest.fixture
def journal() -> Iterator[Journal]:
    """A journal in memory."""
    with closing(adopted(None)) as opened:
        yield opened


def add(journal: Journal, *names: str) -> None:
    """Journal spans, as a poll does."""
    journal.record(spans=[span(name) for name in names])


def delivery_of(journal: Journal, script: Script) -> SpanDelivery:
    """Return a delivery of the journal's spans to ``script``; what VM this is remains unknown."""
    return SpanDelivery(journal, script, identity=lambda: None, log=LOG)


@contextmanager
def running(delivery: SpanDelivery) -> Iterator[threading.Thread]:
    """Deliver in a thread. At the end, stop the delivery with nothing more to send."""
    thread = threading.Thread(target=delivery.run, daemon=True)
    thread.start()
    yield thread
    delivery.stop([], 5.0)
    thread.join(5.0)
    assert not thread.is_alive()


class TestDelivery:
    """From the journal to the collector."""

    def test_what_waited_is_sent_and_struck_off(self, journal: Journal) -> None:
        """Spans of the last run are delivered without a new event."""
        script = Script(YES)
        add(journal, "a", "b")
        delivery = delivery_of(journal, script)
        with running(delivery):
            eventually(lambda: journal.spans_queued() == 0, "nothing waits")
            add(journal, "c")
            delivery.wake()
            eventually(lambda: delivery.exported == 3, "three spans exported")
        assert script.names == [["b", "a"], ["c"]], "the newest of a batch first"
        assert delivery.failed == 0

    @pytest.mark.parametrize(
        ("vm_id", "sent"),
        [
            pytest.param("FIRST", [["old"], ["new"]], id="the same VM"),
            pytest.param("ANOTHER", [["new"]], id="another VM, started from an image of it"),
        ],
    )
    def test_spans_of_another_vm_are_not_sent(
        self, vm_id: str, sent: list[list[str]], tmp_path: Path
    ) -> None:
        """Spans of an earlier run wait until this VM's id is known. If the journal is another VM's,
        as in the image from which this one was started, they are not sent.
        """
        with closing(adopted(tmp_path)) as before:
            before.claim("FIRST")
            add(before, "old")
        script = Script(YES)
        with closing(adopted(tmp_path)) as journal:
            delivery = delivery_of(journal, script)
            with running(delivery):
                assert not script.sent
                journal.claim(vm_id)  # the id of the VM on which this run is
                delivery.wake()
                eventually(lambda: journal.spans_queued() == 0, "nothing waits")
                add(journal, "new")
                delivery.wake()
                eventually(lambda: script.names[-1:] == [["new"]], "the new span")
        assert script.names == sent

    def test_a_backlog_goes_in_bounded_batches(self, journal: Journal) -> None:
        """However much has piled up, no request grows beyond what a collector takes, and all
        arrives once.
        """
        script = Script(YES)
        names = [f"s{number}" for number in range(3 * BATCH + 7)]
        add(journal, *names)
        delivery = delivery_of(journal, script)
        with running(delivery):
            eventually(lambda: delivery.exported == len(names), "all exported")
        assert max(map(len, script.names)) == BATCH
        assert sorted(name for batch in script.names for name in batch) == sorted(names)

    def test_one_span_does_not_hold_up_others(self, journal: Journal) -> None:
        """What is too large, or cannot be encoded, is sent in smaller batches; a span that fails
        alone is given up.
        """
        divisible = ExportResult(ExportOutcome.DIVISIBLE, reason="413")
        script = Script(divisible, divisible, YES)
        add(journal, "a", "b")
        delivery = delivery_of(journal, script)
        with running(delivery):
            eventually(lambda: journal.spans_queued() == 0, "nothing waits")
        assert script.names == [["b", "a"], ["b"], ["a"]]
        assert (delivery.exported, delivery.failed) == (1, 1)

    def test_new_spans_end_a_pause(self, journal: Journal) -> None:
        """The span of an event that appears while a retry waits is sent immediately."""
        script = Script(LATER)
        add(journal, "a")
        delivery = delivery_of(journal, script)
        with running(delivery):
            eventually(lambda: len(script.sent) == 4, "the pause after the fourth failure")
            add(journal, "new")
            delivery.wake()
            began = time.monotonic()
            eventually(lambda: script.names[-1] == ["new", "a"], "the new span")
            assert time.monotonic() - began < 3.0, "the pause is 4 s at least"

    def test_a_failure_is_logged_when_it_begins_and_ends(
        self, journal: Journal, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A collector that is down is logged once when it fails and once when it works again."""
        caplog.set_level(logging.INFO)
        script = Script(LATER, LATER, YES)
        add(journal, "a")
        delivery = delivery_of(journal, script)
        with running(delivery):
            eventually(lambda: delivery.exported == 1, "exported")
        # Threads that earlier tests have left behind may log, too.
        records = [record for record in caplog.records if record.name == LOG.name]
        assert [(record.message, record.facts) for record in records] == [  # type: ignore[attr-defined]
            ("spans cannot be delivered yet", {"error": "503"}),
            ("collector accepts spans again", {"queued": 1}),
        ]


class TestEnd:
    """Delivery at shutdown."""

    def test_open_spans_are_sent_first(self, journal: Journal) -> None:
        """At shutdown, open spans are sent first, then queued spans; open spans are not in the
        journal.
        """
        script = Script(LATER, YES)
        add(journal, "queued")
        delivery = delivery_of(journal, script)
        with running(delivery):
            eventually(lambda: script.sent, "the first try")
            delivery.stop([span("open")], 5.0)
        assert script.names == [["queued"], ["open"], ["queued"]]
        _, *at_the_end = script.sent
        assert all(timeout is not None and timeout <= 5.0 for _, timeout in at_the_end)
        assert journal.spans_queued() == 0
        assert delivery.exported == 2

    @pytest.mark.parametrize(
        "retry_after",
        [
            pytest.param(0.0, id="the collector asks for no pause, so the delivery's own"),
            pytest.param(300.0, id="the pause that the collector asks for"),
        ],
    )
    def test_no_pause_holds_up_the_end(self, journal: Journal, retry_after: float) -> None:
        """A delivery that is stopped while it pauses sends the last spans and ends at once."""
        later = ExportResult(ExportOutcome.LATER, reason="429", retry_after=retry_after)
        script = Script(later, YES)
        add(journal, "a")
        delivery = delivery_of(journal, script)
        with running(delivery) as thread:
            eventually(lambda: script.sent, "the first try")
            delivery.stop([span("open")], 5.0)
            thread.join(1.0)
            assert not thread.is_alive()
        _, second, *_ = script.names
        assert "open" in second
