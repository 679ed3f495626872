"""What a policy approves when the metadata service contradicts itself: missing fields, unknown
types, wrong times.
"""

import json
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.simulator import Simulator
from support.events.imds_bodies import entry
from support.programs import Exporter, eventually, fetch
from support.quiet import QUIET
from trials.clock import WallClock
from trials.trial import polls_on

HOLDS_PREEMPT = """\
rules:
  - {name: keep, match: {event_type: Preempt}, action: hold}
  - {name: go on, action: approve}
"""
HOLDS_LONG_NOTICE = HOLDS_PREEMPT.replace("event_type: Preempt", "notice_left: {at_least: 1m}")
"""Two policies: each holds the event of these tests, and approves all others."""
REASON_OF_RULE = "held by rule 'keep'"
REASON_WITHOUT_TYPE = (
    "IMDS shows no EventType for it, so no rule decides; without approval it begins at NotBefore"
)


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """Return a simulator of two VMs without events."""
    with Simulator(QUIET) as simulator:
        yield simulator


@pytest.fixture
def start(
    simulator: Simulator, start_exporter: Callable[..., Exporter], tmp_path: Path
) -> Callable[[str], Exporter]:
    """Return a function that starts an exporter of the first VM with a policy: the name of a
    policy, ``start("documented")``, or the text of a policy file.
    """

    def begin(policy: str) -> Exporter:
        if "\n" in policy:
            (tmp_path / "policy.yaml").write_text(policy)
            policy = str(tmp_path / "policy.yaml")
        return start_exporter(
            simulator.url, "--poll.interval", "250ms", "--approval.policy", policy
        )

    return begin


def event(name: str = "A", *, notice: float = 900.0, **values: object) -> dict[str, object]:
    """Return a Preempt of the first VM; a value of None leaves the field out."""
    shown = entry(
        EventId=name, EventType="Preempt", NotBefore=formatdate(time.time() + notice, usegmt=True)
    )
    return {key: value for key, value in {**shown, **values}.items() if value is not None}


def show_for_some_polls(
    simulator: Simulator, exporter: Exporter, *events: dict[str, object]
) -> None:
    """Show these events, and wait until the exporter has polled three times with them."""
    incarnation = simulator.set_document(list(events))
    exporter.shows("the document", lambda now: now.value("document_incarnation") == incarnation)
    polls_on(exporter, 3)


def approvals_sent(simulator: Simulator) -> int:
    """Return how many approvals have come to IMDS."""
    return len([seen for seen in simulator.requests if seen.method == "POST"])


def wait_for_reason(exporter: Exporter, reason: str) -> None:
    """Wait until the JSON says that the only event is not approved for a reason that begins like
    this.

    The exporter renders the JSON once a second at most, so it may be older than the last poll.
    """

    def reason_in_json() -> str:
        (event,) = json.loads(fetch(f"{exporter.url}/api/v1/events").body)["events"]
        return str(event["approval"])

    eventually(reason_in_json, reason, until=lambda text: text.startswith(reason))


@pytest.mark.parametrize(
    ("missing", "policy", "reason_without_it"),
    [
        ("EventType", HOLDS_PREEMPT, REASON_WITHOUT_TYPE),
        ("NotBefore", HOLDS_LONG_NOTICE, REASON_OF_RULE),
    ],
)
def test_a_field_that_one_document_lacks(
    simulator: Simulator,
    start: Callable[[str], Exporter],
    missing: str,
    policy: str,
    reason_without_it: str,
) -> None:
    """An event that a rule holds by its type or time is not approved when a document leaves that
    field out.
    """
    exporter = start(policy)
    whole = event()
    lacking = {key: value for key, value in whole.items() if key != missing}
    for shown, reason in (
        (whole, REASON_OF_RULE),
        (lacking, reason_without_it),
        (whole, REASON_OF_RULE),
    ):
        show_for_some_polls(simulator, exporter, shown)
        wait_for_reason(exporter, reason)
    assert approvals_sent(simulator) == 0


