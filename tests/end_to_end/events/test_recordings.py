"""What the metadata service sent is kept, written to a file, redacted and played again."""

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from azure_scheduled_events_exporter.simulator import Scenario, Simulator, load, shipped
from support.paths import PAYLOADS
from support.programs import COMMAND, Exporter, environment, eventually, fetch

FAST = ("--poll.interval", "100ms")
LENGTH = 12.0  # seconds that a scenario takes here
Start = Callable[..., Exporter]
Told = list[tuple[str, ...]]
BODIES = [path.read_bytes() for path in sorted(PAYLOADS.glob("*.json")) if not path.name.startswith(("error", "inst"))]
EMPTY = b'{"DocumentIncarnation": 999, "Events": []}'


def history(journal: Path, *flags: str) -> str:
    """Return what ``history`` prints about the journal."""
    command = [COMMAND, "history", "--journal.path", str(journal), *flags]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=True).stdout


def told(exporter: Exporter) -> Told:
    """Return the transitions that the exporter has counted: type, source, scope, transition."""
    counted = exporter.scrape().series("transitions_total")
    names = ("event_type", "event_source", "scope", "transition")
    return sorted(tuple(labels[name] for name in names) for labels, value in counted for _ in range(int(value)))


def event_ids(exporter: Exporter) -> set[str]:
    """Return the EventIds that the exporter has seen end."""
    return {life["event_id"] for life in json.loads(fetch(f"{exporter.url}/api/v1/events").body)["history"]}


def pace(scenario: Scenario) -> float:
    """Return the speed at which ``scenario`` takes LENGTH seconds."""
    ends = (event.cancelled_at or event.not_before + event.started_for for event in scenario.events)
    return min(10_000.0, max(1.0, max(ends) / LENGTH))


def replayed(start: Start, recordings: Sequence[Path], lengths: Sequence[Told]) -> list[Told]:
    """Play the recordings side by side; return the transitions of each once there are as many as in the original."""
    simulators = [Simulator(load(path), requests_per_second=1000) for path in recordings]
    try:
        for simulator in simulators:
            simulator.start()
        exporters = [start(simulator.url, *FAST) for simulator in simulators]
        for exporter, expected in zip(exporters, lengths, strict=True):
            eventually(lambda one=exporter, all_=expected: len(told(one)) >= len(all_), f"{expected}", 60)  # type: ignore[misc]  # bound now
        return [told(exporter) for exporter in exporters]
    finally:
        for simulator in simulators:
            simulator.stop()


def test_recordings_of_all_scenarios(start_exporter: Start, tmp_path: Path) -> None:
    """Recordings of all scenarios, and their redactions, give the transitions of the originals and hide their names."""
    scenarios = shipped()
    simulators = [Simulator(replace(each, events=(), faults=()), requests_per_second=1000) for each in scenarios]
    journals = [tmp_path / each.name for each in scenarios]
    for simulator in simulators:
        simulator.start()
    try:
        exporters = [
            start_exporter(simulator.url, *FAST, "--journal.path", str(journal))
            for simulator, journal in zip(simulators, journals, strict=True)
        ]
        for simulator, scenario in zip(simulators, scenarios, strict=True):
            simulator.play(scenario, pace(scenario))
        for exporter in exporters:
            exporter.shows("an event", lambda scrape: scrape.transitions())
            exporter.shows("the end of all events", lambda scrape: not scrape.series("event_info"))
        originals = [told(exporter) for exporter in exporters]
        secret = [{*event_ids(one), *simulator.vms} for one, simulator in zip(exporters, simulators, strict=True)]
    finally:
        for simulator in simulators:
            simulator.stop()
    plain = [journal.with_suffix(".json") for journal in journals]
    redacted = [journal.with_suffix(".redacted.json") for journal in journals]
    for journal, one, other, words in zip(journals, plain, redacted, secret, strict=True):
        history(journal, "--record", str(one))
        history(journal, "--record", str(other), "--redact")
        assert all(word in one.read_text() for word in words if "-" in word)
        assert [word for word in words if word.lower() in other.read_text().lower()] == []
    assert replayed(start_exporter, [*plain, *redacted], originals * 2) == originals * 2


def test_recording_of_all_payloads(start_exporter: Start, tmp_path: Path) -> None:
    """A recording of all known bodies has each as it came, and replays to the same transitions and EventIds."""
    journal, recording = tmp_path / "state", tmp_path / "payloads.json"
    with Simulator(requests_per_second=1000) as simulator:
        simulator.serve_body(EMPTY)
        exporter = start_exporter(simulator.url, *FAST, "--journal.path", str(journal), "--instance.name", "WestNO_0")
        for body in BODIES:
            for served in (body, EMPTY):
                changes = exporter.scrape().total("polls_total")
                simulator.serve_body(served)
                exporter.shows("two more polls", lambda scrape, n=changes: scrape.total("polls_total") > n + 1)  # type: ignore[misc]  # bound now
        original, ids = told(exporter), event_ids(exporter)
    exporter.terminate()
    history(journal, "--record", str(recording))
    kept = [each["body"].encode() for each in json.loads(recording.read_text())["documents"]]
    assert [body for body in BODIES if body not in kept] == []
    with Simulator(load(recording), requests_per_second=1000) as simulator:
        again = start_exporter(simulator.url, *FAST, "--instance.name", "WestNO_0")
        eventually(lambda: len(told(again)) >= len(original), f"{len(original)} transitions")
        assert told(again) == original
        assert event_ids(again) == ids


def test_documents_are_listed_and_shown(start_exporter: Start, tmp_path: Path) -> None:
    """The list has a row for each document, also for one that was refused; a number prints it as it came."""
    with Simulator() as simulator:
        simulator.serve_body(BODIES[0])
        exporter = start_exporter(simulator.url, *FAST, "--journal.path", str(tmp_path))
        exporter.shows("a document", lambda scrape: scrape.value("up"))
        simulator.serve_body(b"<html>moved</html>")
        exporter.shows("a refusal", lambda scrape: scrape.value("polls_total", outcome="invalid_document"))
        eventually(lambda: history(tmp_path, "--documents").count("\n") == 3, "two documents")
    assert "Freeze Started" in history(tmp_path, "--documents")
    assert history(tmp_path, "--documents", "2") == "<html>moved</html>\n"
