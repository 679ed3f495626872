"""What the exporter posts, with which times, to an Alertmanager that fails or is slow."""

import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest

from azure_scheduled_events_exporter.alertmanager.alert import EventAlert
from azure_scheduled_events_exporter.alertmanager.client import AlertmanagerClient
from azure_scheduled_events_exporter.alertmanager.outbox import Wanted
from azure_scheduled_events_exporter.alertmanager.push import Worker
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.simulator import (
    PlannedEvent,
    Scenario,
    Simulator,
    VirtualMachine,
)
from azure_scheduled_events_exporter.snapshot.pushes import PushOutcome
from support.events.follower import event
from support.programs import Exporter, eventually
from support.servers.certificates import Authority
from support.servers.http_peer import Peer

HOLD = 1800.0
"""Seconds for which the alerts here go on after their event was last seen."""


@dataclass
class Vm:
    """A VM, whose IMDS has a clock an hour ahead of this machine's.

    Attributes:
        passed: seconds to add to all clocks.
        alerts: the alerts of its current events.
        sees: whether IMDS answers.
    """

    passed: float = 0.0
    alerts: list[EventAlert] = field(default_factory=list)
    sees: bool = True

    def clock(self) -> Timestamp:
        """Return the time by the clock of IMDS, as the exporter keeps it."""
        return Timestamp(self.imds_time(), time.monotonic() + self.passed, "boot")

    def imds_time(self) -> float:
        """Return what the clock of IMDS says, in seconds since the epoch."""
        return time.time() + 3600.0 + self.passed

    def announce(self, name: str) -> None:
        """Let an event raise an alert."""
        labels = {"alertname": "Preempt", "event_id": name, "severity": "warning"}
        self.alerts.append(EventAlert(labels, {}, self.clock(), HOLD))

    def look(self) -> Wanted | None:
        """Return what is required of Alertmanager."""
        return Wanted(list(self.alerts)) if self.sees else None


@contextmanager
def delivering(vm: Vm, url: str, timeout: float = 10.0) -> Iterator[Worker]:
    """Deliver the alerts of ``vm``."""
    worker = Worker(AlertmanagerClient(url, None, timeout), vm.look, vm.clock, logging.getLogger())
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join()


def posted_ends(peer: Peer, event_id: str) -> list[float]:
    """Return the ``endsAt`` of each post of the alert of ``event_id``, in the order of the posts;
    in seconds since the epoch.
    """
    alerts = [cast("dict[str, Any]", alert) for alert in peer.alerts()]
    return [
        datetime.fromisoformat(alert["endsAt"]).timestamp()
        for alert in alerts
        if alert["labels"]["event_id"] == event_id
    ]


def empty_posts(peer: Peer) -> int:
    """Return how many posts had no alert: an exporter that has nothing to say asks in this way
    whether Alertmanager answers, every five minutes at most.
    """
    return [body for _, _, body in peer.requests].count(b"[]")


def test_times() -> None:
    """An alert has the times of IMDS' clock while it fires, and after its end a resolve that is in
    the past.
    """
    vm = Vm()
    with Peer() as peer, delivering(vm, peer.url) as worker:
        vm.announce("MINE")
        worker.wake()
        (end,) = eventually(lambda: posted_ends(peer, "MINE"), "the alert")
        assert abs(end - (vm.imds_time() + HOLD)) < 60, "not by this machine's clock"
        vm.alerts.clear()
        worker.deliver()
        assert len(posted_ends(peer, "MINE")) == 1, "nothing is posted when the event ends"
        vm.passed = 181.0  # the resolve is due after three minutes
        worker.wake()
        eventually(lambda: len(posted_ends(peer, "MINE")) > 1, "the resolve")
        _, resolved = posted_ends(peer, "MINE")
        assert vm.imds_time() - 20 < resolved <= vm.imds_time(), "just now"
        # A post is counted when its answer has come, which the end of the worker would cut off.
        eventually(lambda: worker.counts[PushOutcome.ACCEPTED] == 2, "the alert and the resolve")


