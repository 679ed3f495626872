"""What the exporter pushes to an Alertmanager that is away, slow, refuses, or has another clock; it delays nothing."""

import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from azure_scheduled_events_exporter.alertmanager.push import AlertPush
from azure_scheduled_events_exporter.alertmanager.pushes import PushOutcome
from azure_scheduled_events_exporter.alertmanager.scrapes import Scrapes
from azure_scheduled_events_exporter.alertmanager.sender import AlertmanagerClient
from azure_scheduled_events_exporter.config import resolve
from azure_scheduled_events_exporter.core.document import ScheduledEvent, Scope
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State, Transition
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.service.alert_push import check
from azure_scheduled_events_exporter.simulator import PlannedEvent, Scenario, Simulator, VirtualMachine
from support.events.follower import event
from support.programs import Exporter, eventually
from support.servers.certificates import Authority
from support.servers.http_peer import Peer


def hang(listening: socket.socket) -> str:
    """Return the address of an Alertmanager that takes connections and says nothing."""
    return f"http://127.0.0.1:{listening.getsockname()[1]}"


def counted(exporter: Exporter, outcome: str) -> Callable[[], bool]:
    """Return what says whether an alert has met ``outcome``."""
    return lambda: (exporter.scrape().value("alertmanager_alerts_total", outcome=outcome) or 0) >= 1


def test_nothing_is_delayed(tmp_path: Path) -> None:
    """If one Alertmanager hangs and one refuses, polls continue, another one is notified, and shutdown is quick."""
    vm = VirtualMachine("vmss_0")
    preempt = PlannedEvent("Preempt", ("vmss_0",), announced_at=0, notice=600)
    with (
        socket.create_server(("127.0.0.1", 0)) as hanging,
        Peer(400) as refusing,
        Peer() as well,
        Simulator(Scenario("page", "", (vm,), (preempt,))) as simulator,
    ):
        urls = ",".join([hang(hanging), refusing.url, well.url])
        flags = ("--alertmanager.url", urls, "--poll.interval", "100ms", "--journal.path", str(tmp_path / "journal"))
        with Exporter(simulator.url, tmp_path / "exporter.log", *flags) as exporter:
            eventually(well.alerts, "the alert has come")
            eventually(counted(exporter, "rejected"), "the refusal is counted")
            before = exporter.scrape().value("polls_total", outcome="ok") or 0
            exporter.shows("20 polls", lambda scrape: (scrape.value("polls_total", outcome="ok") or 0) > before + 20)
            assert exporter.scrape().value("alertmanager_up") == 0
            began = time.monotonic()
            assert exporter.terminate() == 0
            assert time.monotonic() - began < 5


def pause_of(peer: Peer) -> float:
    """Return how many seconds the next post is waited for."""
    count, began = len(peer.requests), time.monotonic()
    eventually(lambda: len(peer.requests) > count, "the next post")
    return time.monotonic() - began


def test_event_during_an_outage(tmp_path: Path) -> None:
    """However long Alertmanager has been away, a new alert that fails is tried again within a second or so."""
    vm = VirtualMachine("vmss_0")
    preempt = PlannedEvent("Preempt", ("vmss_0",), announced_at=0, notice=600)
    with Peer(503, {"Date": formatdate()}) as away, Simulator(Scenario("waiting", "", (vm,), ())) as simulator:
        flags = ("--alertmanager.url", away.url, "--poll.interval", "300ms")
        with Exporter(simulator.url, tmp_path / "exporter.log", *flags) as exporter:
            exporter.wait_for_line("this VM's name is known")
            exporter.shows("a document", lambda scrape: scrape.value("up") == 1)
            # Name and document have begun the pauses anew: 1 s, 2 s, 4 s and so on, or down to half of each.
            eventually(lambda: pause_of(away) > 2.2, "the pauses between empty posts have grown")
            simulator.play(Scenario("page", "", (vm,), (preempt,)))
            eventually(away.alerts, "the alert is posted")
            began = time.monotonic()
            eventually(lambda: len(away.alerts()) >= 2, "the alert is posted again")
            assert time.monotonic() - began < 4, "the next empty post would come after 4 s at the earliest"


TWO = Scenario("two", "", (VirtualMachine("vmss_0"), VirtualMachine("vmss_1")), ())


def ends(peer: Peer, event_id: str) -> list[datetime]:
    """Return until when the posts kept the alert of ``event_id``, in their order."""
    alerts = [cast("dict[str, Any]", alert) for alert in peer.alerts()]
    return [datetime.fromisoformat(each["endsAt"]) for each in alerts if each["labels"]["event_id"] == event_id]


