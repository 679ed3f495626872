"""The exposition: what a scraper reads of a given state."""

import platform
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.core.document import Document, ScheduledEvent
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.core.histogram import Histogram
from azure_scheduled_events_exporter.core.impact import Counted, Readings
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.lifecycle import Approver, Lifecycles, Transition
from azure_scheduled_events_exporter.core.observation import observe
from azure_scheduled_events_exporter.core.observation_context import ObservationContext
from azure_scheduled_events_exporter.core.pause import Pause
from azure_scheduled_events_exporter.core.statistics import Statistics
from azure_scheduled_events_exporter.errors import Outcome
from azure_scheduled_events_exporter.metrics.exposition import SHARED_SECONDS, Exposition
from azure_scheduled_events_exporter.metrics.table import SPECS
from azure_scheduled_events_exporter.snapshot.snapshot import POLL_BOUNDS, Polls, Snapshot
from support.monitoring.exposed import NOON, at, exposition, snapshot_after
from support.programs import Scrape, debian

OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
"""What a scraper accepts that prefers OpenMetrics."""
MOST_SERIES_OF_AN_EVENT = 13
"""A budget; docs/fleet.md has what an event really costs."""
MOST_SERIES_OF_HISTOGRAMS = 400
"""A budget, likewise."""


VM = Instance(
    vm_name="vmss_0",
    vm_id="d89dcaf9",
    scale_set="vmss",
    location="westeurope",
    zone="1",
    fault_domain="0",
    resource_group="rg",
    subscription_id="sub",
    vm_size="Standard_B2ms",
    priority="Spot",
    host_name="vmss000000",
)


def full_life() -> Snapshot:
    """One event for every kind of figure: waiting, approved, started, ended, a peer's, of an
    unknown type.
    """
    freeze = ScheduledEvent(
        event_id="FREEZE",
        event_type="Freeze",
        status="Scheduled",
        source="Platform",
        resources=("vmss_0", "vmss_1"),
        not_before=NOON + 900,
        description='Say "hi"\nto \\ all',
        duration_seconds=5.0,
    )
    approved = ScheduledEvent("APPROVED", "Reboot", "Scheduled", "User", ("vmss_0",), NOON + 900)
    failure = ScheduledEvent("FAILURE", "Reboot", "Started", "Platform", ("vmss_0",))
    peer = ScheduledEvent("PEER", "Preempt", "Scheduled", "Platform", ("vmss_4",), NOON + 30)
    evicted = replace(peer, status="Started", not_before=None)
    odd = ScheduledEvent("ODD", "Teleport", "Paused", "", tuple(f"vmss_{i}" for i in range(12)))
    snapshot = snapshot_after(
        (0, [freeze, approved, peer, odd]),
        (20, [freeze, approved, peer, odd, failure]),
        (30, [freeze, approved, evicted, odd, failure]),
        (90, [freeze, approved, odd]),
    )
    polls = Polls(
        outcomes=dict.fromkeys(Outcome, 0) | {Outcome.OK: 91, Outcome.TIMEOUT: 1},
        durations=Histogram.empty(POLL_BOUNDS).observe(0.006).observe(10.01),
        up=True,
        last_success=NOON + 91,
        failure="",
    )
    return replace(snapshot, polls=polls, clock_ahead=-1.75, identity=VM, document_changes=4)


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
    """A scraper that asks for OpenMetrics gets a body that the reference parser accepts, with each
    metric once.
    """
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


def test_a_scrape_shows_nothing_of_an_earlier_snapshot() -> None:
    """Whichever field of the snapshot has changed since an exposition rendered it, the next scrape
    shows the same as an exposition that never rendered the earlier snapshot.
    """
    before = full_life()
    # The value that a field changes to is its default. But every current event needs a time in
    # `seen`.
    changed_values = Snapshot(seen=dict.fromkeys(before.current, NOON + 91))
    published = before

    def exposition_of_published() -> Exposition:
        return Exposition(lambda: published, lambda: NOON)

    for field in fields(Snapshot):
        published = before
        has_rendered_before = exposition_of_published()
        has_rendered_before.render()
        published = replace(before, **{field.name: getattr(changed_values, field.name)})
        shown = without_process(has_rendered_before.render().body.decode())
        new = exposition_of_published()
        assert shown == without_process(new.render().body.decode()), field.name


def test_scrapes_at_the_same_moment_share_a_body() -> None:
    """Clients that scrape at once, and read slowly, cost the memory of one body."""
    now = NOON
    state = full_life()
    scraped = Exposition(lambda: state, lambda: now)
    first = scraped.render()
    assert scraped.render().body is first.body
    now += 2 * SHARED_SECONDS
    assert scraped.render().body != first.body, "its countdowns are those of the later moment"


def values_of(label: str, series: Iterable[tuple[Mapping[str, str], float]]) -> set[str]:
    """Return the values that ``label`` has in ``series``."""
    return {labels[label] for labels, _ in series}


def test_series_exist_before_anything_has_happened() -> None:
    """Before the first event, each known event type has its series of current events and of
    transitions, as 0, so that Prometheus sees their first increase.
    """
    scrape = Scrape(exposition(Snapshot()).render().body.decode())
    types = {str(event_type) for event_type in EventType}
    for gauge in ("pending", "started"):
        for scope in ("self", "peer", "unknown"):
            assert values_of("event_type", scrape.series(gauge, scope=scope)) == types
    only_of_advice = Transition.WITHDRAWN  # on which nothing alerts
    for transition in set(Transition) - {only_of_advice}:
        own = scrape.series("transitions_total", scope="self", transition=str(transition))
        assert values_of("event_type", own) == types
    assert scrape.value("up") == 0


