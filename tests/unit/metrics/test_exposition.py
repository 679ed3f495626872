"""The exposition: what a scraper reads of a given state."""

import platform
import re
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import fields, replace

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.core.approvals import mark_approved
from azure_scheduled_events_exporter.core.document import Document, ScheduledEvent
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.core.impact import Counted, Readings
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.lifecycle import Approver, Lifecycles, Transition
from azure_scheduled_events_exporter.core.observation import ObservationContext, observe
from azure_scheduled_events_exporter.core.pause import Pause
from azure_scheduled_events_exporter.core.statistics import Histogram, Statistics
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import Outcome
from azure_scheduled_events_exporter.metrics.collector import SPECS
from azure_scheduled_events_exporter.metrics.exposition import Exposition
from azure_scheduled_events_exporter.snapshot.snapshot import POLL_BOUNDS, Polls, Snapshot
from support.programs import Scrape, debian

NOON = 1_650_000_000.0
OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"


def at(seconds: float) -> Timestamp:
    """So many seconds after noon."""
    return Timestamp(NOON + seconds, 1000 + seconds, "boot")


def lived(
    *documents: tuple[float, Iterable[ScheduledEvent]], vm_name: str | None = "vmss_0"
) -> Snapshot:
    """The state after an exporter saw ``documents``, each so many seconds after noon."""
    known, statistics = Lifecycles(), Statistics()
    for seconds, events in documents:
        context = ObservationContext(at(seconds), vm_name, pause=Pause(0.004))
        known, changes = observe(known, Document(7, tuple(events)), context)
        statistics = statistics.plus(changes)
        for event in events:
            if event.event_id == "APPROVED":
                known, changes = mark_approved(
                    known, event.event_id, Approver.OPERATOR, at(seconds + 2)
                )
                statistics = statistics.plus(changes)
    snapshot = Snapshot(vm_name=vm_name, incarnation=7, statistics=statistics)
    return snapshot.with_events(known, NOON + documents[-1][0])


def full_life() -> Snapshot:
    """One event for every kind of figure: waiting, approved, started, ended, a peer's, of an
    unknown type.
    """
    freeze = ScheduledEvent(
        "FREEZE",
        "Freeze",
        "Scheduled",
        "Platform",
        ("vmss_0", "vmss_1"),
        NOON + 900,
        'Say "hi"\nto \\ all',
        5.0,
    )
    approved = ScheduledEvent("APPROVED", "Reboot", "Scheduled", "User", ("vmss_0",), NOON + 900)
    failure = ScheduledEvent("FAILURE", "Reboot", "Started", "Platform", ("vmss_0",))
    peer = ScheduledEvent("PEER", "Preempt", "Scheduled", "Platform", ("vmss_4",), NOON + 30)
    odd = ScheduledEvent("ODD", "Teleport", "Paused", "", tuple(f"vmss_{i}" for i in range(12)))
    snapshot = lived(
        (0, [freeze, approved, peer, odd]),
        (20, [freeze, approved, peer, odd, failure]),
        (30, [freeze, approved, replace(peer, status="Started", not_before=None), odd, failure]),
        (90, [freeze, approved, odd]),
    )
    polls = Polls(
        outcomes=dict.fromkeys(Outcome, 0) | {Outcome.OK: 91, Outcome.TIMEOUT: 1},
        durations=Histogram.empty(POLL_BOUNDS).observe(0.006).observe(10.01),
        up=True,
        last_success=NOON + 91,
        failure="",
    )
    place = ("vmss", "westeurope", "1", "0", "rg", "sub")
    identity = Instance(
        "vmss_0", "d89dcaf9", *place, "Standard_B2ms", "Spot", host_name="vmss000000"
    )
    return replace(snapshot, polls=polls, identity=identity, document_changes=4)


def exposition(snapshot: Snapshot, seconds: float = 100) -> Exposition:
    """An exposition of ``snapshot`` scraped so many seconds after noon."""
    return Exposition(lambda: snapshot, lambda: NOON + seconds)