def posts_more(peer: Peer, event_id: str, count: int) -> bool:
    """Return whether the alert of ``event_id`` has been posted more than ``count`` times."""
    return len(ends(peer, event_id)) > count


def is_resolved(peer: Peer, event_id: str) -> bool:
    """Return whether the last post of the alert of ``event_id`` ended it."""
    return bool(times := ends(peer, event_id)) and times[-1] <= datetime.now(UTC)


@pytest.fixture
def pushing(tmp_path: Path) -> Iterator[Callable[..., Exporter]]:
    """Start exporters that push to a peer, on one journal."""
    (tmp_path / "values.yaml").write_text("scrape.interval: 1s\n")
    with ExitStack() as stack:

        def start(simulator: Simulator, peer: Peer, *more: str) -> Exporter:
            flags = ["--alertmanager.url", peer.url, "--alerts.values", str(tmp_path / "values.yaml")]
            flags += ["--poll.interval", "100ms", "--journal.path", str(tmp_path / "journal"), *more]
            output = tmp_path / f"exporter-{len(list(tmp_path.glob('*.log')))}.log"
            return stack.enter_context(Exporter(simulator.url, output, *flags))

        yield start


def test_event_whose_source_is_hidden(pushing: Callable[..., Exporter]) -> None:
    """With an api-version that hides who requested an event, its alert is pushed after two scrapes, not minutes."""
    with Peer() as peer, Simulator(TWO) as simulator:
        exporter = pushing(simulator, peer, "--imds.api-version", "2019-04-01")
        exporter.wait_for_line("this VM's name is known")
        exporter.shows("an empty post", lambda scrape: scrape.value("alertmanager_up") == 1)
        simulator.set_document([event("HIDDEN", not_before="") | {"EventSource": ""}])
        eventually(lambda: ends(peer, "HIDDEN"), "the alert")


def test_many_events_end_while_it_is_away(pushing: Callable[..., Exporter]) -> None:
    """After a restart, the alert of an event that has ended is resolved, however many other events ended with it."""
    with Peer() as peer, Simulator(TWO) as simulator:
        theirs = [event(f"THEIRS-{number}", vm="vmss_1") for number in range(25)]
        simulator.set_document([event("MINE"), *theirs])
        exporter = pushing(simulator, peer)
        exporter.wait_for_line('msg="alert pushed"')
        assert exporter.terminate() == 0
        simulator.set_document([])
        pushing(simulator, peer)
        eventually(lambda: is_resolved(peer, "MINE"), "the end of the alert")


def test_event_that_leaves_this_vm_out(pushing: Callable[..., Exporter]) -> None:
    """The alert of an event that goes on for other VMs is not resolved when Resources leave this VM out."""
    with Peer() as peer, Simulator(TWO) as simulator:
        both = event("BOTH") | {"Resources": ["vmss_0", "vmss_1"]}
        simulator.set_document([both])
        exporter = pushing(simulator, peer)
        exporter.wait_for_line('msg="alert pushed"')
        simulator.set_document([event("BOTH", vm="vmss_1")])
        exporter.shows("an event of a peer", lambda scrape: scrape.total("pending", scope="peer") == 1)
        simulator.set_document([event("BOTH", vm="vmss_1"), event("NEXT", kind="Preempt", not_before="")])
        eventually(lambda: ends(peer, "NEXT"), "the next alert")
        assert not is_resolved(peer, "BOTH")
        simulator.set_document([])
        eventually(lambda: is_resolved(peer, "BOTH"), "the end of the alert")


def test_certificate_that_is_not_verified(tmp_path: Path, pushing: Callable[..., Exporter]) -> None:
    """With insecure_skip_verify, alerts are pushed, and every line of the log is one of the exporter's own."""
    (tmp_path / "http.yml").write_text("tls_config: {insecure_skip_verify: true}\n")
    with Peer(pair=Authority(tmp_path).server()) as peer, Simulator(TWO) as simulator:
        simulator.set_document([event("MINE")])
        exporter = pushing(simulator, peer, "--alertmanager.http-config.file", str(tmp_path / "http.yml"))
        exporter.wait_for_line('msg="alert pushed"')
        assert exporter.terminate() == 0
        assert [line for line in exporter.log.splitlines() if not line.startswith("ts=")] == []


