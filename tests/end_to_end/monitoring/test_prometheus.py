"""The whole main job: a real Prometheus scrapes ``run``, which polls ``simulate``, all as processes of their own."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.programs import COMMAND, PREFIX, Exporter, Program, Prometheus, eventually, fetch

SPEED = 60.0  # a notice of 15 minutes lasts 15 s
SELF = 'scope="self"'
FREEZE = f'{{event_type="Freeze",{SELF}}}'
REBOOT = f'{{event_type="Reboot",{SELF}}}'


class Simulate(Program):
    """``azure-scheduled-events-exporter simulate`` on a free port."""

    def __init__(self, output: Path, *flags: str) -> None:
        super().__init__([COMMAND, "simulate", "--web.listen-address", "127.0.0.1:0", *flags], output)
        self.url = self.wait_for_line(r"--imds\.endpoint (http://127\.0\.0\.1:\d+)\n")[1]

    def post(self, path: str, **content: object) -> None:
        """Use a control endpoint."""
        answer = fetch(f"{self.url}/simulator/{path}", "POST", json.dumps(content).encode())
        assert answer.status == 200, answer.body

    def happened(self, what: str, event_type: str) -> dict[str, Any] | None:
        """Return the record of something that truly happened, None if it did not yet."""
        record = json.loads(fetch(f"{self.url}/simulator/record").body)["record"]
        found = [each for each in record if each["what"] == what and each["event_type"] == event_type]
        return found[-1] if found else None

    def incarnation(self) -> int:
        """Return the incarnation of the document that it serves now."""
        url = f"{self.url}/metadata/scheduledevents?api-version=2020-07-01"
        return int(json.loads(fetch(url, Metadata="true").body)["DocumentIncarnation"])


@pytest.fixture
def simulate(tmp_path: Path) -> Iterator[Simulate]:
    """A simulator as the README starts one; its speed is raised later."""
    with Simulate(tmp_path / "simulate.log", "--scenario", "live-migration", "--speed", "1") as running:
        yield running


def test_live_migration_and_host_failure(
    simulate: Simulate,
    start_exporter: Callable[..., Exporter],
    start_prometheus: Callable[..., Prometheus],
) -> None:
    """Prometheus sees a live migration and then a host failure as they truly happen, from announcement to end."""
    exporter = start_exporter(simulate.url, "--poll.interval", "300ms")
    prometheus = start_prometheus(f"127.0.0.1:{exporter.port}", interval="1s")

    def ask(expression: str) -> float | None:
        return prometheus.one(f"{PREFIX}{expression}")

    def becomes(expression: str, value: float) -> None:
        eventually(lambda: ask(expression) == value, f"{expression} = {value}")

    def same_document() -> None:
        eventually(lambda: ask("document_incarnation") == simulate.incarnation(), "the incarnation that IMDS serves")

    becomes("up", 1)
    # Every series that a rule could ask for exists before anything happens.
    for series in (f"pending{FREEZE}", f"started{FREEZE}", f"started{REBOOT}"):
        assert ask(series) == 0
    for transition in ("detected", "started", "completed", "cancelled", "lost"):
        labels = f'{{event_type="Freeze",event_source="Platform",{SELF},transition="{transition}"}}'
        assert ask(f"transitions_total{labels}") == 0
    assert prometheus.query(f"{PREFIX}event_info") == {}

    simulate.post("play", scenario=["live-migration", "host-failure"], speed=SPEED)
    becomes(f"pending{FREEZE}", 1)
    announced = simulate.happened("announced", "Freeze")
    assert announced
    countdown = f"{PREFIX}event_seconds_until_not_before{FREEZE}"
    left = prometheus.one(countdown)
    # NotBefore goes over the wire in whole seconds.
    assert prometheus.one(f"timestamp({countdown}) + {countdown}") == pytest.approx(announced["not_before"], abs=1.5)
    assert left is not None
    assert 0 < left < 20
    same_document()
    event_id = announced["event_id"].upper()
    info = f'event_info{{event_id="{event_id}",event_status="Scheduled",{SELF},resources="vmss_0,vmss_1"}}'
    assert ask(info) == 1
    becomes(f"started{FREEZE}", 1)
    assert ask(f"pending{FREEZE}") == 0
    same_document()
    eventually(lambda: ask(f"event_seconds_until_not_before{FREEZE}") is None, "the end of the countdown")

    becomes(f"started{REBOOT}", 1)
    assert ask(f"started{FREEZE}") == 0
    same_document()
    becomes(f"started{REBOOT}", 0)
    assert simulate.happened("completed", "Reboot")
    ended = f'transitions_total{{event_type="Reboot",event_source="Platform",{SELF},transition="completed"}}'
    becomes(ended, 1)

    assert transitions(prometheus, "Freeze") == {"detected": 1, "started": 1, "completed": 1}
    assert transitions(prometheus, "Reboot") == {"detected": 1, "started": 1, "completed": 1}
    # As rules look back: each counter was seen at 0 and at 1, and the host failure was never announced.
    since = f"[{int(time.time() - announced['at']) + 30}s]"
    for event_type in ("Freeze", "Reboot"):
        started = f'{PREFIX}transitions_total{{event_type="{event_type}",{SELF},event_source="Platform",transition='
        assert prometheus.one(f'min_over_time({started}"started"}}{since})') == 0
        assert prometheus.one(f'max_over_time({started}"started"}}{since})') == 1
    assert prometheus.one(f"max_over_time({PREFIX}pending{REBOOT}{since})") == 0
    assert prometheus.query(f"max_over_time({PREFIX}event_not_before_timestamp_seconds{REBOOT}{since})") == {}
    assert prometheus.one(f"max_over_time({PREFIX}event_duration_seconds{FREEZE}{since})") == 5
    assert prometheus.one(f"min_over_time({PREFIX}up{since})") == 1
    # A scrape has a second, which a busy machine may exceed now and then.
    assert (prometheus.one(f"avg_over_time(up{since})") or 0.0) > 0.5
    assert prometheus.query(f"{PREFIX}event_info") == {}
    assert exporter.terminate() == 0


def transitions(prometheus: Prometheus, event_type: str) -> dict[str, float]:
    """Return what Prometheus has counted for this VM, without what is 0."""
    expression = f'sum by (transition) ({PREFIX}transitions_total{{event_type="{event_type}",scope="self"}}) > 0'
    return {labels.removeprefix("transition="): value for labels, value in prometheus.query(expression).items()}
