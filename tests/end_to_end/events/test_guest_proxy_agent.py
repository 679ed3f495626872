"""The life of Azure's Guest Proxy Agent beside a running exporter, ``hook`` and ``approve``."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path

from azure_scheduled_events_exporter.simulator import Simulator
from support.events.approve_command import approve, approved
from support.events.imds_bodies import entry
from support.events.journal_contents import rows, vm
from support.programs import COMMAND, Exporter, Program, environment, eventually, fetch

AGENT = "Azure's Guest Proxy Agent"
NEEDED = "allow /metadata/scheduledevents for user"
NOTICE = 900


@dataclass
class Machine:
    """A VM with an exporter and a hook, and the events that it has by now, oldest first."""

    simulator: Simulator
    exporter: Exporter
    hook: Program
    state: Path
    script_runs: Path
    """A line for each run of the hook's script: the phase and the EventId."""

    events: list[dict[str, object]] = field(default_factory=list)

    def announce(self, event_id: str) -> None:
        """Announce one more event."""
        not_before = formatdate(time.time() + NOTICE, usegmt=True)
        self.events.append(entry(EventId=event_id, Resources=["vmss_0"], NotBefore=not_before))
        self.simulator.set_document(self.events)

    def assert_prepared(self) -> None:
        """The exporter shows all events, and the hook has prepared once for each."""
        self.exporter.shows("events", lambda now: now.total("event_info") == len(self.events))
        ids = [event["EventId"] for event in self.events]
        eventually(lambda: self.runs("prepare") == ids, f"preparations for {ids}")
        assert self.hook.process.poll() is None

    def assert_prepared_and_approve(self, event_id: str) -> None:
        """The exporter shows all events, the hook has prepared once for each, and ``approve``
        succeeds for this one.
        """
        self.assert_prepared()
        done = approve(self.simulator.url, self.state, event_id, "--yes")
        assert done.returncode == 0, done

    def runs(self, phase: str) -> list[str]:
        """Return the EventId of each run of the hook's script in this phase."""
        lines = self.script_runs.read_text().splitlines() if self.script_runs.exists() else []
        return [line.split()[1] for line in lines if line.startswith(phase)]

    def failures(self) -> float:
        """Return how many polls of the exporter have been refused."""
        return self.exporter.scrape().value("polls_total", outcome="http_error") or 0.0

    def failure(self) -> str:
        """Return why the exporter's last poll failed, as its JSON says it."""
        return str(json.loads(fetch(f"{self.exporter.url}/api/v1/events").body)["failure"])


def test_off_audit_enforced_allowed_and_off_again(
    tmp_path: Path, start_exporter: Callable[..., Exporter]
) -> None:
    """The agent is off, then only records what it would refuse (audit), then refuses. Then a rule
    allows the exporter's user, and at last the agent is off again.

    While it refuses, exporter, hook and ``approve`` say so from the first poll on, with what to
    allow. No event ends, and none is missed: with the rule, the next poll succeeds. Each event is
    prepared for and approved once, and the journal has its whole life.
    """
    state = tmp_path / "state"
    script_runs = tmp_path / "script_runs"
    script = tmp_path / "script.sh"
    script.write_text(f'#!/bin/sh\necho "$1 $EVENT_ID" >>{script_runs}\n')
    script.chmod(0o755)
    with Simulator(vm(), requests_per_second=1000) as simulator:
        often = ("--poll.interval", "250ms")
        flags = ("--journal.path", str(state), *often)
        exporter = start_exporter(simulator.url, *flags)
        arguments = [COMMAND, "hook", "--imds.endpoint", simulator.url, *flags, "--", str(script)]
        with Program(arguments, tmp_path / "hook.log", **environment()) as hook:
            machine = Machine(simulator, exporter, hook, state, script_runs)
            machine.announce("OFF")
            machine.assert_prepared_and_approve("OFF")
            simulator.inject("agent-audit")
            machine.announce("AUDIT")
            machine.assert_prepared_and_approve("AUDIT")
            machine.announce("REFUSED")  # its approval will be refused
            machine.assert_prepared()
            assert machine.failures() == 0
            _enforced(machine)
            _allowed(machine)
            simulator.heal()
            machine.announce("OFF-AGAIN")
            failures = machine.failures()
            machine.assert_prepared_and_approve("OFF-AGAIN")
            assert machine.failures() == failures
            _all_end(machine)


def _enforced(machine: Machine) -> None:
    """The agent refuses without a rule; exporter, hook and approve say so, and keep the events."""
    # First IMDS itself refuses: it accepts only what the agent has signed, and the agent does not
    # see what comes over connections from before it was on.
    machine.simulator.inject("agent-401")
    eventually(machine.failures, "a poll that is refused")
    assert f"answered 401: IMDS accepts only requests that {AGENT}" in machine.failure()
    machine.hook.wait_for_line(f"answered 401.*{AGENT}.*no rule helps")
    # Then the agent refuses, as no rule allows the user.
    machine.simulator.inject("agent-403")
    machine.announce("UNSEEN")
    machine.exporter.wait_for_line(f"new cause.*answered 403.*{AGENT}.*{NEEDED}")
    machine.hook.wait_for_line(f"new cause.*answered 403.*{AGENT}.*{NEEDED}")
    for program in (machine.exporter, machine.hook):
        refused = program.lines("IMDS poll")
        assert len(refused) == 2, "one line for 401, and one for 403"
        assert all(AGENT in line for line in refused)
        assert [NEEDED in line for line in refused] == [False, True], "a rule helps with 403 only"
    soon = ("--imds.timeout", "1s")
    done = approve(machine.simulator.url, machine.state, "REFUSED", "--yes", *soon)
    assert done.returncode == 1, done
    assert AGENT in done.stdout + done.stderr
    scrape = machine.exporter.scrape()
    assert scrape.value("up") == 0
    known = len(machine.events) - 1  # all but UNSEEN
    assert scrape.total("event_info") == known
    assert machine.runs("recover") == []


def _allowed(machine: Machine) -> None:
    """With the rule, the next poll succeeds, and shows what was announced meanwhile."""
    # An agent that allows a request answers it as one that only records does.
    machine.simulator.inject("agent-audit")
    failures = machine.failures()
    machine.exporter.shows("a poll", lambda scrape: scrape.value("up") == 1)
    assert machine.failures() <= failures + 1, "at most the poll that was on its way"
    for program in (machine.exporter, machine.hook):
        program.wait_for_line("IMDS answers again")
    machine.assert_prepared_and_approve("UNSEEN")
    machine.assert_prepared_and_approve("REFUSED")
    machine.announce("WITH-RULE")
    machine.assert_prepared_and_approve("WITH-RULE")


def _all_end(machine: Machine) -> None:
    """All events start and end; the journal has every step once, and the hook has recovered."""
    ids = [str(event["EventId"]) for event in machine.events]
    assert approved(machine.simulator) == [("Reboot", "vmss_0")] * len(ids)
    started = [{**each, "EventStatus": "Started", "NotBefore": ""} for each in machine.events]
    machine.simulator.set_document(started)
    machine.exporter.shows("starts", lambda now: now.total("started") == len(ids))
    machine.simulator.set_document([])
    machine.exporter.shows("ends", lambda now: now.total("event_info") == 0)
    eventually(lambda: machine.runs("recover"), "the recovery")
    steps = ("detected", "approved", "started", "completed")
    assert sorted(rows(machine.state)) == sorted((each, step) for each in ids for step in steps)
    assert machine.runs("prepare") == ids