def test_configuration_that_becomes_invalid(tmp_path: Path, pushing: Callable[..., Exporter]) -> None:
    """A slip in the HTTP configuration of a running exporter keeps no alert from Alertmanager; the log says it once."""
    file = tmp_path / "http.yml"
    file.write_text("basic_auth: {username: me, password: sesame}\n")
    with Peer() as peer, Simulator(TWO) as simulator:
        simulator.set_document([event("FIRST", kind="Preempt", not_before="")])
        exporter = pushing(simulator, peer, "--alertmanager.http-config.file", str(file))
        exporter.wait_for_line('msg="alert pushed"')
        file.write_text("basic_auth: {username: me, pasword: sesame}\n")
        for name in ("SECOND", "THIRD"):
            simulator.set_document([event(name, kind="Preempt", not_before="")])
            eventually(partial(ends, peer, name), "the alert")
        assert peer.requests[-1][1]["Authorization"] == "Basic bWU6c2VzYW1l"
        [line] = exporter.lines("invalid HTTP configuration for Alertmanager, the last valid one stays in effect")
        assert f"{file}:1: basic_auth: 'password' is missing" in line


def test_impossible_date(pushing: Callable[..., Exporter]) -> None:
    """An Alertmanager whose Date no clock can show gets the next alert with the times of this VM's clock."""
    with Peer(headers={"Date": "Fri, 31 Dec 9999 23:59:59 GMT"}) as peer, Simulator(TWO) as simulator:
        exporter = pushing(simulator, peer)
        for name in ("FIRST", "SECOND"):
            simulator.set_document([event(name, kind="Preempt", not_before="")])
            [end, *_] = eventually(partial(ends, peer, name), "the alert")
            assert abs(end - datetime.now(UTC)) < timedelta(days=1)
        assert not exporter.lines("internal error")


@dataclass
class Clock:
    """The clocks of a VM whose wall clock is ``ahead``, and for which so many seconds more have ``passed``."""

    ahead: float
    passed: float = 0.0

    def true(self) -> float:
        """Return the wall-clock time of Alertmanager."""
        return time.time() + self.passed

    def __call__(self) -> Timestamp:
        """Return what the VM's clocks say."""
        return Timestamp(self.true() + self.ahead, time.monotonic() + self.passed, "boot")


@contextmanager
def delivering(peer: Peer, clock: Clock, timeout: float) -> Iterator[AlertPush]:
    """Push to ``peer``, from a VM that can reach IMDS."""
    catalog, client = check(resolve({}, {})), AlertmanagerClient(peer.url, None, timeout)
    pushing = AlertPush([client], catalog, {}, Scrapes(), lambda _: None, clock, logging.getLogger())
    pushing.sees = lambda: True
    (worker,) = pushing.workers
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield pushing
    finally:
        pushing.stop()
        thread.join()


def test_clock_that_is_wrong_before_the_first_answer() -> None:
    """The first alert that reaches Alertmanager has the times of its clock, also if it was away when the event came."""
    clock = Clock(ahead=-3600.0)
    peer = Peer(headers={"Date": formatdate(time.time() - clock.ahead)})  # listens, and does not answer yet
    with delivering(peer, clock, timeout=0.3) as pushing:
        life = Lifecycle(ScheduledEvent("MINE", "Preempt", "Scheduled"), State.SCHEDULED, Scope.SELF, clock())
        pushing.update({"MINE": life}, (), {"MINE"})
        eventually(lambda: not pushing.pushes.up and pushing.pushes.alerts[PushOutcome.ERROR], "a failed attempt")
        with peer:
            eventually(lambda: ends(peer, "MINE"), "the alert")
            pushing.stop()
        assert min(ends(peer, "MINE")) > datetime.now(UTC), "an end in the past would resolve the page of another VM"


def test_answer_without_a_date() -> None:
    """A load balancer that answers without a Date does not make the exporter forget Alertmanager's clock."""
    clock = Clock(ahead=-3600.0)
    headers = {"Date": formatdate(time.time() - clock.ahead)}
    with Peer(headers=headers) as peer, delivering(peer, clock, timeout=10.0) as pushing:
        life = Lifecycle(ScheduledEvent("MINE", "Preempt", "Scheduled"), State.SCHEDULED, Scope.SELF, clock())
        pushing.update({"MINE": life}, (), {"MINE"})
        eventually(lambda: pushing.pushes.alerts[PushOutcome.ACCEPTED], "the alert")
        date, peer.status, clock.passed = headers.pop("Date"), 503, 20.0
        pushing.workers[0].wake()
        eventually(lambda: pushing.pushes.alerts[PushOutcome.ERROR], "an answer of the load balancer")
        headers["Date"], peer.status, count = date, 200, len(ends(peer, "MINE"))
        eventually(partial(posts_more, peer, "MINE", count), "the alert again")
        assert min(ends(peer, "MINE")) > datetime.now(UTC)