def without_process(text: str) -> str:
    """The exposition without the figures of this very process."""
    lines = [line for line in text.splitlines() if "process_" not in line]
    text = "\n".join(lines) + "\n"
    return text.replace(__version__, "VERSION").replace(platform.python_version(), "PYTHON")


@pytest.mark.parametrize(
    ("accept", "name"), [("", "exposition.txt"), (OPENMETRICS, "exposition.openmetrics")]
)
def test_the_whole_exposition_is_as_reviewed(
    accept: str, name: str, golden: Callable[[str, str], None]
) -> None:
    """The exposition equals the golden file, so that every change is reviewed."""
    golden(name, without_process(exposition(full_life()).render(accept).body.decode()))


def test_promtool_finds_nothing_to_complain() -> None:
    """The exposition follows Prometheus's own rules for names, units and help."""
    body = exposition(full_life()).render().body
    done = subprocess.run(
        [debian("promtool"), "check", "metrics"], input=body, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_openmetrics_parses_strictly() -> None:
    """A scraper that asks for OpenMetrics gets a body that the reference parser accepts."""
    rendering = exposition(full_life()).render(OPENMETRICS)
    names = [family.name for family in parse_openmetrics(rendering.body.decode())]  # type: ignore[no-untyped-call]
    assert rendering.content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert len(names) == len(set(names))
    assert {spec.full_name.removesuffix("_total") for spec in SPECS.values()} <= set(names)


@pytest.mark.parametrize(
    ("accept", "is_openmetrics"),
    [
        ("application/openmetrics-text; version=1.0.0", True),
        (
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.3",
            True,
        ),
        ("application/openmetrics-text;version=high", False),
        ("text/plain;version=0.0.4", False),
        ("*/*", False),
    ],
)
def test_the_scraper_chooses_the_format(accept: str, is_openmetrics: bool) -> None:
    """OpenMetrics is sent to a scraper that asks for a version of it."""
    rendering = exposition(full_life()).render(accept)
    assert ("openmetrics" in rendering.content_type) is is_openmetrics
    assert rendering.body.endswith(b"# EOF\n") is is_openmetrics


def test_the_countdown_is_of_the_moment_of_the_scrape() -> None:
    """Between two polls the time left still runs, and goes negative when the event is overdue."""
    now = NOON + 100
    scraped = Exposition(full_life, lambda: now)
    name = "event_seconds_until_not_before"
    assert Scrape(scraped.render().body.decode()).value(name, event_id="FREEZE") == 800
    now = NOON + 905.5
    assert Scrape(scraped.render().body.decode()).value(name, event_id="FREEZE") == -5.5


def test_every_field_of_the_snapshot_shows_when_it_changes() -> None:
    """A change of any input of a metric appears in the next scrape."""
    before = full_life()
    after = Snapshot(
        seen=dict.fromkeys(before.current, NOON + 91),
    )
    for each in fields(Snapshot):
        states = [before, replace(before, **{each.name: getattr(after, each.name)})]
        scraped = Exposition(lambda: states[0], lambda: NOON)  # noqa: B023 - read at once
        scraped.render()
        states.pop(0)
        expected = Exposition(lambda: states[0], lambda: NOON)  # noqa: B023 - read at once
        assert without_process(scraped.render().body.decode()) == without_process(
            expected.render().body.decode()
        )


def test_scrapes_at_the_same_moment_share_a_body() -> None:
    """Clients that scrape at once, and read slowly, cost the memory of one body."""
    now = NOON
    scraped = Exposition(lambda state=full_life(): state, lambda: now)  # type: ignore[misc] # noqa: B008
    first = scraped.render()
    assert scraped.render().body is first.body
    now += 0.2
    assert scraped.render().body != first.body


def test_counters_exist_before_anything_has_happened() -> None:
    """Prometheus sees the first increase of every counter, because the series was there before, as
    0.
    """
    scrape = Scrape(exposition(Snapshot()).render().body.decode())
    types = {str(event_type) for event_type in EventType}
    for name in ("pending", "started"):
        labels = {(have["event_type"], have["scope"]) for have, _ in scrape.series(name)}
        assert labels == {
            (event_type, scope) for event_type in types for scope in ("self", "peer", "unknown")
        }
    transitions = {
        str(transition) for transition in Transition if transition is not Transition.WITHDRAWN
    }
    own = {
        (have["event_type"], have["transition"])
        for have, _ in scrape.series("transitions_total", scope="self")
    }
    assert own == {(event_type, transition) for event_type in types for transition in transitions}
    outcomes = {
        "polls_total": {
            "ok",
            "timeout",
            "connection_error",
            "throttled",
            "http_error",
            "invalid_document",
        },
        "approval_requests_total": {"accepted", "rejected", "error"},
        "spans_total": {"exported", "failed"},
    }
    for name, expected in outcomes.items():
        assert {have["outcome"] for have, _ in scrape.series(name)} == expected
    assert scrape.value("up") == 0


def test_series_stay_within_their_budget() -> None:
    """Series are budgeted: an idle exporter has 100 with five types, a current event 13, all
    histograms of history 400.
    """

    def count(snapshot: Snapshot) -> int:
        return len(
            [line for line in exposition(snapshot).render().body.splitlines() if line[:1] != b"#"]
        )

    events = [
        ScheduledEvent(f"E{i}", "Freeze", "Scheduled", "User", ("vmss_0",), NOON, "", 5)
        for i in range(10)
    ]
    idle = count(lived((0, [])))
    assert idle <= 100 + 12 * (len(EventType) - 5), idle
    assert count(replace(lived((0, events)), statistics=Statistics())) - idle <= 13 * len(events)
    tcp = Counted(Readings(at(1), 5, 5))
    started = tuple(replace(e, status="Started", duration_seconds=30) for e in events)
    known, _ = observe(
        Lifecycles(), Document(7, tuple(events)), ObservationContext(at(0), "vmss_0")
    )
    context = ObservationContext(at(1), "vmss_0", pause=Pause(0.2), counted=tcp)
    known, _ = observe(known, Document(7, started), context)
    snapshot = Snapshot(vm_name="vmss_0", incarnation=7).with_events(known, NOON + 1)
    assert count(snapshot) - idle <= 13 * len(events)
    types = ("Freeze", "Reboot", "Redeploy", "Preempt", "Terminate")
    statistics = lived(
        (0, events), (1, [replace(event, status="Started") for event in events]), (2, [])
    ).statistics
    per_series = {
        "notice": (len(next(iter(statistics.notice.values())).counts) + 2) * len(types),
        "latency": (len(next(iter(statistics.approval_latency.values())).counts) + 2)
        * len(types)
        * len(Approver),
        "time_in_state": (len(next(iter(statistics.time_in_state.values())).counts) + 2)
        * len(types)
        * 2,
        "pauses": (len(next(iter(statistics.pauses.values())).counts) + 2) * len(types),
    }
    assert sum(per_series.values()) <= 400, per_series


@pytest.mark.parametrize("text", ["x" * 1034, "\u00e9" * 600, "\U0001f525" * 300])
def test_a_label_value_has_at_most_1023_bytes(text: str) -> None:
    """Azure's managed Prometheus refuses a scrape with a longer one, so every label value is cut at
    a character.
    """
    event = ScheduledEvent("E", "Freeze", "Scheduled", description=text, resources=(text,))
    snapshot = replace(
        lived((0, [event])), identity=Instance("vmss_0", resource_group=text, host_name=text)
    )
    scrape = Scrape(exposition(snapshot).render().body.decode())
    cut = text.encode()[:1023].decode(errors="ignore")
    shown = {
        "description": scrape.series("event_info"),
        "resources": scrape.series("event_info"),
        "resource_group": scrape.series("instance_info"),
        "computer_name": scrape.series("host_info"),
    }
    assert {label: series[0][0][label] for label, series in shown.items()} == dict.fromkeys(
        shown, cut
    )


LABELS = (
    "vm_id",
    "vm_name",
    "computer_name",
    "subscription_id",
    "resource_group",
    "scale_set",
    "zone",
)
WEB = Instance(
    "WEB_0",
    "ID",
    "Web",
    zone="1",
    resource_group="RG",
    subscription_id="SUB",
    host_name="WEB000000",
)


def test_the_impact_of_own_events() -> None:
    """The impact begins at NotBefore, at the approval, or at the start; harmless events, advice and
    peers have none.
    """
    waiting = ScheduledEvent("WAITS", "Redeploy", "Scheduled", "Platform", ("web_0",), NOON + 900)
    events = [
        waiting,
        replace(waiting, event_id="APPROVED"),
        replace(waiting, event_id="RUNS", status="Started", not_before=None),
        replace(waiting, event_id="NEVER", duration_seconds=0.0),
        replace(waiting, event_id="ADVICE", status="Advisory"),
        replace(waiting, event_id="PEER", resources=("web_1",)),
    ]
    snapshot = replace(lived((0, events), (60, events), vm_name="WEB_0"), identity=WEB)
    series = Scrape(exposition(snapshot).render().body.decode()).series(
        "vm_impact_timestamp_seconds"
    )
    values = ("ID", "WEB_0", "WEB000000", "sub", "rg", "web", "1")
    assert series == [
        (
            {
                "event_id": event_id,
                "event_type": "Redeploy",
                **dict(zip(LABELS, values, strict=True)),
            },
            NOON + seconds,
        )
        for event_id, seconds in (("WAITS", 900), ("APPROVED", 2), ("RUNS", 0))
    ]


def test_when_an_event_was_seen_and_when_its_impact_begins() -> None:
    """Each newest document shows its events anew, with kind and, even if harmless, impact.

    An event that a document does not show because a part of it is unreadable is not seen again.
    """
    waiting = ScheduledEvent("WAITS", "Redeploy", "Scheduled", "User", ("web_0",), NOON + 900)
    runs = replace(waiting, event_id="RUNS", status="Started", not_before=None, source="Platform")
    harmless = replace(waiting, event_id="NEVER", duration_seconds=0.0)
    advice = replace(waiting, event_id="ADVICE", status="Advisory", not_before=None)
    events = (waiting, runs, harmless, advice)
    known, _ = observe(Lifecycles(), Document(1, events), ObservationContext(at(0.5), "web_0"))
    partial = Document(2, events[1:], unreadable=("Events[0] is no object",))
    known, _ = observe(known, partial, ObservationContext(at(60.5), "web_0"))
    scrape = Scrape(exposition(Snapshot().with_events(known, NOON + 60)).render().body.decode())
    seen = scrape.series("event_seen_timestamp_seconds", event_type="Redeploy", scope="self")
    assert {(have["event_id"], have["kind"]): value - NOON for have, value in seen} == {
        ("WAITS", "requested"): 0.5,
        ("RUNS", "without_notice"): 60.5,
        ("NEVER", "harmless"): 60.5,
        ("ADVICE", "advisory"): 60.5,
    }
    impact = scrape.series("event_impact_timestamp_seconds", event_type="Redeploy", scope="self")
    assert {(have["event_id"], have["kind"]): value - NOON for have, value in impact} == {
        ("WAITS", "requested"): 900,
        ("RUNS", "without_notice"): 0,
        ("NEVER", "harmless"): 900,
    }


def test_the_impact_of_events_of_other_vms() -> None:
    """A VM that died cannot say that its event has started, so its peers do, of ten VMs at most."""
    names = tuple(f"web_{number}" for number in range(1, 13))
    runs = ScheduledEvent("RUNS", "Reboot", "Started", "Platform", names)
    events = [
        runs,
        replace(runs, event_id="WAITS", status="Scheduled", not_before=NOON + 900),
        replace(runs, event_id="NEVER", event_type="Freeze", duration_seconds=5.0),
        replace(runs, event_id="MINE", resources=("web_0",)),
    ]
    snapshot = replace(lived((0, []), (0.5, events), vm_name="web_0"), identity=WEB)
    scrape = Scrape(exposition(snapshot).render().body.decode())
    place = {"subscription_id": "sub", "resource_group": "rg", "scale_set": "web"}
    assert scrape.series("peer_impact_timestamp_seconds") == [
        ({"event_id": "RUNS", "event_type": "Reboot", "vm_name": name, **place}, NOON + 0.5)
        for name in names[:10]
    ]
    assert {have["resource_group"] for have, _ in scrape.series("event_info")} == {"rg"}


def test_the_pause_of_an_event_for_an_hour_after_its_end() -> None:
    """The longest pause of an own event is shown while it is current, and for an hour after."""
    runs = ScheduledEvent("RUNS", "Freeze", "Started", "Platform", ("vmss_0",))
    peer = replace(runs, event_id="PEER", resources=("vmss_1",))
    events = (runs, peer)

    def shown(*documents: tuple[float, Iterable[ScheduledEvent]]) -> list[float]:
        scrape = Scrape(exposition(lived((0, []), *documents)).render().body.decode())
        series = scrape.series(
            "event_observed_pause_seconds", event_id="RUNS", event_type="Freeze", scope="self"
        )
        assert len(scrape.series("event_observed_pause_seconds")) == len(series)
        return [value for _, value in series]

    assert shown((1, events)) == [0.004]
    assert shown((1, events), (2, []), (3600, [])) == [0.004]
    assert shown((1, events), (2, []), (3603, [])) == []


@pytest.mark.parametrize(("pause", "is_longer"), [(4.0, False), (12.0, True)])
def test_a_pause_that_was_longer_than_announced(pause: float, is_longer: bool) -> None:
    """Announced as 5 s and paused for 12 s: a fact of its own, and the event is not harmless."""
    freeze = ScheduledEvent("E", "Freeze", "Scheduled", "Platform", ("web_0",), NOON, "", 5.0)
    started = replace(freeze, status="Started", not_before=None)
    known = Lifecycles()
    for seconds, event in ((0, freeze), (1, started), (20, started)):
        context = ObservationContext(at(seconds), "web_0", pause=Pause(pause if seconds else 0.0))
        known, _ = observe(known, Document(7, (event,)), context)
    snapshot = Snapshot(vm_name="web_0", identity=WEB).with_events(known, NOON + 20)
    scrape = Scrape(exposition(snapshot).render().body.decode())
    labels = {
        "event_id": "E",
        "event_type": "Freeze",
        "scope": "self",
        "vm_name": "web_0",
        "announced": "5",
    }
    assert scrape.series("event_paused_longer_seconds") == ([(labels, 12.0)] if is_longer else [])
    [info] = scrape.series("event_info")
    assert info[0]["kind"] == ("announced" if is_longer else "harmless")
    assert bool(scrape.series("vm_impact_timestamp_seconds")) is is_longer


def test_ended_events_for_an_hour() -> None:
    """The end of an event is shown for an hour, not if the event returns; of more than a hundred,
    all for five minutes, so that rules know of each.
    """
    events = [
        ScheduledEvent(f"E{i}", "Freeze", "Scheduled", "User", ("vmss_0",), NOON + 900)
        for i in range(120)
    ]

    def shown(*documents: tuple[float, Iterable[ScheduledEvent]]) -> list[str]:
        scrape = Scrape(exposition(lived(*documents)).render().body.decode())
        series = scrape.series(
            "event_ended_timestamp_seconds", outcome="cancelled", scope="self", event_type="Freeze"
        )
        assert {value for _, value in series} <= {NOON + 60}
        return [labels["event_id"] for labels, _ in series]

    assert shown((0, events)) == []
    assert len(shown((0, events), (60, events[:1]))) == 119
    newest = [f"E{i}" for i in range(20, 120)]
    assert shown((0, events), (60, events[:1]), (361, events[:1])) == newest
    assert shown((0, events), (60, events[2:]), (70, events[1:])) == ["E0"]
    assert shown((0, events[:1]), (60, []), (3659, [])) == ["E0"]
    assert shown((0, events[:1]), (60, []), (3661, [])) == []


def test_event_ids_never_stand_on_counters() -> None:
    """No label of a counter or histogram grows with every event, so no Prometheus fills up."""
    for spec in SPECS.values():
        assert "event_id" not in spec.labels or (
            spec.type == "gauge" and re.match("event_|vm_impact_|peer_impact_", spec.name)
        )
