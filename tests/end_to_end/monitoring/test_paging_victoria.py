"""The rules on vmagent, VictoriaMetrics and vmalert: one notification for one event, and none without."""

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from alerts import Settings
from alerts.rules import alerts
from azure_scheduled_events_exporter.simulator import PlannedEvent
from support.monitoring.plays import VALUES, Case, Play, ticket
from support.monitoring.victoria import VictoriaStack
from support.programs import eventually

_PREEMPT = PlannedEvent("Preempt", ("vmss_0",), notice=300, announced_at=60, started_for=300)
_FREEZE = PlannedEvent("Freeze", ("vmss_0",), duration=5, announced_at=60, started_for=300)
PREEMPT = Case("five-exporters", tickets=(*ticket("Preempt"),), exporters=5, vms=5, events=(_PREEMPT,))
QUIET = (
    Case("nothing-happens", events=(), exporters=2),
    Case("short-freeze", events=(_FREEZE,), exporters=2),
    Case("throttled", events=(), faults=("throttle",), exporters=1),
    Case("exporter-restart", events=(), restart=True, exporters=1),
)
CASES = (PREEMPT, *QUIET)
RULES = alerts(Settings())


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VictoriaStack]:
    """All cases, played side by side into one VictoriaMetrics and one Alertmanager."""
    folder = tmp_path_factory.mktemp("victoria")
    with ExitStack() as stack:
        plays = [Play(case, folder, stack) for case in CASES]
        for play in plays:
            for number in range(play.case.exporters):
                play.start(number)
        targets = [target for play in plays for target in play.targets]
        chain = stack.enter_context(VictoriaStack(folder, VALUES, targets))
        ready = "count(azure_scheduled_events_last_success_timestamp_seconds > 0)"
        eventually(lambda: chain.query(ready)[:1] == [({}, len(targets))], "every exporter is scraped", 60)
        for play in plays:
            play.begin()
        for play in plays:
            if play.case.restart:
                play.restart()
        told = len(PREEMPT.tickets)
        eventually(lambda: len(chain.receiver.webhooks()) >= told, "the ticket has begun and ended", 90)
        eventually(lambda: all(play.over for play in plays), "all scenarios are over", 90)
        quiet = time.monotonic() + 5
        eventually(lambda: time.monotonic() > quiet, "what should not come has had time to")
        yield chain


def test_one_ticket_for_an_event_that_five_exporters_see(played: VictoriaStack) -> None:
    """A Preempt that five exporters report makes one ticket, which resolves once; quiet scenarios notify nobody."""
    assert played.receiver.notified("/tickets") == list(PREEMPT.tickets)
    assert played.receiver.notified("/pager") == []


def test_the_ticket_names_the_vm(played: VictoriaStack) -> None:
    """The first notification names the VM and its scale set, although no recording has been read back yet."""
    (begun, *_) = played.receiver.webhooks()
    (alert,) = begun.body["alerts"]
    assert alert["annotations"]["vms"] == f"vmss_0 (scale set {PREEMPT.name})"


def test_rules_are_evaluated(played: VictoriaStack) -> None:
    """No rule fails on vmalert."""
    rules = played.rules()
    assert len(rules) > len(RULES)
    assert [(rule["name"], rule["lastError"]) for rule in rules if rule.get("lastError")] == []
