"""What becomes of an operator's request: IMDS refuses or does not answer, or the exporter or the
command is stopped.

A ``Gate`` stands before the simulator. Each approval is treated by the next of its rules, which is
a status to answer with or a ``Way``; the last rule holds for all that follow.
"""

import signal
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.journal.access import writable
from azure_scheduled_events_exporter.journal.content.inbox import ApprovalRequest
from azure_scheduled_events_exporter.simulator import Scenario, Simulator, What
from support.events.approve_command import (
    PROGRAM,
    VMS,
    approve,
    approved,
    assert_nothing_is_sent,
    begin,
    event_ids,
    queued,
    start,
    stopped,
    wait_a_second,
)
from support.events.gate import Gate, HeldPolls, Nameless, Way
from support.events.imds_bodies import entry
from support.programs import PATIENCE, Exporter, eventually
from trials.storage.disk import Locked
from trials.trial import polls_on

MAYBE_APPROVED = 3
"""The exit status of ``approve`` if an approval had no answer."""
NOW = time.time()
IN_AN_HOUR = formatdate(NOW + 3600, usegmt=True)
IN_TWO_HOURS = formatdate(NOW + 7200, usegmt=True)
CONFIRMED = entry(
    DurationInSeconds=-1, NotBefore=IN_AN_HOUR, Resources=["vmss_0", "vmss_2"], EventType="Reboot"
)
"""An event as it is shown to the operator, who then confirms the request."""


def test_imds_refuses(
    simulator: Simulator,
    state: Path,
    start_exporter: Callable[..., Exporter],
) -> None:
    """A refusal is printed with the answer of IMDS, here the gate's "not today". Nothing is
    approved, and the request is not sent again.
    """
    with Gate(simulator.url, 409) as gate:
        exporter = start(start_exporter, gate.url, state)
        event_id = event_ids(simulator)["Reboot"]
        done = approve(gate.url, state, event_id, "--yes")
        assert done.returncode == 1
        *_, said = done.stdout.splitlines()
        refusal = f"{gate.url} answered 409: not today; the cause is unknown"
        assert said == f"{event_id}: approval refused: {refusal}"
        assert done.stderr == ""
        gate.treat(Way.PASS)
        polls_on(exporter, 7)  # in each of which it could be sent again
        assert len(gate.posts) == 1
        assert exporter.scrape().total("event_approved") == 0
        assert exporter.scrape().value("approval_requests_total", outcome="rejected") == 1


def test_imds_throttles(
    simulator: Simulator,
    state: Path,
    start_exporter: Callable[..., Exporter],
) -> None:
    """After a 429, the request is sent again until IMDS answers, and the command waits for that."""
    with Gate(simulator.url, 429, Way.PASS) as gate:
        exporter = start(start_exporter, gate.url, state)
        event_id = event_ids(simulator)["Reboot"]
        done = approve(gate.url, state, event_id, "--yes")
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == f"{event_id}: accepted"
        assert len(gate.posts) == 2, "the one that was throttled, and the one that was accepted"
        assert exporter.scrape().transitions(event_type="Reboot")["approved"] == 1


def test_no_answer(
    simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]
) -> None:
    """Without an answer to a request, the event may be approved, also if IMDS refuses a second
    request. The exit status says so both times.
    """
    with Gate(simulator.url, Way.HANG, 409) as gate:
        exporter = start(start_exporter, gate.url, state, "--imds.timeout", "5s")
        event_id = event_ids(simulator)["Reboot"]
        command = (gate.url, state, event_id, "--yes", "--imds.timeout", "5s")
        done = approve(*command)
        assert done.returncode == MAYBE_APPROVED
        assert done.stdout.splitlines()[-1] == (
            f"{event_id}: approval without an answer: no whole answer from {gate.url} within 5 s"
        )
        exporter.shows(
            "the first request has ended",
            lambda scrape: scrape.value("approval_requests_total", outcome="error") == 1,
        )
        done = approve(*command)
        assert done.returncode == MAYBE_APPROVED
        assert done.stdout.splitlines()[-1] == (
            f"{event_id}: approval without an answer earlier, then refused: {gate.url} answered"
            " 409: not today; the cause is unknown"
        )


def test_name_is_not_known(simulator: Simulator, state: Path) -> None:
    """While IMDS does not tell the VM's name, ``--all-mine`` says that, and not that no event
    waits.
    """
    with Nameless(simulator.url) as gate:
        done = approve(gate.url, state, "--all-mine", "--yes")
        assert (done.returncode, done.stdout) == (1, "")
        assert "this VM's name is unknown" in done.stderr
        assert gate.posts == []


def test_the_exporter_cannot_write(
    simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]
) -> None:
    """While the disk of the journal fails, the command says so, and queues no request."""
    exporter = start(start_exporter, simulator.url, state)
    event_id = event_ids(simulator)["Reboot"]
    trouble = Locked(None, state / "journal.sqlite")  # type: ignore[arg-type] # it needs no disk of its own
    trouble.begins()
    simulator.set_document([])  # the end of the events is what the exporter then fails to write
    exporter.shows("the journal in memory", lambda scrape: scrape.value("journal_up") == 0)
    done = approve(simulator.url, state, event_id, "--yes")
    trouble.ends()
    assert done.returncode == 1
    assert "journal.sqlite cannot be written: database is locked" in done.stderr
    assert queued(state) == []


