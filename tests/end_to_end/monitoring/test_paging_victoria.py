"""The rules on vmagent, VictoriaMetrics and vmalert: one notification for one event, and none without.

The exporters of some VMs go down with the event of their VM, as a VM takes its exporter with it.
"""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pytest

from alerts import Settings
from alerts.rules import alerts
from azure_scheduled_events_exporter.simulator import PlannedEvent
from support.monitoring.paging import Notification
from support.monitoring.plays import VALUES, Case, Play, page, ticket
from support.monitoring.victoria import VictoriaStack
from support.programs import PATIENCE, eventually

_PREEMPT = PlannedEvent("Preempt", ("vmss_0",), notice=300, announced_at=60, started_for=300)
_FREEZE = PlannedEvent("Freeze", ("vmss_0",), duration=5, announced_at=60, started_for=300)
PREEMPT = Case("five-exporters", tickets=(*ticket("Preempt"),), exporters=5, vms=5, events=(_PREEMPT,))
UNTIL_ENDED = 3600.0
"""How long an event is Started, in seconds of the scenario, that is ended before that."""
LEFT = 6.0
"""How many seconds an event goes on after its VM went down."""
AWAY = 13.0
"""For how many seconds the VM that returns is away: longer than the rules take the last scrapes for the present."""
_REBOOT = PlannedEvent("Reboot", ("vmss_0",), notice=360, announced_at=60, started_for=UNTIL_ENDED)
BACK = Case("comes-back", pages=(*page("Reboot"),), exporters=1, vms=1, events=(_REBOOT,), journal=True)
BESIDE_PEER = Case(
    "stays-away-beside-peer",
    pages=(*page("Redeploy"),),
    exporters=2,
    events=(replace(_REBOOT, event_type="Redeploy"),),
)
GONE = Case(
    "never-comes-back",
    tickets=(*ticket("Preempt"),),
    exporters=1,
    vms=1,
    events=(replace(_PREEMPT, started_for=UNTIL_ENDED),),
)
DOWN = (BACK, BESIDE_PEER, GONE)
QUIET = (
    Case("nothing-happens", events=(), exporters=2),
    Case("short-freeze", events=(_FREEZE,), exporters=2),
    Case("throttled", events=(), faults=("throttle",), exporters=1),
    Case("exporter-restart", events=(), restart=True, exporters=1),
)
LOUD = (PREEMPT, *DOWN)
CASES = (*LOUD, *QUIET)
RULES = alerts(Settings())


@dataclass(frozen=True)
class Played:
    """The engine with all that its receiver was told, and when each exporter was down (monotonic seconds)."""

    chain: VictoriaStack
    down: dict[str, float]
    back: float

    def told(self, case: Case) -> list[Notification]:
        """Return the notifications about the VMs of a case."""
        return [each for each in self.chain.receiver.webhooks() if each.alerts(case.name)]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """All cases, played side by side into one VictoriaMetrics and one Alertmanager."""
    folder = tmp_path_factory.mktemp("victoria")
    with ExitStack() as stack:
        plays = {case: Play(case, folder, stack) for case in CASES}
        with ThreadPoolExecutor(4) as pool:  # most of a start is waiting for a turn
            list(pool.map(_start, plays.values()))
        targets = [target for play in plays.values() for target in play.targets]
        chain = stack.enter_context(VictoriaStack(folder, {**VALUES, "memory": "25s"}, targets))
        ready = "count(azure_scheduled_events_last_success_timestamp_seconds > 0)"
        eventually(lambda: chain.query(ready)[:1] == [({}, len(targets))], "every exporter is scraped")
        for play in plays.values():
            play.begin()
        for play in plays.values():
            if play.case.restart:
                play.restart()
        down = _go_down(chain, [plays[case] for case in DOWN])
        eventually(lambda: time.monotonic() > max(down.values()) + LEFT, "the events have gone on without their VMs")
        for case in DOWN:
            plays[case].simulator.set_document([])
        eventually(lambda: all(plays[case].over for case in (PREEMPT, *QUIET)), "all other events are over")
        eventually(lambda: time.monotonic() > down[BACK.name] + AWAY, "the VM has been away for long")
        back = time.monotonic()
        plays[BACK].restart()
        scene = Played(chain, down, back)
        chain.receiver.wait_for([each for case in LOUD for each in (*case.pages, *case.tickets)], 2 * PATIENCE)
        quiet = time.monotonic() + 5
        eventually(lambda: time.monotonic() > quiet, "what should not come has had time to")
        yield scene