def test_without_imds() -> None:
    """An exporter that IMDS does not answer posts no alert, and ends none."""
    vm = Vm()
    with Peer() as peer, delivering(vm, peer.url) as worker:
        vm.announce("FIRST")
        worker.wake()
        eventually(lambda: posted_ends(peer, "FIRST"), "the alert")
        vm.sees = False
        vm.passed = 400.0  # an empty post is due
        worker.wake()
        eventually(lambda: empty_posts(peer) == 1, "an empty post")
        # By now, a resolve would be due, if the event had counted as over at the first empty post.
        vm.passed = 800.0
        worker.wake()
        eventually(lambda: empty_posts(peer) == 2, "another one")
        assert len(posted_ends(peer, "FIRST")) == 1, "neither posted again nor ended"
        vm.sees = True
        worker.wake()
        eventually(lambda: len(posted_ends(peer, "FIRST")) > 1, "the alert again")
        assert posted_ends(peer, "FIRST")[-1] > vm.imds_time(), "it fires"


def test_a_failure_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """An alert that Alertmanager refused is posted again although nothing new happens, and the log
    has the failure and its end.
    """
    vm = Vm()
    vm.announce("MINE")
    with (
        caplog.at_level(logging.INFO),
        Peer(503) as peer,
        delivering(vm, peer.url) as worker,
    ):
        eventually(lambda: worker.counts[PushOutcome.ERROR], "a failure")
        peer.status = 200
        eventually(lambda: worker.up, "the next try")
        assert len(posted_ends(peer, "MINE")) > 1
    assert "alerts cannot be pushed to Alertmanager; retrying" in caplog.messages
    assert "Alertmanager accepts alerts again" in caplog.messages


def test_nothing_is_delayed(tmp_path: Path) -> None:
    """If one Alertmanager hangs and one refuses, polls continue, another one is notified, and
    shutdown is quick.
    """
    preempt = PlannedEvent("Preempt", ("vm_0",), announced_at=0, notice=600)
    scenario = Scenario("page", "", (VirtualMachine("vm_0"),), (preempt,))
    with (
        socket.create_server(("127.0.0.1", 0)) as hanging,
        Peer(400) as refusing,
        Peer() as healthy,
        Simulator(scenario) as simulator,
    ):
        _, port = hanging.getsockname()
        urls = ",".join([f"http://127.0.0.1:{port}", refusing.url, healthy.url])
        journal = str(tmp_path / "journal")
        flags = ("--alertmanager.url", urls, "--poll.interval", "200ms", "--journal.path", journal)
        with Exporter(simulator.url, tmp_path / "exporter.log", *flags) as exporter:
            eventually(healthy.alerts, "the alert has come")
            rejected = {"outcome": "rejected"}
            exporter.shows(
                "the refusal", lambda now: now.value("alertmanager_alerts_total", **rejected)
            )
            before = exporter.scrape().value("polls_total", outcome="ok") or 0
            exporter.shows(
                "ten polls", lambda now: (now.value("polls_total", outcome="ok") or 0) > before + 10
            )
            # It is 1 only if each Alertmanager has accepted the last push.
            assert exporter.scrape().value("alertmanager_up") == 0
            began = time.monotonic()
            assert exporter.terminate() == 0
            assert time.monotonic() - began < 5, "less than a post to the hanging one may take"


def test_certificate_that_is_not_verified(tmp_path: Path, simulator: Simulator) -> None:
    """With insecure_skip_verify, alerts are pushed, and every line of the log is one of the
    exporter's own.
    """
    (tmp_path / "http.yml").write_text("tls_config: {insecure_skip_verify: true}\n")
    simulator.set_document([event("MINE", vm="vm_0")])
    with Peer(pair=Authority(tmp_path).server()) as peer:
        flags = (
            "--alertmanager.url",
            peer.url,
            "--alertmanager.http-config.file",
            str(tmp_path / "http.yml"),
        )
        with Exporter(simulator.url, tmp_path / "exporter.log", *flags) as exporter:
            exporter.wait_for_line('msg="alert pushed"')
            assert exporter.terminate() == 0
            assert [line for line in exporter.log.splitlines() if not line.startswith("ts=")] == []