def test_imds_is_away(
    state: Path, simulator: Simulator, start_exporter: Callable[..., Exporter]
) -> None:
    """After the command has reported a failure, no approval is sent once IMDS is back."""
    event_ids(simulator)  # waits until the events are announced
    simulator.inject("503")
    done = approve(simulator.url, state, "--all-mine", "--yes")
    assert done.returncode == 1
    assert "answered 503" in done.stderr
    simulator.heal()
    wait_a_second(simulator)
    assert_nothing_is_sent(simulator, start(start_exporter, simulator.url, state))


def test_the_journal_fails_after_the_approval(
    simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]
) -> None:
    """If the result of a request cannot be read, nobody knows whether the event is approved, and
    the exit status says so, also after a signal. Here it is approved.
    """
    trouble = Locked(None, state / "journal.sqlite")  # type: ignore[arg-type] # it needs no disk of its own

    def accept_and_fail(_: Sequence[str]) -> Way:
        """Let the disk of the journal fail while IMDS accepts."""
        trouble.begins()
        return Way.PASS

    with Gate(simulator.url, accept_and_fail) as gate:
        exporter = start(start_exporter, gate.url, state)
        event_id = event_ids(simulator)["Reboot"]
        operator = begin(gate.url, state, event_id)
        exporter.shows("approved", lambda scrape: scrape.total("event_approved") == 1)
        operator.send_signal(signal.SIGINT)
        said, _ = operator.communicate(timeout=2 * PATIENCE)
        trouble.ends()
    assert operator.returncode == MAYBE_APPROVED
    *_, result = said.splitlines()
    assert result == (
        f"{event_id}: sent, but no result came: it may have been approved"
        " (the journal failed: database is locked)"
    )


def test_operators_request_survives_a_kill(
    simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]
) -> None:
    """A request that was being sent at a kill is sent again, and is still the operator's."""
    with Gate(simulator.url, Way.HANG, Way.PASS) as gate:
        exporter = start(start_exporter, gate.url, state)
        event_id = event_ids(simulator)["Reboot"]
        operator = begin(gate.url, state, event_id)
        eventually(lambda: gate.posts, "the approval")
        exporter.kill()
        again = start(start_exporter, gate.url, state)
        said, _ = operator.communicate(timeout=2 * PATIENCE)
        assert said.splitlines()[-1] == f"{event_id}: accepted"
        assert operator.returncode == 0
        assert again.scrape().value("approval_latency_seconds_count", approved_by="operator") == 1
        assert approved(simulator) == [("Reboot", "vmss_0")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_request_is_withdrawn(
    number: signal.Signals,
    simulator: Simulator,
    state: Path,
    start_exporter: Callable[..., Exporter],
) -> None:
    """``approve`` that ends before its request was sent withdraws it, and the exporter never sends
    it.
    """
    exporter = start(start_exporter, simulator.url, state)
    event_id = event_ids(simulator)["Reboot"]
    # An exporter that stands still cannot send the request before the signal comes.
    with stopped(exporter, state):
        operator = begin(simulator.url, state, event_id)
        eventually(lambda: queued(state) == [event_id], "the request")
        operator.send_signal(number)
        said, _ = operator.communicate(timeout=2 * PATIENCE)
        assert operator.returncode == 128 + number, "as a shell shows the end by a signal"
        assert said.splitlines()[-1] == f"{event_id}: withdrawn before it was sent"
        assert queued(state) == []
    assert_nothing_is_sent(simulator, exporter)


def test_a_rules_request_is_under_way(state: Path, start_exporter: Callable[..., Exporter]) -> None:
    """While IMDS has not answered a rule's request for an event, nobody knows whether the event is
    approved. An operator whose own request is withdrawn, or no longer holds, is told so.
    """
    shown = CONFIRMED | {"EventId": "A", "EventSource": "User", "Resources": ["vmss_0"]}
    quiet = Scenario("quiet", "Nothing happens.", VMS, ())
    with Simulator(quiet) as simulator, Gate(simulator.url, Way.HANG) as gate:
        simulator.set_document([shown])
        flags = ("--imds.timeout", "60s", "--journal.path", str(state))
        exporter = start_exporter(gate.url, "--approval.policy", "documented", *flags)
        exporter.shows("the event", lambda scrape: scrape.total("event_info") == 1)
        eventually(lambda: gate.posts, "the request of the rule")
        for interrupts in (True, False):
            operator = begin(gate.url, state, "A")
            eventually(lambda: queued(state) == ["A"], "the operator's request")
            if interrupts:
                operator.send_signal(signal.SIGINT)
            else:
                # The event is not the one that the operator has confirmed any more.
                simulator.set_document([shown | {"DurationInSeconds": 600}])
            said, _ = operator.communicate(timeout=2 * PATIENCE)
            assert operator.returncode == MAYBE_APPROVED
            assert "A: it may be approved, because another request" in said
        assert len(gate.posts) == 1, "the rule's: neither of the operator's was sent"


def test_requests_expire(
    simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]
) -> None:
    """A request that a killed ``approve`` left behind is not fulfilled once its operator would have
    given up.
    """
    exporter = start(start_exporter, simulator.url, state)
    event_id = event_ids(simulator)["Reboot"]
    now = time.time()
    asked_at = now - 60
    expired_at = now - 30
    # Written as ``approve`` writes it, for the operator ada.
    with closing(writable(state)) as store:
        request = ApprovalRequest(store.current()[event_id], "ada", asked_at, expired_at)
        store.requests.add([request])
    eventually(lambda: queued(state) == [], "the request has a result")
    assert_nothing_is_sent(simulator, exporter)