def _start(play: Play) -> None:
    """Start the exporters of a case, that of the VM that goes down first."""
    for number in range(play.case.exporters):
        play.start(number)


def _go_down(chain: VictoriaStack, plays: Sequence[Play]) -> dict[str, float]:
    """Kill the exporter of the VM of each case once its event has started; return when each went down."""
    left, down = list(plays), dict[str, float]()

    def go_on() -> bool:
        for play in [each for each in left if _has_started(chain, each)]:
            play.exporters[0].kill()
            down[play.case.name] = time.monotonic()
            left.remove(play)
        return not left

    eventually(go_on, "the VMs go down with their events")
    return down


def _has_started(chain: VictoriaStack, play: Play) -> bool:
    """Return whether the store knows that the event of the first exporter has started."""
    return bool(chain.query(f'azure_scheduled_events_started{{scope="self",instance="{play.targets[0]}"}} == 1'))


def test_one_ticket_for_an_event_that_five_exporters_see(played: Played) -> None:
    """A Preempt that five exporters report makes one ticket, which resolves once."""
    assert played.chain.receiver.notified("/tickets", scale_set=PREEMPT.name) == list(PREEMPT.tickets)
    assert len(played.told(PREEMPT)) == 2


@pytest.mark.parametrize("case", DOWN, ids=lambda case: case.name)
def test_one_notification_for_a_vm_that_goes_down_with_its_event(case: Case, played: Played) -> None:
    """It fires once and resolves once, as one alert, whether its VM returns, stays away, or has no neighbor."""
    assert played.chain.receiver.notified("/pager", scale_set=case.name) == list(case.pages)
    assert played.chain.receiver.notified("/tickets", scale_set=case.name) == list(case.tickets)
    firing, resolved = played.told(case)
    assert [each.body["status"] for each in (firing, resolved)] == ["firing", "resolved"]
    assert firing.at < played.down[case.name] + 5 < resolved.at
    assert firing.body["alerts"][0]["startsAt"] == resolved.body["alerts"][0]["startsAt"]


def test_a_page_holds_until_its_vm_is_back(played: Played) -> None:
    """While the only exporter that reported a Reboot is down, the page stays, although the event is over."""
    (_, resolved) = played.told(BACK)
    assert resolved.at > played.back


def test_nothing_else_is_notified(played: Played) -> None:
    """All notifications together are the expected ones: quiet scenarios notify nobody."""
    assert sorted(played.chain.receiver.notified("/pager")) == sorted(each for case in CASES for each in case.pages)
    assert sorted(played.chain.receiver.notified("/tickets")) == sorted(each for case in CASES for each in case.tickets)
    assert len(played.chain.receiver.webhooks()) == sum(len(case.pages) + len(case.tickets) for case in CASES)


def test_the_ticket_names_the_vm(played: Played) -> None:
    """The first notification names the VM and its scale set, although no recording has been read back yet."""
    (begun, _) = played.told(PREEMPT)
    (alert,) = begun.body["alerts"]
    assert alert["annotations"]["vms"] == f"vmss_0 (scale set {PREEMPT.name})"


def test_rules_are_evaluated(played: Played) -> None:
    """No rule fails on vmalert."""
    rules = played.chain.rules()
    assert len(rules) > len(RULES)
    assert [(rule["name"], rule["lastError"]) for rule in rules if rule.get("lastError")] == []
