"""Target: a whole exporter behind the wire, from what IMDS answers to every form in which it is told."""

import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from azure_scheduled_events_exporter.approval.policy import Action, Match, Policy, Rule
from azure_scheduled_events_exporter.approval.sender import ApprovalSender
from azure_scheduled_events_exporter.core.document import RESOURCES_SHOWN, Scope
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.lifecycle import Transition
from azure_scheduled_events_exporter.core.pause import ClockSample
from azure_scheduled_events_exporter.core.spans import SpanFacts
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import ImdsError, Outcome
from azure_scheduled_events_exporter.imds.api_versions import ApiVersions
from azure_scheduled_events_exporter.imds.client import ImdsClient
from azure_scheduled_events_exporter.imds.rate_limiter import RateLimiter
from azure_scheduled_events_exporter.journal.journal import Journal
from azure_scheduled_events_exporter.logs import FORMATS, set_up
from azure_scheduled_events_exporter.metrics.exposition import Exposition
from azure_scheduled_events_exporter.metrics.samples import announced
from azure_scheduled_events_exporter.metrics.spec import LABEL_BYTES, PREFIX
from azure_scheduled_events_exporter.polling.poller import Poller, Settings
from azure_scheduled_events_exporter.polling.snapshot import Snapshot
from azure_scheduled_events_exporter.tracing.delivery import ExportResult, SpanDelivery
from azure_scheduled_events_exporter.tracing.otlp import OtlpSender
from fuzz.target import SEPARATOR, Form, Target
from fuzz.targets.documents import bodies, lives

_START = 1_650_000_000.0
_STEPS = (1.0, 30.0, 61.0, 400.0, 3600.0, 1e6, -7200.0, 0.0)
_REBOOT, _RESTART, _KNOWN, _REFUSED, _SILENT = 0x08, 0x10, 0x20, 0x40, 0x80
_MOST_POLLS = 8
_POLICY = Policy(
    "fuzz",
    (
        Rule("self", Match(), Action.APPROVE, after=1.0),
        Rule("all", Match(scope=frozenset(Scope)), Action.APPROVE, leader_only=True, takeover=30.0, dry_run=True),
    ),
)


class _Clock:
    """A clock that the input sets."""

    def __init__(self) -> None:
        self.wall, self.monotonic, self.boot, self.boots_at = _START, 1000.0, 1, _START - 1000.0

    def now(self) -> Timestamp:
        return Timestamp(self.wall, self.monotonic, f"boot-{self.boot}")

    def booted_at(self) -> Timestamp | None:
        return Timestamp(self.boots_at, 0.0, f"boot-{self.boot}")

    def reading(self) -> ClockSample:
        return ClockSample(self.wall, self.monotonic, self.wall - self.boots_at, f"boot-{self.boot}")

    def step(self, seconds: float, *, reboot: bool) -> None:
        self.wall += seconds
        self.monotonic += max(seconds, 0.5)  # which no setting of the wall clock turns back
        if reboot:
            self.boot, self.boots_at, self.monotonic = self.boot + 1, self.wall - 0.5, 0.5


