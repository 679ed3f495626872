"""From the simulator to the pager: what each scenario makes Prometheus and Alertmanager say, and to whom."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.simulator import PlannedEvent, Scenario, Simulator, VirtualMachine, What, find
from support.paging import Stack
from support.programs import Exporter, eventually

SPEED = 60.0
# What lasts a quarter of an hour on Azure lasts 15 s here, and so do the thresholds.
VALUES = {
    "scrape.interval": "1s",
    "evaluation.interval": "1s",
    "evaluation.watcher-interval": "5s",
    "group.wait": "1s",
    "group.interval": "1s",
    "memory": "1m",
    "longest": "2m",
    "notice.freeze": "12s",
    "notice.reboot": "12s",
    "notice.redeploy": "7s",
    "notice.terminate": "4s",
    "degraded-host.notice": "24m",
    "overdue.after": "10s",
    "started.limit": "30s",
    "hit.together": "15s",
}
ENDED = {What.COMPLETED, What.CANCELLED}


def ticket(name: str) -> list[tuple[str, str, str]]:
    """Return what a ticket's receiver is told of one event from beginning to end."""
    return [(f"AzureScheduledEvent{name}", "warning", status) for status in ("firing", "resolved")]


def page(name: str) -> list[tuple[str, str, str]]:
    """Return what a pager is told of one event from beginning to end."""
    return [(f"AzureScheduledEvent{name}", "critical", status) for status in ("firing", "resolved")]


@dataclass(frozen=True)
class Case:
    """A scenario and all that it may cause: pages, tickets, and what only shows."""

    name: str
    pages: tuple[tuple[str, str, str], ...] = ()
    tickets: tuple[tuple[str, str, str], ...] = ()
    shows: tuple[str, ...] = ()
    exporters: int = 2
    speed: float = SPEED
    faults: tuple[str, ...] = ()
    first_answer_delay: float = 0.0
    empty_body: bool = False
    restart: bool = False
    events: tuple[PlannedEvent, ...] | None = None
    vms: int = 0


SCENARIOS = (
    Case("live-migration", shows=("ShortFreeze",)),
    Case("host-maintenance", tickets=(*ticket("Freeze"),)),
    Case("user-reboot", tickets=(*ticket("RebootRequested"),)),
    Case("user-redeploy", tickets=(*ticket("RedeployRequested"),)),
    Case("spot-preempt", pages=(*page("Preempt"),), speed=6),
    Case("terminate", tickets=(*ticket("TerminateRequested"),)),
    Case("cancelled", tickets=(*ticket("Freeze"),)),
    Case("host-failure", pages=(*page("WithoutNotice"),)),
    Case("degraded-host", tickets=(*ticket("DegradedHost"),)),
    Case("rollout", shows=("ShortFreeze",), exporters=5, speed=120),
    Case("double-impact", tickets=(*ticket("Freeze"),), shows=("ShortFreeze",)),
)

_REBOOT = PlannedEvent("Reboot", ("vmss_0",), announced_at=180, started_for=300)
_FREEZE = PlannedEvent("Freeze", ("vmss_0",), duration=5, announced_at=180, started_for=300)
TWENTY = Case("twenty-exporters", pages=(*page("Reboot"),), exporters=20, vms=20, events=(_REBOOT,))
CANCELLED = Case(
    "cancelled-reboot", pages=(*page("Reboot"),), events=(replace(_REBOOT, cancelled_at=600),), exporters=1, vms=1
)

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
    Case("restart-in-event", events=(_FREEZE,), shows=("ShortFreeze",), restart=True, exporters=1),
)
CASES = (*SCENARIOS, TWENTY, CANCELLED, *NOBODY)


def scenario(case: Case) -> Scenario:
    """Return the case's scenario, in a scale set and a zone of its own so that no case disturbs another."""
    if case.events is None:
        (found,) = find(case.name)
        events = tuple(
            replace(each, started_for=min(each.started_for, 120 if case.speed < SPEED else 600))
            for each in found.events
        )
        found = replace(found, events=events)
    else:
        vms = tuple(VirtualMachine(f"vmss_{number}") for number in range(case.vms or 2))
        found = Scenario(case.name, "", vms, case.events)
    return replace(found, vms=tuple(replace(vm, scale_set=case.name, zone=case.name) for vm in found.vms))


