"""Exporters and one Alertmanager are a whole paging chain: no Prometheus runs here."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from alerts import resolve
from azure_scheduled_events_exporter.alertmanager.event_alert import EventAlert
from azure_scheduled_events_exporter.alertmanager.pushes import PushOutcome
from azure_scheduled_events_exporter.alertmanager.sender import AlertmanagerClient, Posted
from azure_scheduled_events_exporter.simulator import PlannedEvent, Scenario, Simulator, VirtualMachine
from support.events.follower import event
from support.events.gate import Nameless, Treatment
from support.monitoring.paging import Alertmanager, Receiver, receivers
from support.monitoring.plays import SPEED, VALUES, Case, Play, page, pushing, ticket
from support.programs import Exporter, eventually, fetch

_REBOOT = PlannedEvent("Reboot", ("vmss_0", "vmss_1"), announced_at=60, notice=120, started_for=120)
_OF_PEER = replace(_REBOOT, resources=("vmss_1",))
ALONE = (
    Case("spot-preempt", tickets=(*ticket("Preempt"),), speed=30, pushes=True),
    Case("two-vms", pages=(*page("Reboot"),), events=(_REBOOT,), pushes=True),
    Case("peer", events=(_OF_PEER,), exporters=1, pushes=True),
)


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Alertmanager, Receiver]]:
    """The team's Alertmanager and its pager."""
    with Receiver() as receiver:
        settings = resolve({**receivers(receiver.url), **VALUES})
        with Alertmanager(tmp_path_factory.mktemp("alertmanager"), settings) as alertmanager:
            yield alertmanager, receiver


@pytest.fixture(scope="module")
def played(team: tuple[Alertmanager, Receiver], tmp_path_factory: pytest.TempPathFactory) -> Receiver:
    """All cases, played side by side into one Alertmanager."""
    alertmanager, receiver = team
    folder = tmp_path_factory.mktemp("alone")
    with ExitStack() as stack:
        plays = [Play(case, folder, stack, alertmanager.url) for case in ALONE]
        for play in plays:
            for number in range(play.case.exporters):
                play.start(number)
        for play in plays:
            play.begin()
        eventually(lambda: all(play.over for play in plays), "all scenarios are over")
        receiver.wait_for([each for case in ALONE for each in (*case.pages, *case.tickets)])
    return receiver


@pytest.mark.parametrize("case", ALONE, ids=lambda case: case.name)
def test_without_prometheus(case: Case, played: Receiver) -> None:
    """An event is told once and resolved once, whatever it is and however many VMs it has; a peer's is not pushed."""
    assert played.notified("/pager", scale_set=case.name) == list(case.pages)
    assert played.notified("/tickets", scale_set=case.name) == list(case.tickets)


class _Silent(Nameless):
    """An IMDS that answers nothing while it is ``silent``, and no name until it is ``named``."""

    silent = False

    def take(self, method: str, path: str, body: bytes) -> Treatment:
        """Refuse whatever is asked while it is silent."""
        treated = super().take(method, path, body)
        return 503 if self.silent and "/metadata/scheduledevents" in path else treated


class _Vm:
    """One VM with a journal, whose exporter pushes to the team's Alertmanager."""

    def __init__(self, name: str, folder: Path, alertmanager: Alertmanager, stack: ExitStack) -> None:
        self.name = name
        self._folder = folder
        self._stack = stack
        self._flags = (*pushing(folder, alertmanager.url), "--journal.path", str(folder / "journal"))
        self._vm = VirtualMachine("vmss_0", scale_set=name)
        self.simulator = stack.enter_context(Simulator(Scenario("waiting", "", (self._vm,), ()), speed=SPEED))
        self.exporter = self.start()

    def start(self, url: str = "") -> Exporter:
        """Start the exporter, with the IMDS at ``url`` if not the simulator itself."""
        output = self._folder / f"{len(list(self._folder.glob('*.log')))}.log"
        flags = ("--poll.interval", "200ms", *self._flags)
        self.exporter = self._stack.enter_context(Exporter(url or self.simulator.url, output, *flags))
        return self.exporter

    def announce(self, notice: float = 600, started_for: float = 600) -> None:
        """Announce a reboot; times are of the scenario, so ten minutes are ten seconds."""
        event = PlannedEvent("Reboot", ("vmss_0",), announced_at=0, notice=notice, started_for=started_for)
        self.simulator.play(Scenario(self.name, "", (self._vm,), (event,)), SPEED)

    def ends(self) -> None:
        """Let the event end now."""
        self.simulator.set_document([])


