"""What health and metrics say while a poll hangs."""

import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.config.resolution import resolve
from azure_scheduled_events_exporter.config.settings import Config
from azure_scheduled_events_exporter.doctor.api import Api
from azure_scheduled_events_exporter.doctor.exporter import examine
from azure_scheduled_events_exporter.doctor.subject import Subject
from azure_scheduled_events_exporter.imds.rate_limiter import RateLimiter
from azure_scheduled_events_exporter.polling.liveness import HANGING_SECONDS
from azure_scheduled_events_exporter.service.exporter import Exporter
from azure_scheduled_events_exporter.service.routes import routes
from azure_scheduled_events_exporter.simulator import Scenario, Simulator, VirtualMachine
from azure_scheduled_events_exporter.web.status_line import status_line
from support.events.follower import event
from support.events.gate import HeldPolls
from support.events.machine import MachineClock
from support.programs import eventually
from support.servers.http_peer import Peer
from support.servers.serving import Running, serving

TIME_LIMIT = 10.0
"""Seconds that a poll may take by default; it hangs if it is HANGING_SECONDS later than that."""


def posts(alertmanager: Peer) -> int:
    """Return how many times an alert was posted; a post without one is an empty list."""
    return sum(len(body) > len("[]") for _, _, body in list(alertmanager.requests))


def doctor_says(config: Config, url: str) -> dict[str, str]:
    """Return what ``doctor`` finds at ``url``: as ``served``, whether an exporter is there, and as
    ``exporter-polls``, what it advises about its polls.
    """
    findings = {
        finding.check: finding for finding in examine(Subject(config, {}, Api("--exporter", url)))
    }
    return {"served": findings["served"].mark, "exporter-polls": findings["exporter-polls"].hint}


def is_up(running: Running) -> bool:
    """Return whether the metric ``up`` is 1."""
    return b"\nazure_scheduled_events_up 1.0\n" in running.get("/metrics").body


def assert_says_that_a_poll_hangs(running: Running, config: Config, exporter: Exporter) -> None:
    """Probe, metrics, status page, ``doctor`` and the line for systemd say the same."""
    body = running.get("/-/healthy").body
    # By the clock of the test, it is 2023.
    assert re.fullmatch(rb"a poll should have ended at 2023-\S+Z: the poll loop hangs\n", body)
    assert not is_up(running)
    assert b"the poll loop hangs" in running.get("/").body
    said = doctor_says(config, f"http://127.0.0.1:{running.server.port}")
    assert said["served"] == "ok"
    assert said["exporter-polls"].startswith("Find out what it waits for, such as the disk")
    assert "the poll loop hangs" in status_line(exporter.poller.latest())


@pytest.fixture
def gate() -> Iterator[HeldPolls]:
    """An IMDS with an event of the VM vmss_0, whose polls a test can hold."""
    vm = VirtualMachine("vmss_0")
    with (
        Simulator(Scenario("quiet", "Nothing happens.", (vm,), ())) as imds,
        HeldPolls(imds.url) as held,
    ):
        imds.set_document([event("A")])
        yield held


@contextmanager
def started(config: Config, clock: MachineClock) -> Iterator[tuple[Exporter, Running]]:
    """Run an exporter in this process by ``clock``; yield it with its HTTP server."""
    exporter = Exporter(config, logging.getLogger("tests.health"), clock, RateLimiter(1000))
    exporter.start()
    try:
        with serving(routes(exporter.poller.latest, "/metrics", time.time)) as running:
            yield exporter, running
    finally:
        exporter.stop()


def test_a_poll_that_hangs(
    gate: HeldPolls, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A poll that never ends makes an exporter unhealthy, and ``up`` is 0 until it ends.

    A slow poll does none of this.
    """
    caplog.set_level(logging.INFO)
    clock = MachineClock()
    with Peer(body=b"[]") as alertmanager:
        flags = {
            "imds.endpoint": gate.url,
            "instance.name": "vmss_0",
            "journal.path": str(tmp_path),
            "alertmanager.url": alertmanager.url,
        }
        config = resolve(flags, {})
        with started(config, clock) as (exporter, running):
            eventually(lambda: is_up(running), "a first answer")
            eventually(lambda: posts(alertmanager) == 1, "the alert")
            assert running.get("/-/healthy")[:2] == (200, b"alive\n")
            with gate.held():
                clock.wall += TIME_LIMIT + HANGING_SECONDS - 5  # the poll is slow
                assert running.get("/-/healthy").status == 200
                assert is_up(running)
                clock.wall += HANGING_SECONDS
                eventually(lambda: running.get("/-/healthy").status == 503, "a poll that hangs")
                assert_says_that_a_poll_hangs(running, config, exporter)
                eventually(lambda: "the poll loop hangs" in caplog.messages, "a line in the log")
            eventually(lambda: is_up(running), "a poll that ends")
            assert running.get("/-/healthy").status == 200
            eventually(lambda: "the poll loop goes on" in caplog.messages, "its end in the log")
