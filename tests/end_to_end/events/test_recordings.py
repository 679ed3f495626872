"""What the metadata service sent is kept, written to a file, redacted and played again."""

import json
import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from azure_scheduled_events_exporter.core.spans import trace_id
from azure_scheduled_events_exporter.simulator import Scenario, Simulator, shipped
from azure_scheduled_events_exporter.simulator.scenario import PLACEMENT_GROUP
from support.monitoring.collector import Collector
from support.paths import PAYLOADS, ROOT
from support.programs import COMMAND, Exporter, environment, eventually
from trials.truth import transitions_in

FAST = ("--poll.interval", "100ms")
QUIET = Scenario("quiet", "Nothing happens yet.", PLACEMENT_GROUP, ())
ENDS = ("completed", "cancelled", "lost", "withdrawn")
LENGTH = 10.0  # seconds that a scenario takes here
Start = Callable[..., Exporter]
Lives = dict[str, tuple[tuple[str, ...], str]]
"""By EventId: the transitions of the event in their order, and its outcome."""
# All but errors and the answers about an instance: documents of events.
BODIES = [
    path.read_bytes()
    for path in sorted(PAYLOADS.glob("*.json"))
    if not path.name.startswith(("error", "inst"))
]
TIMES = (
    "announced_at",
    "notice",
    "started_for",
    "approval_delay",
    "cancelled_at",
    "rescheduled_at",
    "new_notice",
)
"""The fields of a planned event that are seconds."""


def history(journal: Path, *flags: str) -> str:
    """Return what ``history`` prints about the journal."""
    command = [COMMAND, "history", "--journal.path", str(journal), *flags]
    return subprocess.run(
        command, env=environment(), capture_output=True, text=True, check=True
    ).stdout


def lives(journal: Path) -> Lives:
    """Return the transitions of each event in the journal, and its outcome."""
    transitions: dict[str, tuple[str, ...]] = {}
    for event_id, transition in transitions_in(journal):
        transitions[event_id] = (*transitions.get(event_id, ()), transition)
    outcomes = {
        life["event_id"]: str(life["outcome"]) for life in json.loads(history(journal, "--json"))
    }
    return {event_id: (each, outcomes[event_id]) for event_id, each in transitions.items()}


def at_once(scenarios: Sequence[Scenario]) -> Scenario:
    """Return one scenario in which the events of all come side by side, each scenario at the speed
    at which it takes LENGTH.
    """
    events = []
    for scenario in scenarios:
        ends = (
            event.cancelled_at or event.not_before + event.started_for for event in scenario.events
        )
        pace = max(ends) / LENGTH
        for event in scenario.events:
            times = {name: getattr(event, name) for name in TIMES}
            faster = {
                name: seconds / pace for name, seconds in times.items() if seconds is not None
            }
            events.append(replace(event, **faster))
    return Scenario("all", "Every scenario at once.", PLACEMENT_GROUP, tuple(events))


class Run:
    """An exporter with a journal and a collector of its own, at a simulator in which nothing
    happens yet.
    """

    def __init__(self, folder: Path, start: Start, stack: ExitStack) -> None:
        self.journal = folder
        self.collector = stack.enter_context(Collector())
        self.simulator = stack.enter_context(Simulator(QUIET, requests_per_second=1000))
        flags = (
            "--journal.path",
            str(folder),
            "--otlp.endpoint",
            self.collector.url,
            "--tracing.scope",
            "all",
        )
        version_with_advice = ("--imds.api-version", "2024-07-09")
        self.exporter = start(
            self.simulator.url, *FAST, *flags, *version_with_advice, "--instance.name", "vmss_0"
        )
        self.exporter.shows("a poll", lambda scrape: scrape.value("up") == 1)

    def lives_after(self, count: int) -> Lives:
        """Wait until ``count`` events are over and all spans are delivered; return all lives."""
        self.exporter.shows(
            f"{count} ends",
            lambda now: sum(now.transitions().get(end, 0) for end in ENDS) >= count,
        )
        self.exporter.shows(
            "all spans", lambda now: now.value("spans_queued") == 0 and not now.series("event_info")
        )
        return lives(self.journal)

    @property
    def spans(self) -> set[tuple[str, str, str, str]]:
        """Trace id, span id, parent and name of every span that the collector has."""
        return {
            (each.trace_id, each.span_id, each.parent_id, each.name)
            for each in self.collector.spans().values()
        }