@pytest.fixture
def vm(team: tuple[Alertmanager, Receiver], tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[_Vm]:
    """A VM of a scale set that is named as the test, whose exporter has polled and knows its name."""
    with ExitStack() as stack:
        found = _Vm(request.node.name, tmp_path, team[0], stack)
        found.exporter.shows("a poll", lambda scrape: scrape.value("up") == 1)
        found.exporter.shows("its name", lambda scrape: scrape.total("instance_info", vm_name="vmss_0") == 1)
        yield found


def _told(vm: _Vm, receiver: Receiver, count: int) -> list[str]:
    """Return whether the pager was told of beginnings and ends, once it was told ``count`` times."""

    def told() -> list[str]:
        return [status for _, _, status in receiver.notified("/pager", scale_set=vm.name)]

    eventually(lambda: len(told()) >= count, f"{count} notifications")
    return told()


def _has_every_answer(alertmanager: Alertmanager, vm: _Vm, receiver: Receiver) -> bool:
    """Return whether Alertmanager got the answers to the notifications of ``vm``; before, it would send them again."""
    sent = sum(len(receiver.notified(path, scale_set=vm.name)) for path in ("/pager", "/tickets"))
    families = text_string_to_metric_families(fetch(f"{alertmanager.url}/metrics").body.decode())
    counts = (
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == "alertmanager_notification_latency_seconds_count"
    )
    return sum(counts) >= sent


def test_killed_exporter(vm: _Vm, team: tuple[Alertmanager, Receiver]) -> None:
    """An exporter that is killed in mid event and comes back after the end resolves the page that it raised."""
    vm.announce()
    assert _told(vm, team[1], 1) == ["firing"]
    vm.exporter.kill()
    vm.ends()
    vm.start()
    assert _told(vm, team[1], 2) == ["firing", "resolved"]


def test_name_is_known_after_the_end(vm: _Vm, team: tuple[Alertmanager, Receiver]) -> None:
    """An event that ended while its VM was away resolves its page, though IMDS tells the VM's name only later."""
    vm.announce()
    assert _told(vm, team[1], 1) == ["firing"]
    vm.exporter.kill()
    vm.ends()
    with Nameless(vm.simulator.url) as gate:
        exporter = vm.start(gate.url)
        exporter.shows("a page that nothing ends yet", lambda now: now.value("alertmanager_up") == 1)
        exporter.shows("the event, not confirmed", lambda now: now.total("event_unconfirmed") == 1)
        gate.named = True
        assert _told(vm, team[1], 2) == ["firing", "resolved"]


def test_restart_while_imds_is_away(vm: _Vm, team: tuple[Alertmanager, Receiver]) -> None:
    """An exporter that is restarted while IMDS fails prolongs the page of an event, and ends it when IMDS answers."""
    vm.announce()
    assert _told(vm, team[1], 1) == ["firing"]
    vm.exporter.kill()
    with _Silent(vm.simulator.url) as gate:
        gate.named = gate.silent = True
        exporter = vm.start(gate.url)
        exporter.shows("an alert", lambda now: now.value("alertmanager_alerts_total", outcome="accepted") == 1)
        assert exporter.scrape().total("event_unconfirmed") == 1
        vm.ends()
        gate.silent = False
        assert _told(vm, team[1], 2) == ["firing", "resolved"]


def test_alertmanager_away(vm: _Vm, team: tuple[Alertmanager, Receiver], tmp_path: Path) -> None:
    """An Alertmanager that is stopped and started in mid event neither pages again nor forgets the end."""
    _, receiver = team
    settings = resolve({**receivers(receiver.url), **VALUES})
    with Alertmanager(tmp_path / "own", settings) as own:
        flags = ("--alertmanager.url", own.url, "--poll.interval", "200ms")
        port = own.url.rpartition(":")[2]
        with Exporter(vm.simulator.url, tmp_path / "own.log", *flags) as exporter:
            vm.exporter.kill()
            vm.announce(started_for=120)
            assert _told(vm, receiver, 1) == ["firing"]
            eventually(lambda: _has_every_answer(own, vm, receiver), "Alertmanager has the receiver's answer")
            own.terminate()
            exporter.shows("0", lambda scrape: scrape.value("alertmanager_up") == 0.0)
            with Alertmanager(tmp_path / "own", settings, port=int(port)):
                exporter.shows("1", lambda scrape: scrape.value("alertmanager_up") == 1.0)
                assert _told(vm, receiver, 2) == ["firing", "resolved"]


def test_late_exporter(vm: _Vm, team: tuple[Alertmanager, Receiver], tmp_path: Path) -> None:
    """An exporter that sees a Reboot only once it has started joins the page of those that saw it announced.

    It also ends that page if it was away when the event ended, and no other exporter is left.
    """
    alertmanager, receiver = team
    vm.announce(notice=300, started_for=3600)
    vm.exporter.shows("Started", lambda scrape: scrape.total("started", scope="self") == 1)
    flags = ("--poll.interval", "200ms", "--journal.path", str(tmp_path / "late"), *pushing(tmp_path, alertmanager.url))
    with Exporter(vm.simulator.url, tmp_path / "late.log", *flags) as late:
        late.wait_for_line('msg="alert pushed"')
        vm.exporter.kill()
    vm.ends()
    with Exporter(vm.simulator.url, tmp_path / "again.log", *flags):
        assert _told(vm, receiver, 2) == ["firing", "resolved"]
    assert receiver.notified("/pager", scale_set=vm.name) == page("Reboot")


@pytest.mark.parametrize("restarts", [False, True], ids=["no-event-any-more", "after-a-restart"])
def test_vm_that_no_longer_sees_the_event(
    team: tuple[Alertmanager, Receiver], tmp_path: Path, request: pytest.FixtureRequest, *, restarts: bool
) -> None:
    """An event that another VM still reports keeps its page open, and the last VM to see its end resolves it."""
    alertmanager, receiver = team
    name = request.node.name
    both = event(name, not_before="") | {"Resources": ["vmss_0", "vmss_1"]}
    flags = ("--poll.interval", "200ms", *pushing(tmp_path, alertmanager.url, {**VALUES, "memory": "20s"}))

    def accepted(exporter: Exporter) -> float:
        return exporter.scrape().value("alertmanager_alerts_total", outcome="accepted") or 0.0

    with ExitStack() as stack:
        vms = [VirtualMachine(f"vmss_{number}", scale_set=name) for number in range(2)]
        simulators = [stack.enter_context(Simulator(Scenario("waiting", "", (each,), ()))) for each in vms]

        def start(number: int, output: str) -> Exporter:
            journal = ("--journal.path", str(tmp_path / f"journal-{number}"))
            return stack.enter_context(Exporter(simulators[number].url, tmp_path / output, *flags, *journal))

        exporters = [start(number, f"{number}.log") for number in range(2)]
        for simulator, exporter in zip(simulators, exporters, strict=True):
            simulator.set_document([both])
            exporter.wait_for_line('msg="alert pushed"')
        if restarts:
            exporters[0].kill()
        simulators[0].set_document([])
        first = start(0, "again.log") if restarts else exporters[0]
        first.wait_for_line("alert stays open|alert resolved")
        before = accepted(exporters[1])
        eventually(lambda: accepted(exporters[1]) > before, "the other VM posts again")
        assert not first.lines("alert resolved")
        simulators[1].set_document([])
        exporters[1].wait_for_line("alert resolved")
        eventually(lambda: len(receiver.notified("/pager", scale_set=name)) >= 2, "the end")
    assert receiver.notified("/pager", scale_set=name) == page("Reboot")


def test_vm_that_cannot_reach_imds(
    team: tuple[Alertmanager, Receiver], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A VM without IMDS, which prolongs the page of an event, does not keep another VM from ending it."""
    alertmanager, receiver = team
    name = request.node.name
    both = event(name, not_before="") | {"Resources": ["vmss_0", "vmss_1"]}
    flags = ("--poll.interval", "200ms", *pushing(tmp_path, alertmanager.url, {**VALUES, "memory": "2m"}))
    with ExitStack() as stack:
        vms = [VirtualMachine(f"vmss_{number}", scale_set=name) for number in range(2)]
        simulators = [stack.enter_context(Simulator(Scenario("waiting", "", (each,), ()))) for each in vms]
        exporters = []
        for number, simulator in enumerate(simulators):
            journal = ("--journal.path", str(tmp_path / f"journal-{number}"))
            exporter = stack.enter_context(Exporter(simulator.url, tmp_path / f"{number}.log", *flags, *journal))
            simulator.set_document([both])
            exporter.wait_for_line('msg="alert pushed"')
            exporters.append(exporter)
        simulators[1].inject("500")
        exporters[1].shows("without IMDS", lambda scrape: scrape.value("up") == 0)
        simulators[0].set_document([])
        exporters[0].wait_for_line("alert resolved")
        eventually(lambda: len(receiver.notified("/pager", scale_set=name)) >= 2, "the end")
    assert receiver.notified("/pager", scale_set=name) == page("Reboot")


def test_labels(vm: _Vm, team: tuple[Alertmanager, Receiver], tmp_path: Path) -> None:
    """Pushed alerts carry the labels that a Prometheus would add."""
    alertmanager, _ = team
    flags = ("--alertmanager.url", alertmanager.url, "--alertmanager.labels", "cluster=one,region=west")
    with Exporter(vm.simulator.url, tmp_path / "labels.log", *flags):
        vm.announce(notice=7200)
        url = f"{alertmanager.url}/api/v2/alerts?filter=cluster%3Done"
        (alert,) = eventually(lambda: json.loads(fetch(url).body), "an alert with the label")
    assert alert["labels"]["region"] == "west"


def test_labels_in_any_script(team: tuple[Alertmanager, Receiver]) -> None:
    """Alertmanager is asked for an alert by its labels, also if these are not ASCII, or have quotes and backslashes."""
    alertmanager, _ = team
    client = AlertmanagerClient(alertmanager.url, None, 10.0)
    for number, team_name in enumerate(("Größe", "東京 \U0001f600", 'a "b" \\n c')):
        labels = {"alertname": "Script", "case": f"script-{number}", "team": team_name}
        alert = EventAlert(labels, {}, starts_at=time.time(), hold=900.0)
        assert not client.shows(alert)
        assert client.push([Posted(alert, time.time() + 900)], 0.0).outcome is PushOutcome.ACCEPTED
        assert client.shows(alert), team_name


def test_place_is_known_after_the_event(vm: _Vm, team: tuple[Alertmanager, Receiver], tmp_path: Path) -> None:
    """An alert with a label that comes from IMDS is pushed when IMDS tells it, though the document stays the same."""
    values = tmp_path / "values.yaml"
    values.write_text("labels.keep: [location]\n")
    alertmanager, _ = team
    flags = ("--instance.name", "vmss_0", "--alertmanager.url", alertmanager.url, "--alerts.values", str(values))
    labels = ("--alertmanager.labels", f"case={vm.name}")
    with (
        _Silent(vm.simulator.url) as gate,
        Exporter(gate.url, tmp_path / "place.log", "--poll.interval", "200ms", *flags, *labels) as exporter,
    ):
        vm.announce(notice=86_400)
        exporter.shows("the event", lambda scrape: scrape.total("event_info") == 1)
        gate.silent = True
        exporter.shows("failed polls", lambda scrape: scrape.value("up") == 0)
        gate.named = True
        exporter.shows("the place", lambda scrape: scrape.total("instance_info", location="westeurope") == 1)
        gate.silent = False
        url = f"{alertmanager.url}/api/v2/alerts?filter=case%3D{vm.name}"
        (alert,) = eventually(lambda: json.loads(fetch(url).body), "the alert")
    assert alert["labels"]["location"] == "westeurope"


def test_figures_before_the_first_answer(tmp_path: Path) -> None:
    """While IMDS is being enabled, which takes up to two minutes, the figures of pushing are there already."""
    with (
        Simulator(
            Scenario("quiet", "Nothing happens.", (VirtualMachine("vmss_0"),), ()), first_answer_delay=60
        ) as imds,
        Exporter(imds.url, tmp_path / "early.log", "--alertmanager.url", "http://127.0.0.1:1") as exporter,
    ):
        scrape = exporter.scrape()
    assert scrape.value("up") == 0
    assert scrape.value("alertmanager_up") == 0
    assert {labels["outcome"] for labels, _ in scrape.series("alertmanager_alerts_total")} == {
        "accepted",
        "rejected",
        "error",
    }


def test_results_wait_for_no_poll(team: tuple[Alertmanager, Receiver], start_exporter: Callable[..., Exporter]) -> None:
    """What Alertmanager has accepted is counted at once, and not when the next poll ends an hour later."""
    with Simulator(Scenario("quiet", "", (VirtualMachine("vm_0"),), ())) as simulator:
        simulator.set_document([event("COUNTED", vm="vm_0")])
        flags = ("--instance.name", "vm_0", "--poll.interval", "1h", "--alertmanager.url", team[0].url)
        exporter = start_exporter(simulator.url, *flags)
        exporter.shows("the push", lambda now: now.value("alertmanager_alerts_total", outcome="accepted") == 1)
        assert exporter.scrape().value("alertmanager_up") == 1
        assert exporter.scrape().total("polls_total") == 1
