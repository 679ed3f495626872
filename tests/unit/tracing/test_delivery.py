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
from azure_scheduled_events_exporter.tracing.export import Export, ExportResult
from azure_scheduled_events_exporter.tracing.variables import doubts, is_on, obstacles
from support.events.journal_recorder import adopted
from support.programs import eventually

LOG = logging.getLogger("tests.tracing")
YES = ExportResult(Export.ACCEPTED)
LATER = ExportResult(Export.LATER, reason="503")


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
        return self.verdicts[0] if len(self.verdicts) == 1 else self.verdicts.pop(0)

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


@contextmanager
def running(delivery: SpanDelivery) -> Iterator[threading.Thread]:
    """Deliver in a thread, until the end."""
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
        delivery = SpanDelivery(journal, script, lambda: None, LOG)
        with running(delivery):
            eventually(lambda: journal.spans_queued() == 0, "nothing waits")
            add(journal, "c")
            delivery.wake()
            eventually(lambda: delivery.exported == 3, "three spans exported")
        assert script.names == [["b", "a"], ["c"]]
        assert delivery.failed == 0

    def test_spans_of_another_vm_are_not_sent(self, tmp_path: Path) -> None:
        """What a journal that may be an image's holds waits until it is known whose it is."""
        for vm_id, sent in (("THIS", [["old"], ["new"]]), ("ANOTHER", [["new"]])):
            path = tmp_path / vm_id
            with closing(adopted(path)) as before:
                before.claim("THIS")
                add(before, "old")
            script = Script(YES)
            with closing(adopted(path)) as journal:
                delivery = SpanDelivery(journal, script, lambda: None, LOG)
                with running(delivery):
                    assert not script.sent
                    journal.claim(vm_id)
                    delivery.wake()
                    eventually(lambda: journal.spans_queued() == 0, "nothing waits")
                    add(journal, "new")
                    delivery.wake()
                    eventually(lambda: script.names[-1:] == [["new"]], "the new span")  # noqa: B023 - called here
            assert script.names == sent

    def test_a_backlog_goes_in_bounded_batches(self, journal: Journal) -> None:
        """However much has piled up, no request grows beyond what a collector takes, and all
        arrives once.
        """
        script = Script(YES)
        names = [f"s{number}" for number in range(3 * BATCH + 7)]
        add(journal, *names)
        delivery = SpanDelivery(journal, script, lambda: None, LOG)
        with running(delivery):
            eventually(lambda: delivery.exported == len(names), "all exported")
        assert max(map(len, script.names)) == BATCH
        assert sorted(name for batch in script.names for name in batch) == sorted(names)

    def test_one_span_does_not_hold_up_others(self, journal: Journal) -> None:
        """What is too large, or cannot be encoded, is sent in smaller batches; a span that fails
        alone is given up.
        """
        divisible = ExportResult(Export.DIVISIBLE, reason="413")
        script = Script(divisible, divisible, YES)
        add(journal, "a", "b")
        delivery = SpanDelivery(journal, script, lambda: None, LOG)
        with running(delivery):
            eventually(lambda: journal.spans_queued() == 0, "nothing waits")
        assert (script.names, delivery.exported, delivery.failed) == (
            [["b", "a"], ["b"], ["a"]],
            1,
            1,
        )

    def test_new_spans_end_a_pause(self, journal: Journal) -> None:
        """The span of an event that appears while a retry waits is sent immediately."""
        script = Script(LATER)
        add(journal, "a")
        delivery = SpanDelivery(journal, script, lambda: None, LOG)
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
        delivery = SpanDelivery(journal, script, lambda: None, LOG)
        with running(delivery):
            eventually(lambda: delivery.exported == 1, "exported")
        assert [(record.message, record.facts) for record in caplog.records] == [  # type: ignore[attr-defined]
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
        delivery = SpanDelivery(journal, script, lambda: None, LOG)
        with running(delivery):
            eventually(lambda: script.sent, "the first try")
            delivery.stop([span("open")], 5.0)
        assert script.names == [["queued"], ["open"], ["queued"]]
        _, *at_the_end = script.sent
        assert all(timeout is not None and timeout <= 5.0 for _, timeout in at_the_end)
        assert journal.spans_queued() == 0
        assert delivery.exported == 2

    @pytest.mark.parametrize("pause", [0.0, 300.0], ids=["backoff", "Retry-After"])
    def test_no_pause_holds_it_up(self, journal: Journal, pause: float) -> None:
        """The end comes at once in the middle of any pause."""
        script = Script(ExportResult(Export.LATER, reason="429", retry_after=pause), YES)
        add(journal, "a")
        delivery = SpanDelivery(journal, script, lambda: None, LOG)
        with running(delivery) as thread:
            eventually(lambda: script.sent, "the first try")
            delivery.stop([span("open")], 5.0)
            thread.join(1.0)
            assert not thread.is_alive()
        _, second, *_ = script.names
        assert "open" in second


ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
TRACES = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}


