"""Documents on which an exporter is easily wrong, served to a running one: from metrics to page,
JSON and approvals.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from azure_scheduled_events_exporter.simulator import Scenario, Simulator, VirtualMachine
from support.commands import command
from support.paths import ROOT
from support.programs import Exporter, Scrape, fetch

EMPTY = b'{"DocumentIncarnation": 99, "Events": []}'
ADVICE = "9E0C5E56-2B51-4C6E-8A8B-5D0F3C1B7A10"
"""The EventId in the case ``advisory``."""
SECONDS_FROM_NOW = re.compile(rb"\{\{RFC\+(\d+)\}\}")
"""A time in such a document, which is served as a date of RFC 5322."""


def case(name: str) -> bytes:
    """Return a document of tests/data/cases, with its times from now on."""
    text = (ROOT / "tests" / "data" / "cases" / f"{name}.events.json").read_bytes()
    return SECONDS_FROM_NOW.sub(
        lambda found: formatdate(time.time() + int(found[1]), usegmt=True).encode(), text
    )


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """Return a simulator of the VM vm_0 without events."""
    scenario = Scenario("quiet", "Nothing happens.", (VirtualMachine("vm_0"),), ())
    with Simulator(scenario, requests_per_second=1000) as simulator:
        yield simulator


@pytest.fixture
def exporter(start_exporter: Callable[..., Exporter], simulator: Simulator) -> Exporter:
    """Return an exporter of vm_0 that approves what a user requested, with a first answer."""
    exporter = start_exporter(
        simulator.url, "--poll.interval", "200ms", "--approval.policy", "documented"
    )
    exporter.shows("an answer", lambda scrape: scrape.value("up"))
    return exporter


@dataclass(frozen=True)
class Shown:
    """What the exporter shows of a document with one event."""

    scrape: Scrape
    event: dict[str, Any]  # of the JSON
    page: str


def shown_of(document: bytes, exporter: Exporter, simulator: Simulator) -> Shown:
    """Serve ``document``, and return what the exporter shows once it has its event."""
    simulator.serve_body(document)
    exporter.shows("the event", lambda scrape: scrape.series("event_info"))
    [event] = json.loads(fetch(f"{exporter.url}/api/v1/events").body)["events"]
    return Shown(exporter.scrape(), event, fetch(f"{exporter.url}/").body.decode())


def kinds(scrape: Scrape) -> list[str]:
    """Return the kinds of the current events."""
    return [labels["kind"] for labels, _ in scrape.series("event_info")]


def test_advice_is_neither_pending_nor_started(
    exporter: Exporter, simulator: Simulator, tmp_path: Path
) -> None:
    """Advice is shown, is withdrawn at its end, takes no approval, and adds nothing to notice or
    outcome of events.
    """
    shown = shown_of(case("advisory"), exporter, simulator)
    scrape = shown.scrape
    assert kinds(scrape) == ["advisory"]
    assert shown.event["kind"] == "advisory"
    assert scrape.total("pending") == 0
    assert scrape.total("started") == 0
    for absent in (
        "vm_impact_timestamp_seconds",
        "event_not_before_timestamp_seconds",
        "notice_seconds_count",
    ):
        assert scrape.series(absent) == []
    assert "nothing scheduled" in shown.page
    assert "nothing to approve" in shown.event["approval"]
    answer = command(
        "approve",
        "--imds.endpoint",
        simulator.url,
        "--journal.path",
        str(tmp_path / "none"),
        "--yes",
        ADVICE,
    )
    assert answer.returncode == 1
    assert "it is advice" in answer.stdout + answer.stderr
    simulator.serve_body(EMPTY)
    exporter.shows(
        "its end", lambda now: now.series("event_ended_timestamp_seconds", outcome="withdrawn")
    )
    counted = exporter.scrape().transitions(event_type="SpotRebalanceRecommendation", scope="self")
    assert counted == {"detected": 1, "withdrawn": 1}


def test_more_names_than_are_kept(exporter: Exporter, simulator: Simulator) -> None:
    """Of an event with 60,000 names, the JSON has a hundred, this VM's among them, and no line of
    the log has all. All are counted.
    """
    count = 60_000
    others = [f"vm_{number}" for number in range(1, count)]
    names = json.dumps([*others, "vm_0"]).encode()
    document = case("freeze-three-days").replace(b'["vm_0"]', names)
    shown = shown_of(document, exporter, simulator)
    assert shown.scrape.total("event_resources", scope="self") == count
    assert shown.event["resource_count"] == count
    assert len(shown.event["resources"]) == 100
    assert "vm_0" in shown.event["resources"], "this VM, though IMDS names it last"
    longest_line = max(map(len, exporter.log.splitlines()))
    assert longest_line < 5_000, "characters: no line has all names"