@pytest.mark.parametrize(
    ("counter", "outcomes"),
    [
        (
            "polls_total",
            {
                "ok",
                "timeout",
                "connection_error",
                "throttled",
                "http_error",
                "invalid_document",
            },
        ),
        ("approval_requests_total", {"accepted", "rejected", "error"}),
        ("spans_total", {"exported", "failed"}),
    ],
)
def test_usual_outcomes_exist_before_they_have_happened(counter: str, outcomes: set[str]) -> None:
    """A counter with the label ``outcome`` has a series for each outcome from the start. Only the
    outcomes ``too_late``, ``outdated`` and ``dry_run`` of an approval get theirs when they first
    happen.
    """
    scrape = Scrape(exposition(Snapshot()).render().body.decode())
    assert values_of("outcome", scrape.series(counter)) == outcomes


def count_series(snapshot: Snapshot) -> int:
    """Return the number of series in the exposition of ``snapshot``."""
    lines = exposition(snapshot).render().body.splitlines()
    return len([line for line in lines if not line.startswith(b"#")])


def test_series_of_an_idle_exporter() -> None:
    """An exporter without events has at most 105 series, and 12 more for each event type beyond
    five.
    """
    idle = count_series(snapshot_after((0, [])))
    assert idle <= 105 + 12 * (len(EventType) - 5), idle


FREEZES = tuple(
    ScheduledEvent(f"E{number}", "Freeze", "Scheduled", "User", ("vmss_0",), NOON, "", 5)
    for number in range(10)
)


def test_series_of_a_current_event() -> None:
    """A current event has at most MOST_SERIES_OF_AN_EVENT, also once it is Started and measured.

    The snapshots have no statistics: series of histograms belong to an event type.
    """
    idle = count_series(snapshot_after((0, [])))
    waiting = replace(snapshot_after((0, FREEZES)), statistics=Statistics())
    assert count_series(waiting) - idle <= MOST_SERIES_OF_AN_EVENT * len(FREEZES)
    # A Freeze of 30 s is not harmless, so it has the series of an impact, too.
    started = tuple(replace(each, status="Started", duration_seconds=30) for each in FREEZES)
    known, _ = observe(Lifecycles(), Document(7, FREEZES), ObservationContext(at(0), "vmss_0"))
    tcp = Counted(Readings(at(1), 5, 5))
    context = ObservationContext(at(1), "vmss_0", pause=Pause(0.2), counted=tcp)
    known, _ = observe(known, Document(7, started), context)
    measured = Snapshot(vm_name="vmss_0", incarnation=7).with_events(known, NOON + 1)
    assert count_series(measured) - idle <= MOST_SERIES_OF_AN_EVENT * len(FREEZES)


def series_of_one(histograms: Iterable[Histogram]) -> int:
    """Return the number of series that each of ``histograms``, which have the same buckets, has:
    its buckets, sum and count.
    """
    first, *_ = histograms
    return len(first.counts) + 2


def test_series_of_histograms() -> None:
    """All histograms of events together have at most MOST_SERIES_OF_HISTOGRAMS once events of five
    types have happened. There is one histogram for each type, and for each approver or state of it.
    """
    started = [replace(each, status="Started") for each in FREEZES]
    seen = snapshot_after((0, FREEZES), (1, started), (2, [])).statistics
    types = 5
    states = 2  # scheduled and started
    series = {
        "notice": series_of_one(seen.notice.values()) * types,
        "approval latency": series_of_one(seen.approval_latency.values()) * types * len(Approver),
        "time in state": series_of_one(seen.time_in_state.values()) * types * states,
        "pauses": series_of_one(seen.pauses.values()) * types,
    }
    assert sum(series.values()) <= MOST_SERIES_OF_HISTOGRAMS, series


@pytest.mark.parametrize("text", ["x" * 1034, "\u00e9" * 600, "\U0001f525" * 300])
def test_a_label_value_has_at_most_1023_bytes(text: str) -> None:
    """Azure's managed Prometheus refuses a scrape with a longer one, so every label value is cut at
    a character.
    """
    event = ScheduledEvent("E", "Freeze", "Scheduled", description=text, resources=(text,))
    snapshot = replace(
        snapshot_after((0, [event])),
        identity=Instance("vmss_0", resource_group=text, host_name=text),
    )
    scrape = Scrape(exposition(snapshot).render().body.decode())
    cut = text.encode()[:1023].decode(errors="ignore")
    shown = {
        "description": scrape.series("event_info"),
        "resources": scrape.series("event_info"),
        "resource_group": scrape.series("instance_info"),
        "computer_name": scrape.series("host_info"),
    }
    for label, series in shown.items():
        [(labels, _)] = series
        assert labels[label] == cut, label


def test_event_ids_never_stand_on_counters() -> None:
    """No label of a counter or histogram grows with every event, so no Prometheus fills up."""
    for spec in SPECS.values():
        if "event_id" in spec.labels:
            assert spec.type == "gauge", spec.name
            is_about_one_event = re.match("event_|vm_impact_|peer_impact_", spec.name)
            assert is_about_one_event, spec.name


def test_events_that_were_left_out_are_counted() -> None:
    """Whoever is flooded sees how many events are missing."""
    snapshot = replace(Snapshot(), events_dropped=500)
    scrape = Scrape(exposition(snapshot).render().body.decode())
    assert scrape.value("events_dropped_total") == 500