@pytest.mark.parametrize(
    ("endpoint", "variables", "on"),
    [
        (None, {}, False),
        ("", {}, False),
        ("http://127.0.0.1:4318", {}, True),
        (None, ENDPOINT, True),
        (None, TRACES, True),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, False),
        (None, {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:4318"}, False),
        ("http://127.0.0.1:4318", {"OTEL_SDK_DISABLED": "true"}, False),
        (None, {**ENDPOINT, "OTEL_SDK_DISABLED": "TRUE"}, False),
        (None, {**ENDPOINT, "OTEL_SDK_DISABLED": "false"}, True),
        (None, {**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, False),
        ("http://127.0.0.1:4318", {"OTEL_TRACES_EXPORTER": "none"}, False),
        (None, {**ENDPOINT, "OTEL_TRACES_EXPORTER": "otlp"}, True),
    ],
)
def test_when_tracing_is_on(endpoint: str | None, variables: dict[str, str], *, on: bool) -> None:
    """Tracing needs an endpoint, by flag or variable, and OpenTelemetry's own switches turn it
    off.
    """
    assert is_on(endpoint, variables) is on


GENERAL = "OTEL_EXPORTER_OTLP_PROTOCOL"
SPECIFIC = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
TIMEOUT = "OTEL_EXPORTER_OTLP_TIMEOUT"
HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
OTHER_PROTOCOL = (
    "is not supported: unset it or set it to http/protobuf, and use the collector's port"
)


@pytest.mark.parametrize(
    ("variables", "complaint"),
    [
        ({**ENDPOINT, GENERAL: "grpc"}, f"{GENERAL}: 'grpc' {OTHER_PROTOCOL}"),
        ({**ENDPOINT, GENERAL: " http/json "}, f"{GENERAL}: 'http/json' {OTHER_PROTOCOL}"),
        ({**TRACES, SPECIFIC: "grpc"}, f"{SPECIFIC}: 'grpc' {OTHER_PROTOCOL}"),
        ({**ENDPOINT, SPECIFIC: "grpc", GENERAL: "http/protobuf"}, f"{SPECIFIC}: 'grpc'"),
        ({**ENDPOINT, SPECIFIC: "", GENERAL: "grpc"}, f"{GENERAL}: 'grpc'"),
        ({**ENDPOINT, TIMEOUT: "0"}, f"{TIMEOUT}: '0' is not a number of"),
        (
            {**ENDPOINT, "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "soon"},
            "TRACES_TIMEOUT: 'soon' is not a number of",
        ),
        ({**ENDPOINT, TIMEOUT: "10000"}, f"{TIMEOUT}: '10000' is too long"),
        ({**ENDPOINT, TIMEOUT: "10000"}, "reads seconds, write 10"),
        ({**ENDPOINT, HEADERS: "s3cret"}, "HEADERS: entry 1 is not NAME=VALUE, so it would"),
        ({**ENDPOINT, HEADERS: "a=b,\u00e9=s3cret"}, "HEADERS: has a character outside"),
        ({**ENDPOINT, HEADERS: 'a=b,c="s3cret"'}, "HEADERS: entry 2 is not NAME=VALUE"),
        ({**ENDPOINT, HEADERS: "a=\u20ac"}, "HEADERS: has a character outside"),
        ({**ENDPOINT, HEADERS: "a=%E2%82%AC"}, "outside printable ASCII"),
        ({**ENDPOINT, HEADERS: "a=b%0D%0Ac"}, "outside printable ASCII"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "otel-collector:4317"}, "OTEL_EXPORTER_OTLP_ENDPOINT: "),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://[::1"}, "TRACES_ENDPOINT: "),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:99999"}, "is not an address"),
    ],
)
def test_variables_that_are_meant_for_others(variables: dict[str, str], complaint: str) -> None:
    """Variables with which nothing could be sent turn tracing off, without a secret in the reason.

    The flag sets them aside.
    """
    (found,) = obstacles(variables)
    assert complaint in found
    assert "\u20ac" not in found
    assert "s3cret" not in found
    assert not is_on(None, variables)
    assert is_on("http://127.0.0.1:4318", variables)


@pytest.mark.parametrize(
    ("variables", "warning"),
    [
        ({"OTEL_TRACES_SAMPLER": "bogus"}, "OTEL_TRACES_SAMPLER: 'bogus' is none of always_on, "),
        (
            {"OTEL_EXPORTER_OTLP_COMPRESSION": "snappy"},
            "OTLP_COMPRESSION: 'snappy' is none of none, gzip, deflate",
        ),
        (
            {"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE": "/nope.pem"},
            "TRACES_CERTIFICATE: there is no file /nope.pem",
        ),
        ({"OTEL_TRACES_EXPORTER": "console"}, "OTEL_TRACES_EXPORTER: 'console' is none of otlp, "),
        (
            {"OTEL_BSP_SCHEDULE_DELAY": "1"},
            "OTEL_BSP_SCHEDULE_DELAY has no effect: spans wait in the journal",
        ),
        (
            {"OTEL_METRICS_EXPORTER": "otlp"},
            "OTEL_METRICS_EXPORTER has no effect: only traces are sent",
        ),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/v1/traces"},
            "OTLP_ENDPOINT: /v1/traces is added to it, so leave it out",
        ),
        (
            {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318"},
            "OTLP_TRACES_ENDPOINT: nothing is added to it",
        ),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/tenant"}, ""),
        ({"OTEL_LOGS_EXPORTER": "none"}, ""),
        ({"OTEL_TRACES_SAMPLER": "Always_On", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"}, ""),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_BSP_SCHEDULE_DELAY": ""}, ""),
        ({}, ""),
    ],
)
def test_doubts(variables: dict[str, str], warning: str) -> None:
    """Variables that OpenTelemetry's SDK or this exporter would ignore in silence are warned of."""
    found = doubts(variables)
    assert len(found) == bool(warning)
    assert warning in "".join(found)