class _Wire(ImdsClient):
    """The end of the wire at which answers come out: the input says which."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:9", ApiVersions("2020-07-01"), RateLimiter(), lambda _: False, 1.0)
        self.body, self.does = b"", 0

    def scheduled_events(self, timeout: float) -> bytes | None:
        if self.does & _SILENT and not self.body:
            raise ImdsError(Outcome.TIMEOUT, f"no whole answer within {timeout:g} s")
        return None if self.does & _SILENT else self.body

    def approve(self, event_ids: Sequence[str], timeout: float) -> None:
        json.dumps(event_ids).encode()
        if self.does & _REFUSED:
            status = 400 if self.does & 1 else 0
            raise ImdsError(Outcome.HTTP_ERROR, f"refused within {timeout:g} s", self.body.decode("latin-1"), status)


class _Nobody:
    """A collector that takes nothing: spans stay in the journal, where the target reads them."""

    def send(self, spans: Sequence[SpanFacts], identity: Instance | None, timeout: float | None) -> ExportResult:
        raise AssertionError(f"nothing is sent here: {spans} {identity} {timeout}")


@cache
def _sender() -> OtlpSender:
    return OtlpSender("http://127.0.0.1:9")


class _Run:
    """One life of the exporter in memory."""

    def __init__(self) -> None:
        self.clock, self.wire = _Clock(), _Wire()
        self.stream = io.StringIO()
        self.log = set_up("debug", FORMATS[0], self.stream)
        self.journal = Journal(None, 90 * 86400.0, self.log)
        self.poller = self._poller()
        self.answers: dict[bool, Exposition] = {}

    def _poller(self) -> Poller:
        delivery = SpanDelivery(self.journal, _Nobody(), self.log)
        approvals = ApprovalSender(_POLICY, self.wire, self.journal, 10.0, self.clock.now, self.log)
        settings = Settings(1.0, 10.0, None, trace_peers=True)
        return Poller(
            settings, self.wire, approvals, self.journal, delivery, None, self.clock, lambda _: True, self.log
        )

    def step(self, part: bytes) -> None:
        self.wire.does, self.wire.body = part[0] if part else 0, part[1:]
        does = self.wire.does
        self.clock.step(_STEPS[does & 7], reboot=bool(does & _REBOOT))
        if does & _RESTART:
            self.poller = self._poller()
        if does & _KNOWN:
            self.poller.learn(Instance("web_0", "id", "web", zone='1\\\n"'))
        before = self.poller.snapshot.current
        self.poller.poll()
        snapshot = self.poller.snapshot
        assert "the exporter failed" not in snapshot.polls.failure, self.stream.getvalue()
        assert self.journal.restore().lifecycles.current == snapshot.current, "the journal remembers other lives"
        assert self.journal.restore().statistics == snapshot.statistics, "the journal adds up to something else"
        if "partly unreadable" in snapshot.polls.failure:
            assert before.keys() <= snapshot.current.keys(), "forgotten because of an entry that nobody could read"
        for name, life in before.items():
            after = snapshot.current.get(name)
            assert after is None or after.first_seen == life.first_seen


_LABELS = ("event_id", "event_type", "event_source", "scope", "description", "resources")


def _expected(snapshot: Snapshot) -> list[dict[str, str]]:
    return [
        {
            "event_id": life.event_id,
            "event_type": life.event.event_type,
            "event_source": life.event.source,
            "scope": str(life.scope),
            "description": life.event.description.encode()[:LABEL_BYTES].decode(errors="ignore"),
            "resources": ",".join(life.event.resources[:RESOURCES_SHOWN]),
        }
        for life in snapshot.shown.values()
    ]


def check_exposition(families: Iterable[Metric], snapshot: Snapshot, now: float) -> None:
    """An exposition, read back: every series once, every value a number, events as they are."""
    seen = set()
    infos, left = [], {}
    for family in families:
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in seen, f"twice in one scrape: {key}"
            seen.add(key)
            assert not math.isnan(sample.value), f"no number: {key}"
            if sample.name == f"{PREFIX}event_info":
                infos.append({name: value for name, value in sample.labels.items() if name in _LABELS})
            elif sample.name == f"{PREFIX}event_seconds_until_not_before":
                left[sample.labels["event_id"]] = sample.value
    assert infos == _expected(snapshot)
    times = {life.event_id: until - now for life, until in announced(snapshot.shown.values())}
    assert left == {event_id: pytest.approx(seconds, abs=0.001) for event_id, seconds in times.items()}


def _without_zeros(text: str) -> str:
    """The exposition without the series that stand there from the start, which no input changes: they cost time."""
    zero = re.compile(rf"{PREFIX}(transitions_total|pending|started)\{{[^\n]* 0\.0")
    return "\n".join(line for line in text.split("\n") if not zero.fullmatch(line))


def _check_log(text: str) -> None:
    for line in text.splitlines():
        assert line.startswith("ts="), f"a line of the log that none of ours begins: {line!r}"
        assert line.isprintable(), f"a line of the log that steers a terminal: {line!r}"


def _check_spans(spans: Sequence[SpanFacts]) -> None:
    for span in spans:
        assert span.end >= span.start
        assert len(bytes.fromhex(span.trace_id)) == 16, span
        assert any(bytes.fromhex(span.trace_id)), span
        assert len(bytes.fromhex(span.span_id)) == 8, span
    encode = _encoder()
    made = [_sender()._make(span) for span in spans]
    assert len(encode([span for span in made if span])) > 0 or not spans


@cache
def _encoder():  # type: ignore[no-untyped-def]  # noqa: ANN202 - of a library
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans  # noqa: PLC0415 - slow to import

    return lambda spans: encode_spans(spans).SerializeToString()


def check(data: bytes) -> None:
    """Whatever IMDS answers and however time goes: nothing fails, nothing is lost, every scrape is valid."""
    run = _Run()
    for part in data.split(SEPARATOR)[:_MOST_POLLS]:
        run.step(part)
    snapshot = run.poller.snapshot
    exposition = Exposition(lambda: snapshot, lambda: run.clock.wall)
    if len(data) % 2:  # reading takes most of the time, so one of the two formats each
        plain = exposition.render().body.decode()
        check_exposition(read_text(_without_zeros(plain)), snapshot, run.clock.wall)
    else:
        text = _without_zeros(exposition.render("application/openmetrics-text").body.decode())
        check_exposition(read_openmetrics(text), snapshot, run.clock.wall)  # type: ignore[no-untyped-call]
    _check_log(run.stream.getvalue())
    spans = [queued.span for queued in run.journal.queued_spans(-1)]
    _check_spans([*spans, *run.poller.open_spans()])
    for _, said in run.journal.transitions(0, -1):
        assert said["transition"] in set(Transition)
    run.journal.close()


def seeds() -> Iterator[bytes]:
    """Yield captured bodies, alone and one after another."""
    yield from (b"\x20" + body for body in bodies())
    yield from lives()


TARGETS = {
    "pipeline": Target(check, seeds, Form.JSON, tuple(bytes((byte,)) for byte in (0, 1, 9, 17, 33, 65, 128, 160)))
}