def test_imds_throttles_every_try(
    simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]
) -> None:
    """A request that IMDS throttles until it expires has a result that says so."""
    with Gate(simulator.url, 429) as gate:
        start(start_exporter, gate.url, state)
        event_id = event_ids(simulator)["Reboot"]
        with closing(writable(state)) as store:
            asked_at = time.time()
            expires_at = asked_at + 3
            request = ApprovalRequest(store.current()[event_id], "ada", asked_at, expires_at)
            [number] = store.requests.add([request])
            results = eventually(lambda: store.requests.results([number]), "a result")
        tries = len(gate.posts)
        assert tries > 1
        said = f"not approved: it was sent, and IMDS throttled all {tries} tries (429): try again"
        assert results == {number: said}


def test_imds_throttles_without_an_end(simulator: Simulator, state: Path) -> None:
    """Without an exporter, the command gives up when IMDS has throttled its first request, and five
    polls: 1 is the exit status of what was not approved, the error names the answer, and nothing is
    sent.
    """
    event_id = event_ids(simulator)["Reboot"]
    simulator.inject("throttle")
    done = approve(simulator.url, state, event_id, "--yes")
    assert (done.returncode, done.stdout) == (1, "")
    *_, said = done.stderr.splitlines()
    assert said.startswith(f"{PROGRAM}: {simulator.url} answered 429")
    assert said.endswith("; try again")
    polls = [seen for seen in simulator.requests if "scheduledevents" in seen.path]
    assert [seen.method for seen in polls] == ["GET"] * 6


@dataclass(frozen=True)
class Change:
    """The fields in which IMDS shows an event otherwise than the operator was shown it, and how
    the result of the operator's request begins.
    """

    fields: dict[str, object]
    result: str


CHANGES = {
    "TIME": Change({"NotBefore": IN_TWO_HOURS}, "not approved: NotBefore was "),
    "VMS": Change(
        {"Resources": ["vmss_0", "vmss_1"]}, "not approved: Resources also has vmss_1 now; "
    ),
    "TYPE": Change(
        {"EventType": "Terminate"},
        "not approved: EventType was Reboot when you confirmed and is Terminate now; ",
    ),
    "DURATION": Change(
        {"DurationInSeconds": 600},
        "not approved: DurationInSeconds was unknown when you confirmed and is 10m now; ",
    ),
    # vmss_2 is gone. IMDS may write a VM's name in capitals, and with an underscore before it.
    "FEWER": Change({"Resources": ["_VMSS_0"]}, "accepted"),
}
"""By EventId, what changes between the question to the operator and the approval."""


def test_requests_hold_for_what_was_shown(
    state: Path, start_exporter: Callable[..., Exporter]
) -> None:
    """An event is not approved if its type, impact or time is not what the operator was shown, or
    if it has more VMs; the result says why. An event that has only lost VMs is approved.
    """
    confirmed = [CONFIRMED | {"EventId": name} for name in CHANGES]
    changed = [CONFIRMED | {"EventId": name} | change.fields for name, change in CHANGES.items()]
    quiet = Scenario("quiet", "Nothing happens.", VMS, ())
    with Simulator(quiet, requests_per_second=1000) as simulator, HeldPolls(simulator.url) as gate:
        simulator.set_document(confirmed)
        flags = ("--poll.interval", "1s", "--imds.timeout", "60s", "--journal.path", str(state))
        exporter = start_exporter(gate.url, *flags)
        exporter.shows("the events", lambda scrape: scrape.total("event_info") == len(CHANGES))
        # The poll that is held gets the changed document. Until then, the exporter's journal has
        # the events as they were: the command reads them there.
        with gate.held():
            operator = begin(gate.url, state, *CHANGES)
            eventually(lambda: queued(state) == [*CHANGES], "the requests")
            simulator.set_document(changed)
        said, _ = operator.communicate(timeout=2 * PATIENCE)
        assert operator.returncode == 1
        # The last lines are the results, one for each event: "EventId: result".
        results = dict(line.split(": ", 1) for line in said.splitlines()[-len(CHANGES) :])
        for name, change in CHANGES.items():
            assert results[name].startswith(change.result), said
        assert [event.event_id for event in simulator.record if event.what is What.APPROVED] == [
            "FEWER"
        ]