def names_of(spans: set[tuple[str, str, str, str]]) -> list[str]:
    """Return the names of spans, sorted."""
    return sorted(name for *_ids, name in spans)


def test_recording_of_all_scenarios(start_exporter: Start, tmp_path: Path) -> None:
    """A recording of all scenarios replays to the same transitions, outcomes and spans, with the
    same trace ids. A redacted recording has none of their names and ids. It replays to the same
    transitions and outcomes, and to spans of the same names.

    The exporter of ``played`` sees the scenarios themselves, that of ``replayed`` the recording,
    and that of ``redacted_replay`` the redacted one.
    """
    plain = tmp_path / "plain.json"
    redacted = tmp_path / "redacted.json"
    scenario = at_once(shipped())
    with ExitStack() as stack:
        played = Run(tmp_path / "played", start_exporter, stack)
        replayed = Run(tmp_path / "replayed", start_exporter, stack)
        redacted_replay = Run(tmp_path / "redacted_replay", start_exporter, stack)
        played.simulator.play(scenario)
        original = played.lives_after(len(scenario.events))
        assert {outcome for _, outcome in original.values()} >= {"completed", "cancelled"}
        history(played.journal, "--record", str(plain))
        history(played.journal, "--record", str(redacted), "--redact")
        assert plain.stat().st_mode & 0o777 == 0o600
        # The keys of ``original`` are the ids of the events.
        plain_text = plain.read_text()
        assert [event_id for event_id in original if event_id not in plain_text] == []
        hidden = [*original, *played.simulator.vms, "127.0.0.1"]
        redacted_text = redacted.read_text().lower()
        assert [word for word in hidden if word.lower() in redacted_text] == []
        replayed.simulator.play(plain)
        redacted_replay.simulator.play(redacted)
        assert replayed.lives_after(len(original)) == original
        lives_without_ids = redacted_replay.lives_after(len(original)).values()
        assert sorted(lives_without_ids) == sorted(original.values())
        assert {trace for trace, *_ in played.spans} == {
            trace_id(event_id) for event_id in original
        }
        assert replayed.spans == played.spans
        assert names_of(redacted_replay.spans) == names_of(played.spans)


def test_documents_are_listed_and_shown(start_exporter: Start, tmp_path: Path) -> None:
    """The list has a row for each document, also for one that was refused. A number prints its
    document as it came, and a number that no document has is an error.
    """
    with Simulator() as simulator:
        simulator.serve_body(BODIES[0])
        exporter = start_exporter(simulator.url, *FAST, "--journal.path", str(tmp_path))
        exporter.shows("a document", lambda scrape: scrape.value("up"))
        simulator.serve_body(b"moved to another host")
        exporter.shows(
            "a refusal", lambda scrape: scrape.value("polls_total", outcome="invalid_document")
        )
        eventually(
            lambda: history(tmp_path, "--documents").count("\n") == 3,
            "two documents below the head of the table",
        )
    listed = history(tmp_path, "--documents")
    assert "Freeze Started" in listed, "what BODIES[0] shows"
    *_, last_row = listed.splitlines()
    *_, size, refusal = last_row.split("  ")  # the columns Bytes and Refused
    end_of_row = f"{size}  {refusal}".strip()
    documented = (ROOT / "docs" / "recordings.md").read_text()
    assert end_of_row in documented, "the example of the page refuses the same body"
    assert history(tmp_path, "--documents", "2") == "moved to another host\n"
    command = [COMMAND, "history", "--journal.path", str(tmp_path), "--documents", "1" * 5000]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    # Of a number as long as that, the error repeats the first 100 digits.
    said = (
        f"azure-scheduled-events-exporter: the journal has no document {'1' * 100}: 'history"
        " --documents' lists them\n"
    )
    assert (done.returncode, done.stderr) == (1, said)
