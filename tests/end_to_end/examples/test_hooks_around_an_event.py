"""A unit of deploy/examples, and the drains of docs/approve.md and docs/follow.md, around an
event of the simulator.
"""

import os
import re
import signal
import subprocess
from collections.abc import Callable

import pytest

from azure_scheduled_events_exporter.simulator import (
    Scenario,
    Simulator,
)
from support.events.gate import Gate, Treatment, Way
from support.events.hook_stage import (
    EXAMPLES,
    INSTALLED,
    LIBRARY,
    ONE_REBOOT,
    VMS,
    Stage,
    approved,
    unit_environment,
)
from support.paths import ROOT
from support.programs import COMMAND, PATIENCE, Exporter, Program, eventually

PAGE = "".join((ROOT / "docs" / page).read_text() for page in ("approve.md", "follow.md"))
FAST = ("--poll.interval", "250ms")


def test_a_unit_around_an_event(stage: Stage, start_exporter: Callable[..., Exporter]) -> None:
    """The command of a unit runs its script, which drains the node; it approves the event when the
    drain has ended and not before. After the event, the script makes the node schedulable again.
    """
    with Simulator(Scenario("quiet", "", VMS, ()), requests_per_second=20) as simulator:
        exporter = start_exporter(simulator.url, *FAST, "--journal.path", str(stage.journal))
        exporter.shows("IMDS", lambda scrape: scrape.value("up"))
        stage.hold_calls()
        text = (EXAMPLES / "kubectl-drain.service").read_text()
        (command,) = re.findall("^ExecStart=(.*)$", text, re.MULTILINE)
        started = command.replace(LIBRARY, str(EXAMPLES)).replace(INSTALLED, COMMAND).split()
        env = {**stage.environment, **unit_environment("kubectl-drain"), "NODE": "n"}
        with Program(
            started,
            stage.folder / "hook.log",
            **env,
            AZURE_SCHEDULED_EVENTS_IMDS_ENDPOINT=simulator.url,
        ):
            simulator.play(ONE_REBOOT)
            eventually(lambda: stage.calls, "the drain")
            # An approval that does not wait for the drain would come within a few polls.
            polls = exporter.scrape().total("polls_total")
            exporter.shows("more polls", lambda scrape: scrape.total("polls_total") > polls + 4)
            assert not approved(simulator), "the drain has not ended"
            # The hook asks whether it drained this node, by an annotation that it has set itself.
            stage.answers({"kubectl get*annotations*": (0, "true")})
            stage.release_calls()
            eventually(lambda: approved(simulator) == ["Reboot"], "the approval")
            eventually(
                lambda: "kubectl uncordon n --request-timeout=30s" in stage.calls, "the recovery"
            )
        whole = {"detected": 1, "approved": 1, "started": 1, "completed": 1}
        exporter.shows("the whole event", lambda scrape: scrape.transitions() == whole)


def block(part: str) -> str:
    """Return the script of the page that contains ``part``."""
    (text,) = [each for each in re.findall(r"(?ms)^```sh\n(.*?)^```$", PAGE) if part in each]
    return str(text)


def test_shortest_drain(stage: Stage, start_exporter: Callable[..., Exporter]) -> None:
    """The script of the page follows events, drains for a reboot, and then approves it."""
    with Simulator(Scenario("quiet", "", VMS, ()), requests_per_second=20) as simulator:
        start_exporter(simulator.url, *FAST, "--journal.path", str(stage.journal))
        stage.hold_calls()
        env = {**stage.environment, "AZURE_SCHEDULED_EVENTS_IMDS_ENDPOINT": simulator.url}
        script = subprocess.Popen(["sh", "-c", block("--follow")], env=env, start_new_session=True)
        try:

            def drains() -> list[str]:
                # Each look plays a new event, since nobody knows when the script begins to follow.
                simulator.play(ONE_REBOOT)
                return stage.calls

            eventually(drains, "the drain")
            assert not approved(simulator), "the drain has not ended"
            stage.release_calls()
            eventually(lambda: approved(simulator), "the approval")
        finally:
            os.killpg(script.pid, signal.SIGKILL)
            script.wait(PATIENCE)


@pytest.mark.parametrize(
    ("treatment", "undone"),
    [(Way.LATE, False), (500, False), (409, True)],
    ids=["no answer", "failed", "refused"],
)
def test_drain_that_is_undone(treatment: Treatment, undone: bool, stage: Stage) -> None:
    """The line of the page undoes its drain only if the event is certainly not approved.

    The ``treatment`` is what becomes of the first approval that the line requests: with 500 or 409,
    that status is the answer. With LATE, IMDS approves the event, but no answer comes.
    """
    with Simulator(ONE_REBOOT) as simulator, Gate(simulator.url, treatment, Way.PASS) as gate:
        (announced,) = eventually(lambda: simulator.record, "the announcement")
        variables = {
            "AZURE_SCHEDULED_EVENTS_IMDS_ENDPOINT": gate.url,
            "AZURE_SCHEDULED_EVENTS_IMDS_TIMEOUT": "5s",
        }
        env = {**stage.environment, **variables, "EVENT_ID": announced.event_id}
        subprocess.run(["sh", "-c", block("undrain")], env=env, check=True, timeout=PATIENCE)
        # Neither program has an argument; a substitute writes the space before them all the same.
        assert stage.calls == (["drain ", "undrain "] if undone else ["drain "])
        assert approved(simulator) == (["Reboot"] if treatment is Way.LATE else [])