def test_an_event_that_never_had_a_type(
    simulator: Simulator, start: Callable[[str], Exporter]
) -> None:
    """No policy approves an event of which nobody knows what it does, and the reason says so."""
    exporter = start(HOLDS_PREEMPT)
    show_for_some_polls(simulator, exporter, event(EventType=None, EventSource="User"))
    wait_for_reason(exporter, REASON_WITHOUT_TYPE)
    assert approvals_sent(simulator) == 0
    show_for_some_polls(simulator, exporter, event("B", EventType="Reboot", EventSource="User"))
    assert approvals_sent(simulator) == 1, "the same with a type is approved"


def test_a_document_without_this_vm(simulator: Simulator, start: Callable[[str], Exporter]) -> None:
    """An event that a rule holds for this VM stays held when a later document does not name this VM
    among the event's resources. It is not approved by the rule for events of other VMs.
    """
    exporter = start(
        "rules:\n"
        "  - {name: others, match: {scope: [peer]}, action: approve, leader_only: false}\n"
        "  - {name: keep, match: {}, action: hold}\n"
    )
    for resources in (["vm_0", "vm_1"], ["vm_1"], []):
        show_for_some_polls(simulator, exporter, event(Resources=resources))
        wait_for_reason(exporter, REASON_OF_RULE)
    assert approvals_sent(simulator) == 0
    show_for_some_polls(simulator, exporter, event("B", Resources=["vm_1"]))
    assert approvals_sent(simulator) == 1, "an event that never named this VM is approved"


def test_a_document_that_contradicts_itself(
    simulator: Simulator, start: Callable[[str], Exporter]
) -> None:
    """An event that a document shows as a short Freeze and as a Redeploy, or with an impact of 5 s
    and of unknown length, is not approved.
    """
    exporter = start("documented")
    freeze = event(EventType="Freeze", DurationInSeconds=5)
    # Known as a Freeze, and not approved yet: Paused is a status that the exporter does not know.
    show_for_some_polls(simulator, exporter, freeze | {"EventStatus": "Paused"})
    # EventIds that differ in case only are one event.
    redeploy = {**freeze, "EventId": "a", "EventType": "Redeploy", "Resources": ["vm_1"]}
    for entries in ([freeze, redeploy], [redeploy, freeze]):
        show_for_some_polls(simulator, exporter, *entries)
        wait_for_reason(
            exporter, "one document has several entries for it that differ, so no rule decides"
        )
    warning = (
        "event A appears more than once in one document: if its entries differ, no policy"
        " approves it"
    )
    assert exporter.lines(warning)
    of_unknown_length = {**freeze, "DurationInSeconds": -1}
    show_for_some_polls(simulator, exporter, freeze, of_unknown_length)
    wait_for_reason(exporter, "one document has several entries for it that differ")
    assert approvals_sent(simulator) == 0


@pytest.mark.parametrize("clock_error_seconds", [-3600, 0, 3600])
def test_rules_by_the_notice_that_is_left(
    simulator: Simulator,
    start_exporter: Callable[..., Exporter],
    tmp_path: Path,
    clock_error_seconds: int,
) -> None:
    """Rules decide by the time that is left by the clock of IMDS, also while the clock of the VM is
    wrong.
    """
    policy = tmp_path / "policy.yaml"
    # Two rules divide at 5 minutes of notice. By the VM's clock, if that is an hour ahead, A would
    # have less and be approved; if it is an hour behind, B would have more and not be approved.
    policy.write_text(
        "rules:\n"
        "  - {name: wait, match: {event_type: Freeze, notice_left: {at_least: 5m}}, action: hold}\n"
        "  - {name: shortly before, match: {notice_left: {below: 5m}}, action: approve}\n"
    )
    clock = WallClock(tmp_path / "faketime")
    clock.set(clock_error_seconds)
    flags = ("--poll.interval", "250ms", "--approval.policy", str(policy))
    exporter = start_exporter(simulator.url, *flags, **clock.environment)
    early = event("A", notice=3000, EventType="Freeze")
    short = event("B", notice=200, EventType="Reboot")
    show_for_some_polls(simulator, exporter, early, short)
    in_json = json.loads(fetch(f"{exporter.url}/api/v1/events").body)["events"]
    shown = {each["event_id"]: each for each in in_json}
    assert shown["A"]["approval"] == "held by rule 'wait'"
    assert shown["B"]["approved_by"] == "exporter"
    assert approvals_sent(simulator) == 1, "B's"
