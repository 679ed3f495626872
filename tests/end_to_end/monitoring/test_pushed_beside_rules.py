"""Exporters push beside a Prometheus that scrapes often, VMs go down with their events, and Alertmanager restarts.

Scenarios run five times as fast, so a scrape every second is one every 5 s. ``test_paging`` has every shipped scenario
at the pace of one scrape a minute.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

import pytest

from azure_scheduled_events_exporter.simulator import PlannedEvent, Starts
from support.monitoring.paging import Receiver, Stack
from support.monitoring.plays import VALUES, Case, Play, page, ticket
from support.programs import eventually

SPEED = 5.0
_REBOOT = PlannedEvent("Reboot", ("vmss_0",), announced_at=5, notice=40, started_for=50)
_FREEZE = replace(_REBOOT, event_type="Freeze", duration=30)
_PREEMPT = replace(_REBOOT, event_type="Preempt", notice=30)
_LONG = replace(_REBOOT, started_for=60)

TWENTY = Case("twenty-at-5s", pages=(*page("Reboot"),), exporters=20, vms=20, events=(_REBOOT,))
BACK = Case("comes-back", pages=(*page("Reboot"),), exporters=1, vms=1, events=(_LONG,))
GONE = Case("never-comes-back", tickets=(*ticket("Preempt"),), exporters=1, vms=1, events=(_PREEMPT,))
CASES = tuple(
    replace(each, speed=SPEED, pushes=True, journal=True)
    for each in (
        TWENTY,
        BACK,
        GONE,
        Case("redeploy", pages=(*page("Redeploy"),), exporters=1, events=(replace(_REBOOT, event_type="Redeploy"),)),
        Case("terminate", pages=(*page("Terminate"),), exporters=1, events=(replace(_REBOOT, event_type="Terminate"),)),
        Case(
            "at-once", pages=(*page("WithoutNotice"),), exporters=1, events=(replace(_REBOOT, starts=Starts.AT_ONCE),)
        ),
        Case("freeze", tickets=(*ticket("Freeze"),), exporters=1, events=(_FREEZE,)),
        Case("by-user", tickets=(*ticket("RebootRequested"),), exporters=1, events=(replace(_REBOOT, source="User"),)),
        Case("short-freeze", exporters=1, events=(replace(_FREEZE, duration=5),)),
        Case("freeze-of-peer", exporters=1, events=(replace(_FREEZE, resources=("vmss_1",), duration=5),)),
        Case("nothing-happens", exporters=1, events=()),
    )
)
EXPECTED = [each for case in CASES for each in (*case.pages, *case.tickets)]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    """All cases, played side by side into one Prometheus and one Alertmanager, which is restarted in mid event."""
    folder = tmp_path_factory.mktemp("beside")
    with ExitStack() as stack:
        # An event that nobody shows any more is remembered for 20 s, and Alertmanager is restarted in between.
        values = {**VALUES, "memory": "20s", "started.limit": "5m"}
        chain = stack.enter_context(Stack(folder, values, []))
        plays = {case.name: Play(case, folder, stack, chain.alertmanager.url) for case in CASES}
        with ThreadPoolExecutor(4) as pool:  # most of a start is waiting for a turn
            starts = [pool.submit(play.start, n) for play in plays.values() for n in range(play.case.exporters)]
        for each in starts:
            each.result()
        targets = [target for play in plays.values() for target in play.targets]
        chain.prometheus.scrape(targets)
        chain.wait_for_targets(len(targets))
        for play in plays.values():
            play.begin()
        with ThreadPoolExecutor(2) as pool:  # on a slow machine, events are over before Alertmanager is back
            absences = [
                pool.submit(_go_down, plays[GONE.name]),
                pool.submit(_stay_away, plays[BACK.name], chain.receiver),
            ]
            chain.receiver.wait_for([each for each in EXPECTED if each[2] == "firing"])
            chain.restart_alertmanager()
        for absence in absences:
            absence.result()
        plays[BACK.name].restart()
        eventually(lambda: all(play.over for play in plays.values()), "all events are over")
        chain.receiver.wait_for(EXPECTED)
        quiet = time.monotonic() + 3
        eventually(lambda: time.monotonic() > quiet, "what should not come has had time to")
        yield chain.receiver


def _go_down(play: Play) -> None:
    """Let the VM go down once its event has started."""
    play.exporters[0].shows("Started", lambda scrape: scrape.total("started", scope="self") == 1)
    play.exporters[0].kill()


def _stay_away(play: Play, receiver: Receiver) -> None:
    """Let the VM go down with its event, and see that its page holds until the event is over."""
    _go_down(play)
    eventually(lambda: play.over, "the event is over")
    told = eventually(lambda: receiver.notified("/pager", scale_set=play.case.name), "the event is told")
    assert told == list(play.case.pages[:1]), "the page holds while the VM is down"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_one_page_and_one_resolve(case: Case, played: Receiver) -> None:
    """An event is told once and resolved once by exporters and rules together, and a quiet one is not told at all."""
    assert played.notified("/pager", scale_set=case.name) == list(case.pages)
    assert played.notified("/tickets", scale_set=case.name) == list(case.tickets)


def test_nothing_else_is_notified(played: Receiver) -> None:
    """All notifications together are the expected ones."""
    assert sorted([*played.notified("/pager"), *played.notified("/tickets")]) == sorted(EXPECTED)
