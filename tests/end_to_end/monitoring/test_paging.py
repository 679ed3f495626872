"""From the simulator to the pager: what each scenario makes Prometheus and Alertmanager say, and to whom.

Scenarios run 30 times as fast, so a scrape and an evaluation every 2 s are one of each a minute.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

import pytest

from azure_scheduled_events_exporter.simulator import PlannedEvent
from support.monitoring.paging import Stack
from support.monitoring.plays import Case, Play, page, slowed, ticket
from support.programs import PATIENCE, eventually

SLOWED_BY = 2
"""How many times slower the plays are than the speeds below, and than the settings and polls of ``plays``.

A slow machine cannot scrape the 62 exporters of this module within a second.
"""

SCENARIOS = (
    Case("live-migration", shows=("ShortFreeze",), pushes=True),
    Case("host-maintenance", tickets=(*ticket("Freeze"),), pushes=True),
    Case("user-reboot", tickets=(*ticket("RebootRequested"),), pushes=True),
    Case("user-redeploy", tickets=(*ticket("RedeployRequested"),), pushes=True),
    Case("spot-preempt", tickets=(*ticket("Preempt"),), speed=6, pushes=True),
    Case("terminate", tickets=(*ticket("TerminateRequested"),), pushes=True),
    Case("cancelled", tickets=(*ticket("Freeze"),), pushes=True),
    Case("host-failure", pages=(*page("WithoutNotice"),), pushes=True),
    Case("degraded-host", tickets=(*ticket("DegradedHost"),), pushes=True),
    Case("rollout", shows=("ShortFreeze",), exporters=5, speed=120, pushes=True),
    Case("waiting-neighbors", tickets=(*ticket("RebootRequested"),), pushes=True),
    Case("double-impact", tickets=(*ticket("Freeze"),), pushes=True),
)

_REBOOT = PlannedEvent("Reboot", ("vmss_0",), announced_at=180, started_for=300)
_FREEZE = PlannedEvent("Freeze", ("vmss_0",), duration=5, announced_at=180, started_for=300)
TWENTY = Case("twenty-exporters", pages=(*page("Reboot"),), exporters=20, vms=20, events=(_REBOOT,), pushes=True)
CANCELLED = Case(
    "cancelled-reboot", pages=(*page("Reboot"),), events=(replace(_REBOOT, cancelled_at=600),), exporters=1, vms=1
)

TOGETHER = Case("single-fault-domain", pages=(*page("Reboot"), *page("Reboot"), *page("ScaleSetHit")), pushes=True)
ZONE_HIT = page("ZoneHit")  # it names no scale set

NOBODY = (
    Case("nothing-happens", events=()),
    Case("short-freeze", events=(_FREEZE,), shows=("ShortFreeze",), exporters=1),
    Case(
        "short-freeze-of-peer", events=(replace(_FREEZE, resources=("vmss_1",)),), shows=("ShortFreeze",), exporters=1
    ),
    Case("requested", events=(replace(_REBOOT, source="User"),), tickets=(*ticket("RebootRequested"),), exporters=1),
    Case("throttled", events=(), faults=("throttle@2m+8m",), exporters=1),
    Case("unavailable", events=(), faults=("503@2m+8m",), exporters=1),
    Case("reset", events=(), faults=("reset@2m+8m",), exporters=1),
    Case("garbled", events=(), faults=("not-json@2m+8m",), exporters=1),
    Case("late-and-empty", events=(), first_answer_delay=5, empty_body=True, exporters=1),
    Case("exporter-restart", events=(), restart=True, exporters=1),
    Case("restart-in-event", events=(_FREEZE,), shows=("ShortFreeze",), restart=True, exporters=1, pushes=True),
)
CASES = (*SCENARIOS, TOGETHER, TWENTY, CANCELLED, *NOBODY)
EXPECTED = [*ZONE_HIT, *(each for case in CASES for each in (*case.pages, *case.tickets))]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """All cases, played side by side into one Prometheus and one Alertmanager.

    The exporters of every scenario push their alerts beside Prometheus: nobody may notice any difference.
    """
    folder = tmp_path_factory.mktemp("paging")
    with ExitStack() as stack:
        chain = stack.enter_context(Stack(folder, slowed(SLOWED_BY), [], slack=True))
        plays = [Play(case, folder, stack, chain.alertmanager.url, SLOWED_BY) for case in CASES]
        with ThreadPoolExecutor(4) as pool:  # most of a start is waiting for a turn
            list(
                pool.map(
                    lambda task: task[0].start(task[1]),
                    [(play, n) for play in plays for n in range(play.case.exporters)],
                )
            )
        targets = [target for play in plays for target in play.targets]
        chain.prometheus.scrape(targets)
        chain.wait_for_targets(len(targets))
        for play in plays:
            play.begin()
        begun = time.monotonic()
        eventually(lambda: time.monotonic() > begun + 8 * SLOWED_BY, "the events have been announced")
        for play in plays:
            if play.case.restart:
                play.restart()
        eventually(lambda: all(play.over for play in plays), "all scenarios are over")
        silent = "count(azure_scheduled_events:event) or vector(0)"
        patience = PATIENCE * SLOWED_BY
        eventually(lambda: chain.prometheus.query(silent)[0][1] == 0, "no event is left", patience)
        chain.receiver.wait_for(EXPECTED, patience)
        quiet = time.monotonic() + 3 * SLOWED_BY
        eventually(lambda: time.monotonic() > quiet, "what should not come has had time to")
        yield chain


def every(cases: tuple[Case, ...]) -> pytest.MarkDecorator:
    """Return the mark that runs a test once per case."""
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


@every(SCENARIOS)
def test_scenario(case: Case, played: Stack) -> None:
    """A scenario of the simulator makes exactly its pages and tickets, and each of them ends."""
    assert played.receiver.notified("/pager", scale_set=case.name) == list(case.pages)
    assert played.receiver.notified("/tickets", scale_set=case.name) == list(case.tickets)


@every(CASES)
def test_what_only_shows(case: Case, played: Stack) -> None:
    """Alerts of severity info fire in Prometheus, and no unexpected alert fires."""
    notified = {(name, severity) for name, severity, _ in (*case.pages, *case.tickets)}
    shown = {(f"AzureScheduledEvent{name}", "info") for name in case.shows}
    assert played.prometheus.fired(case.name) - {("AzureScheduledEventShortNotice", "info")} == notified | shown


def test_twenty_exporters_one_page(played: Stack) -> None:
    """Twenty exporters of a scale set see one event: one page is sent, and one notification that it is resolved."""
    told = [each for each in played.receiver.webhooks() if each.alerts(TWENTY.name)]
    assert [each.body["status"] for each in told] == ["firing", "resolved"]
    assert {each.path for each in told} == {"/pager"}
    assert len({each.body["groupKey"] for each in told}) == 1


def test_each_of_two_events_one_page(played: Stack) -> None:
    """Two VMs of a scale set are rebooted, and each sees its own event only: one page for each, and one for both."""
    assert sorted(played.receiver.notified("/pager", scale_set=TOGETHER.name)) == sorted(TOGETHER.pages)
    told = [each.body for each in played.receiver.webhooks() if each.alerts(TOGETHER.name)]
    for group in {each["groupKey"] for each in told}:
        assert [each["status"] for each in told if each["groupKey"] == group] == ["firing", "resolved"]


def test_cancelled_event_is_over(played: Stack) -> None:
    """A reboot that Azure calls off is paged, then resolved, and never critical again."""
    assert played.receiver.notified("/pager", scale_set=CANCELLED.name) == list(CANCELLED.pages)


@every(NOBODY)
def test_nobody_is_paged(case: Case, played: Stack) -> None:
    """No page is sent for a short Freeze, a requested event, a peer's event or a short failure of an exporter."""
    assert played.receiver.notified("/pager", scale_set=case.name) == []
    assert played.receiver.notified("/tickets", scale_set=case.name) == list(case.tickets)


