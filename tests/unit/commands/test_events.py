"""The command ``events``: the table, JSON, and what it reports while IMDS fails."""

import json
import time
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.simulator import Simulator
from support.commands import EVENT_ID, NAME, assert_one_line, command, place_event
from support.programs import COMMAND, NOBODY, Program


def test_table(simulator: Simulator) -> None:
    """People get a table: who, what, when, whose; if there are no events, a sentence says so."""
    done = command("events", "--imds.endpoint", simulator.url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "No events.\n", "")
    place_event(simulator)
    done = command("events", "--imds.endpoint", simulator.url)
    assert (done.returncode, done.stderr) == (0, "")
    head, row = done.stdout.splitlines()
    assert head.split()[:4] == ["EventId", "Type", "Status", "Source"]
    for word in (
        EVENT_ID,
        "Reboot",
        "Scheduled",
        "Platform",
        "self",
        "vm_0, vm_1",
        "30s",  # how long the impact lasts
        "(in 1",  # NotBefore is 15 minutes ahead, or 14 on a slow machine
        "VirtualMachine",
    ):
        assert word in row


def test_json(simulator: Simulator) -> None:
    """Scripts get JSON."""
    not_before = place_event(simulator)
    done = command("events", "--json", "--imds.endpoint", simulator.vm_url("vm_1"))
    assert (done.returncode, done.stderr) == (0, "")
    content = json.loads(done.stdout)
    assert (content["up"], content["vm_name"]) == (True, "vm_1")
    [event] = content["events"]
    assert event["event_id"] == EVENT_ID
    assert event["scope"] == "self"
    assert event["resources"] == ["vm_0", "vm_1"]
    assert event["seconds_until_not_before"] == pytest.approx(not_before - time.time(), abs=20)


def test_imds_down() -> None:
    """If IMDS cannot be reached, one line reports it, with the commands to try, and the status is
    1, unlike with no events.
    """
    url = f"http://{NOBODY}"
    words = (url, "Connection refused", f"{NAME} doctor", f"{NAME} demo", f"{NAME} simulate")
    assert_one_line(command("events", "--imds.endpoint", url), 1, *words)


def test_imds_hangs(simulator: Simulator, tmp_path: Path) -> None:
    """While no answer comes, the command prints what it waits for and what to try outside Azure."""
    simulator.inject("timeout")
    with Program(
        [COMMAND, "events", "--imds.endpoint", simulator.url], tmp_path / "events.log"
    ) as events:
        assert f"{NAME} demo" in events.wait_for_line(r"waiting up to 130 s for (.*)\n")[1]


def test_unreadable(simulator: Simulator) -> None:
    """What is no document, or is partly unreadable, is reported as such, with status 1, and never
    as no events.
    """
    simulator.serve_body(b"[]")
    done = command("events", "--imds.endpoint", simulator.url)
    words = (
        f"{simulator.url} answered no Scheduled Events document: the JSON is an array instead of an"
        " object"
    )
    assert_one_line(done, 1, words)
    simulator.serve_body(b'{"DocumentIncarnation": 1, "Events": [5]}')
    done = command("events", "--imds.endpoint", simulator.url)
    assert done.returncode == 1
    assert "Events[0]" in done.stderr
    assert "No events" not in done.stdout
