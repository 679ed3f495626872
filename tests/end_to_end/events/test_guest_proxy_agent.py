"""The life of Azure's Guest Proxy Agent beside a running exporter, ``hook`` and ``approve``."""

from collections.abc import Callable
from pathlib import Path

from azure_scheduled_events_exporter.simulator import Simulator
from support.events.approve_command import (
    a_second_later,
    approve,
    approved,
    event_ids,
    group,
    start,
)
from support.programs import COMMAND, Exporter, Program, Scrape, environment

AGENT = "Azure's Guest Proxy Agent"
NEEDED = "allow /metadata/scheduledevents and /metadata/instance for user"


def failures(scrape: Scrape) -> float:
    """Return how many polls got an answer that refuses them."""
    return scrape.value("polls_total", outcome="http_error") or 0.0


def test_turned_on_enforced_allowed_and_off(
    tmp_path: Path, start_exporter: Callable[..., Exporter]
) -> None:
    """While the agent refuses, all say so, with what to allow; no event ends, and nothing is lost.

    With the rule, the next poll succeeds, the approval is accepted, and the hook has run once.
    """
    state = tmp_path / "state"
    ran = tmp_path / "ran"
    script = tmp_path / "script.sh"
    script.write_text(f'#!/bin/sh\necho "$1 $EVENT_TYPE" >>{ran}\n')
    script.chmod(0o755)
    with Simulator(group()) as simulator:
        exporter = start(start_exporter, simulator.url, state, "--poll.interval", "1s")
        reboot = event_ids(simulator)["Reboot"]
        flags = ("--imds.endpoint", simulator.url, "--journal.path", str(state))
        arguments = [COMMAND, "hook", *flags, "--poll.interval", "1s", "--", str(script)]
        with Program(arguments, tmp_path / "hook.log", **environment()) as hook:
            exporter.shows("the hook's run", lambda _: ran.exists())
            _enforced(simulator, exporter, hook, state, reboot)
            simulator.heal()  # the rule is there
            before = failures(exporter.scrape())
            exporter.shows("a poll", lambda scrape: scrape.value("up") == 1)
            assert failures(exporter.scrape()) <= before + 1
            exporter.wait_for_line("IMDS answers again")
            a_second_later(simulator)
            done = approve(simulator.url, state, reboot, "--yes")
            assert done.returncode == 0, done
            assert approved(simulator) == [("Reboot", "vmss_0")]
            assert hook.process.poll() is None
        scrape = exporter.scrape()
        assert scrape.total("event_info") == 3
        ended = ("completed", "cancelled", "lost", "withdrawn", "returned")
        assert [scrape.total("transitions_total", transition=each) for each in ended] == [0] * 5
        assert ran.read_text().split("\n").count("prepare Reboot") == 1


def _enforced(
    simulator: Simulator, exporter: Exporter, hook: Program, state: Path, event_id: str
) -> None:
    """Turn the agent on without a rule, and read what exporter, hook and approve say."""
    # IMDS accepts signed requests only, so what comes over older connections is refused.
    simulator.inject("agent-401")
    exporter.wait_for_line(f"IMDS poll .*answered 401.*{AGENT}.*{NEEDED}")
    assert failures(exporter.scrape()) <= 2
    hook.wait_for_line(f"answered 401.*{AGENT}.*{NEEDED}")
    simulator.heal()
    simulator.inject("agent-403")
    exporter.wait_for_line(f"new cause.*answered 403.*{AGENT}.*{NEEDED}")
    done = approve(simulator.url, state, event_id, "--yes")
    assert done.returncode == 1
    assert AGENT in done.stdout + done.stderr
    scrape = exporter.scrape()
    assert scrape.value("up") == 0
    assert scrape.total("event_info") == 3