class Play:
    """One case that is being played: a simulator and the exporters of its VMs."""

    def __init__(self, case: Case, folder: Path, stack: ExitStack) -> None:
        self.case = case
        self._folder = folder
        self._stack = stack
        self.simulator = stack.enter_context(
            Simulator(
                Scenario("waiting", "", scenario(case).vms, ()),
                speed=case.speed,
                first_answer_delay=case.first_answer_delay,
                empty_body=case.empty_body,
            )
        )
        self.exporters: list[Exporter] = []

    def start(self, number: int) -> None:
        """Start the exporter of one VM."""
        self.exporters.append(self._start(number))

    def _start(self, number: int, *flags: str) -> Exporter:
        name = f"vmss_{number}"
        output = self._folder / f"{self.case.name}-{number}{'-again' * bool(flags)}.log"
        given = ("--instance.name", name, "--poll.interval", "500ms", *flags)
        return self._stack.enter_context(Exporter(self.simulator.vm_url(name), output, *given))

    @property
    def targets(self) -> list[str]:
        """The addresses to scrape."""
        return [f"127.0.0.1:{exporter.port}" for exporter in self.exporters]

    def begin(self) -> None:
        """Let the scenario begin now."""
        self.simulator.play(scenario(self.case), self.case.speed)
        for fault in self.case.faults:
            name, _, _ = fault.partition("@")
            self.simulator.inject(name, seconds=8)

    def restart(self) -> None:
        """Kill the exporter and start it again at the same address."""
        port = self.exporters[0].port
        self.exporters[0].kill()
        self.exporters[0] = self._start(0, "--web.listen-address", f"127.0.0.1:{port}")

    @property
    def over(self) -> bool:
        """Whether all its events have come and gone."""
        ended = [each for each in self.simulator.record if each.what in ENDED]
        return len(ended) >= len(scenario(self.case).events)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """All cases, played side by side into one Prometheus and one Alertmanager."""
    folder = tmp_path_factory.mktemp("paging")
    with ExitStack() as stack:
        plays = [Play(case, folder, stack) for case in CASES]
        with ThreadPoolExecutor(4) as pool:  # most of a start is waiting for a turn
            list(
                pool.map(
                    lambda task: task[0].start(task[1]),
                    [(play, n) for play in plays for n in range(play.case.exporters)],
                )
            )
        targets = [target for play in plays for target in play.targets]
        chain = stack.enter_context(Stack(folder, VALUES, targets, slack=True))
        chain.wait_for_targets(len(targets))
        for play in plays:
            play.begin()
        begun = time.monotonic()
        eventually(lambda: time.monotonic() > begun + 8, "the events have been announced")
        for play in plays:
            if play.case.restart:
                play.restart()
        eventually(lambda: all(play.over for play in plays), "all scenarios are over", 120)
        silent = "count(azure_scheduled_events:event) or vector(0)"
        eventually(lambda: chain.prometheus.query(silent)[0][1] == 0, "no event is left")
        expected = sum(len(case.pages) + len(case.tickets) for case in CASES)
        eventually(lambda: len(chain.receiver.webhooks()) >= expected, f"{expected} notifications", 20)
        quiet = time.monotonic() + 3
        eventually(lambda: time.monotonic() > quiet, "what should not come has had time to")
        yield chain


def every(cases: tuple[Case, ...]) -> pytest.MarkDecorator:
    """Return the mark that runs a test once per case."""
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


@every(SCENARIOS)
def test_scenario(case: Case, played: Stack) -> None:
    """A scenario of the simulator makes exactly its pages and tickets, and each of them ends."""
    assert played.receiver.told("/pager", scale_set=case.name) == list(case.pages)
    assert played.receiver.told("/tickets", scale_set=case.name) == list(case.tickets)


@every(CASES)
def test_what_only_shows(case: Case, played: Stack) -> None:
    """What is only worth a look fires in Prometheus, and nothing fires that nobody expects."""
    notified = {(name, severity) for name, severity, _ in (*case.pages, *case.tickets)}
    shown = {(f"AzureScheduledEvent{name}", "info") for name in case.shows}
    assert played.prometheus.fired(case.name) - {("AzureScheduledEventShortNotice", "info")} == notified | shown


def test_twenty_exporters_one_page(played: Stack) -> None:
    """Twenty exporters of a scale set see one event: somebody is paged once, and told once that it is over."""
    told = [each for each in played.receiver.webhooks() if each.alerts(TWENTY.name)]
    assert [each.body["status"] for each in told] == ["firing", "resolved"]
    assert {each.path for each in told} == {"/pager"}
    assert len({each.body["groupKey"] for each in told}) == 1


def test_cancelled_event_is_over(played: Stack) -> None:
    """A reboot that Azure calls off is paged, then resolved, and never critical again."""
    assert played.receiver.told("/pager", scale_set=CANCELLED.name) == list(CANCELLED.pages)


@every(NOBODY)
def test_nobody_is_paged(case: Case, played: Stack) -> None:
    """Nobody's phone rings for what is short, requested, somebody else's or a hiccup of the watcher."""
    assert played.receiver.told("/pager", scale_set=case.name) == []
    assert played.receiver.told("/tickets", scale_set=case.name) == list(case.tickets)


def test_nothing_else_is_told(played: Stack) -> None:
    """All notifications together are the expected ones: no exporter's own health is among them."""
    expected = [each for case in CASES for each in (*case.pages, *case.tickets)]
    told = [*played.receiver.told("/pager"), *played.receiver.told("/tickets")]
    assert sorted(told) == sorted(expected)


def test_chat_reads_like_a_sentence(played: Stack) -> None:
    """In the chat stands what happens to whom, what will be lost and where the runbook is."""
    shown = [each.body["attachments"][0] for each in played.receiver.notifications if each.path == "/slack"]
    (begun,) = [each for each in shown if f"scale set {TWENTY.name}" in each["text"] and "Over" not in each["title"]]
    (over,) = [each for each in shown if f"scale set {TWENTY.name}" in each["text"] and "Over" in each["title"]]
    assert (begun["title"], over["title"]) == ("Reboot: vmss_0", "Over: Reboot: vmss_0")
    assert begun["text"].startswith(
        f"Azure reboots a VM.\nvmss_0 (scale set {TWENTY.name}) will be rebooted. It starts at "
    )
    assert "Memory is lost." in begun["text"]
    assert "/docs/runbooks/AzureScheduledEventReboot.md" in begun["text"]


def test_rules_are_evaluated(played: Stack) -> None:
    """No rule fails on what exporters really serve."""
    played.check_rules()