def test_nothing_else_is_notified(played: Stack) -> None:
    """All notifications together are the expected ones: no exporter's own health is among them."""
    notified = [*played.receiver.notified("/pager"), *played.receiver.notified("/tickets")]
    assert sorted(notified) == sorted(EXPECTED)


def test_chat_reads_like_a_sentence(played: Stack) -> None:
    """The chat message has the event, its VMs, what will be lost and the runbook's address."""
    shown = [each.body["attachments"][0] for each in played.receiver.notifications if each.path == "/slack"]
    (begun,) = [
        each for each in shown if f"scale set {TWENTY.name}" in each["text"] and "Resolved" not in each["title"]
    ]
    (over,) = [each for each in shown if f"scale set {TWENTY.name}" in each["text"] and "Resolved" in each["title"]]
    assert (begun["title"], over["title"]) == ("Reboot: vmss_0", "Resolved: Reboot: vmss_0")
    assert begun["text"].startswith(
        f"vmss_0 (scale set {TWENTY.name}): Azure reboots a VM.\n"
        f"vmss_0 (scale set {TWENTY.name}) will be rebooted. The event starts at "
    )
    assert "Memory is lost." in begun["text"]
    assert "/docs/runbooks/AzureScheduledEventReboot.md" in begun["text"]


def test_rules_are_evaluated(played: Stack) -> None:
    """No rule fails on what exporters really serve."""
    played.check_rules()