def test_clock_that_is_set_right_and_answers_without_a_date() -> None:
    """When the VM's clock is set, alerts have its new time, also if Alertmanager's answers never have a Date."""
    clock = Clock(ahead=-3600.0)
    with Peer() as peer, delivering(peer, clock, timeout=10.0) as pushing:
        eventually(lambda: peer.requests, "an empty post")
        clock.ahead = 0.0
        life = Lifecycle(ScheduledEvent("MINE", "Preempt", "Scheduled"), State.SCHEDULED, Scope.SELF, clock())
        pushing.update({"MINE": life}, (), {"MINE"})
        assert eventually(lambda: ends(peer, "MINE"), "the alert")[-1] > datetime.now(UTC)


def test_event_of_another_alert_while_alertmanager_does_not_answer() -> None:
    """A VM that sees an event start raises the alert of those that saw it announced, once Alertmanager shows that."""
    labels = {
        "alertname": "AzureScheduledEventReboot",
        "event_id": "BOTH",
        "event_type": "Reboot",
        "severity": "critical",
    }
    body = json.dumps([{"labels": labels, "updatedAt": datetime.now(UTC).isoformat()}]).encode()
    clock, headers = Clock(ahead=0.0), {"Date": formatdate()}
    with Peer(503, headers, body) as peer, delivering(peer, clock, timeout=10.0) as pushing:
        both = ScheduledEvent("BOTH", "Reboot", "Started", resources=("vmss_0", "vmss_1"), source="Platform")
        seen = clock()
        life = Lifecycle(both, State.STARTED, Scope.SELF, seen, started_at=seen, own_name="vmss_0")
        pushing.update({"BOTH": life}, (), {"BOTH"})
        eventually(lambda: ends(peer, "BOTH"), "an alert that is not accepted")
        own = labels | {"alertname": "AzureScheduledEventWithoutNotice", "event_status": "Started"}
        assert peer.alerts()[-1]["labels"] == own
        peer.status, count = 200, len(peer.alerts())
        eventually(lambda: pushing.pushes.alerts[PushOutcome.ACCEPTED], "an alert that is accepted")
        assert all(each["labels"] == labels for each in peer.alerts()[count:] if is_firing(each))


def test_questions_without_an_answer() -> None:
    """Alerts wait 2 s at most for an Alertmanager that takes posts and hangs on questions."""
    clock = Clock(ahead=0.0)
    with Peer(headers={"Date": formatdate()}) as peer, delivering(peer, clock, timeout=3600.0) as pushing:
        peer.answers_get.clear()
        seen, names = clock(), ("FIRST", "SECOND", "THIRD")
        resources = ("vmss_0", "vmss_1")
        events = [ScheduledEvent(name, "Reboot", "Started", "Platform", resources) for name in names]
        lives = {
            event.event_id: Lifecycle(event, State.STARTED, Scope.SELF, seen, started_at=seen, own_name="vmss_0")
            for event in events
        }
        pushing.update(lives, (), set(lives))
        for name in names:
            eventually(partial(ends, peer, name), "the alert")
        peer.answers_get.set()


def is_firing(alert: dict[str, object]) -> bool:
    """Return whether ``alert`` was posted as firing."""
    return datetime.fromisoformat(str(alert["endsAt"])) > datetime.now(UTC)


def test_clock_that_is_set_right_after_the_end() -> None:
    """An end that is repeated stays in the past by Alertmanager's clock when the VM's, a minute ahead, is set right."""
    clock = Clock(ahead=60.0)
    headers = {"Date": formatdate(time.time() - clock.ahead)}
    with Peer(headers=headers) as peer, delivering(peer, clock, timeout=10.0) as pushing:
        eventually(lambda: peer.requests, "an empty post, whose answer shows that the clock is ahead")
        life = Lifecycle(ScheduledEvent("MINE", "Preempt", "Scheduled"), State.SCHEDULED, Scope.SELF, clock())
        pushing.update({"MINE": life}, (), {"MINE"})
        eventually(lambda: ends(peer, "MINE"), "the alert")
        over = replace(life, outcome=Transition.LOST, ended_at=clock())
        pushing.update({}, (over,), set())
        eventually(lambda: ends(peer, "MINE")[-1].timestamp() < clock.true(), "its end")
        clock.ahead, headers["Date"] = 0.0, formatdate()
        for repeated in range(1, 4):
            count, clock.passed = len(ends(peer, "MINE")), 20.0 * repeated
            pushing.workers[0].wake()
            eventually(partial(posts_more, peer, "MINE", count), "the end again")
            assert ends(peer, "MINE")[-1].timestamp() < clock.true()
