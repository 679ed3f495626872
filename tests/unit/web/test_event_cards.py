"""The cards of current events on the status page.

The text of a page has no space between a heading and what follows it, as in "Kindharmless".
``freeze()`` is a Freeze of 5 s of this VM and another one, scheduled for 14 min 32 s after NOW.
``reboot()`` is one of other VMs alone, and has begun without notice.
"""

import re
from dataclasses import replace

import pytest

from azure_scheduled_events_exporter.alerts.pushed import pushed_alerts
from azure_scheduled_events_exporter.alerts.settings import resolve
from azure_scheduled_events_exporter.core.document import Scope
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.core.lifecycle import (
    Approval,
    Approver,
    Kind,
    Lifecycle,
    State,
)
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.snapshot.approvals import Decision
from azure_scheduled_events_exporter.snapshot.snapshot import Snapshot
from azure_scheduled_events_exporter.web.event_cards import CARDS
from azure_scheduled_events_exporter.web.status_page import page
from azure_scheduled_events_exporter.web.wording import runbook
from support.events.status_reader import Page
from support.events.status_scene import (
    BLIND,
    BUSY,
    FREEZE_ID,
    NOW,
    QUIET,
    VM,
    freeze,
    reboot,
)


@pytest.mark.parametrize(
    ("life", "words"),
    [
        (freeze(), "Kindharmless: no interruption, or a short pause"),
        (freeze(duration_seconds=30.0), "Kindannounced by Azure"),
        (freeze(duration_seconds=30.0, not_before=NOW + 2 * 86400), "Kindmore than a day ahead"),
        (freeze(duration_seconds=30.0, source="User"), "Kindrequested by a user"),
        (freeze(event_type="Vaporize", duration_seconds=None), "Kindof an unknown type"),
        (reboot(), "Kindwithout notice: the host has probably failed"),
        (freeze(state=State.ADVISORY, status="Advisory"), "Kindadvice: nothing is scheduled"),
        (freeze(resource_type="Moon"), "Resource typeMoon"),
        (freeze(), "in 14m 32s"),
        (freeze(not_before=NOW - 75), "may begin at any momentNotBefore passed 1m 15s ago"),
        (freeze(not_before=NOW - 0.9), "due now"),
        (freeze(not_before=None), "time unknown"),
        (freeze(state=State.STARTED, started_at=Timestamp(NOW - 8)), "started 8s ago"),
        (reboot(), "It had already started when it was first seen: no notice."),
        (freeze(state=State.OTHER, status="Paused"), "FreezePaused"),
        (freeze(state=State.ADVISORY, status="Advisory", not_before=None), "nothing scheduled"),
    ],
)
def test_card(life: Lifecycle, words: str) -> None:
    """A card says what kind of event it is, of what, and when it begins, has begun, or that nobody
    knows.
    """
    assert words in Page(replace(QUIET, current={life.event_id: life})).text


def test_an_event_whose_begin_is_unknown() -> None:
    """While IMDS fails, nobody knows whether an event whose NotBefore has passed has begun."""
    life = freeze(not_before=NOW - 51)
    text = Page(replace(BLIND, current={life.event_id: life})).text
    assert "NotBefore passed 51s ago; whether it began is unknown" in text
    _, _, cards = text.partition("Current events")
    top_of_the_card, _, _ = cards.partition("Kind")
    assert "any moment" not in top_of_the_card


def test_color_of_a_card() -> None:
    """The classes of a card, which give its color, tell this VM's events from those of others, and
    what has begun from what is still to come.
    """
    for life, classes in (
        (freeze(), "self waiting"),
        (freeze(state=State.STARTED, started_at=Timestamp(NOW - 5)), "self started"),
        (reboot(), "peer started"),
    ):
        html = page(replace(QUIET, current={life.event_id: life}), NOW, "/metrics").decode()
        assert re.findall('<article [^>]*class="([^"]*)"', html) == [classes]


@pytest.mark.parametrize(("snapshot", "css_class"), [(BUSY, ""), (BLIND, "doubtful")])
def test_events_that_were_known_last(snapshot: Snapshot, css_class: str) -> None:
    """The cards are of the class ``doubtful``, with a dashed frame, while IMDS does not answer."""
    html = page(snapshot, NOW, "/metrics").decode()
    assert f'<section id="events" class="{css_class}"' in html


def test_own_events_come_first() -> None:
    """This VM's events stand before those of other VMs, what has started before what is still to
    come.
    """
    later = replace(
        freeze(event_id="LATER", event_type="Reboot", not_before=NOW + 1), scope=Scope.PEER
    )
    begun = freeze(
        event_id="BEGUN", event_type="Redeploy", state=State.STARTED, started_at=Timestamp(NOW - 5)
    )
    lives = (later, reboot(), freeze(), begun)
    text = Page(replace(QUIET, recent=(), current={life.event_id: life for life in lives})).text
    own = ("RedeployStarted", "FreezeScheduled")
    of_others = ("RebootStarted", "RebootScheduled")
    places = [text.index(word) for word in (*own, *of_others)]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("event_type", "words"),
    [
        (
            EventType.FREEZE,
            "Pauses this VM for some seconds: CPU and network stop. Memory and open files are kept",
        ),
        (EventType.REBOOT, "Restarts this VM. Memory is lost. Disks are kept."),
        (EventType.REDEPLOY, "Moves this VM to another host. Memory and ephemeral disks are lost."),
        (EventType.PREEMPT, "Evicts this VM: Azure reclaims Spot capacity"),
        (EventType.TERMINATE, "Deletes this VM"),
        ("Vaporize", "Azure documents no such type, so its effect is unknown."),
        ("", "Azure sent no type, so its effect is unknown."),
    ],
)
def test_meaning_in_plain_words(event_type: str, words: str) -> None:
    """Each type is explained by what it does to the VM, unless it interrupts nothing; an unknown
    one is not guessed.
    """
    interrupts = freeze(event_type=event_type, duration_seconds=60.0)
    assert words in Page(replace(QUIET, current={FREEZE_ID: interrupts})).text
    harmless = freeze(event_type=event_type, duration_seconds=0.0)
    text = Page(replace(QUIET, current={FREEZE_ID: harmless})).text
    assert "Azure announces no interruption" in text
    assert words not in text


@pytest.mark.parametrize(
    ("life", "reason", "words"),
    [
        (freeze(), "held by rule 'x'", "not yet: held by rule 'x'"),
        (freeze(), "", "not yet: the policy decides at the next answer of the metadata service"),
        (
            freeze(request=Approval(Approver.OPERATOR, Timestamp(NOW))),
            "the approval policy is off",
            # The reason is not told. "Description" is the name of the next field.
            "requested by the operator; no answer of IMDS has said that it is acceptedDescription",
        ),
        (
            freeze(request=Approval(Approver.EXPORTER, Timestamp(NOW))),
            "next try at 03:08:00",
            (
                "requested by the exporter; no answer of IMDS has said that it is accepted: next"
                " try at 03:08:00"
            ),
        ),
        (
            freeze(approval=Approval(Approver.EXPORTER, Timestamp(NOW - 3))),
            "",
            "approved by this exporter's policy, 2026-11-20 03:07:18 UTC",
        ),
        (
            freeze(approval=Approval(Approver.OPERATOR, Timestamp(NOW))),
            "",
            "approved by an operator on this VM",
        ),
        (
            freeze(state=State.STARTED, approval=Approval(Approver.EXTERNAL, Timestamp(NOW))),
            "",
            (
                "approved by another VM, a program here, Azure's API or Azure's own policy: it"
                " started before NotBefore"
            ),
        ),
        (
            # A document showed it as Scheduled until NotBefore.
            replace(
                freeze(state=State.STARTED, approval=Approval(Approver.DEADLINE, Timestamp(NOW))),
                pending_until=freeze().not_before,
            ),
            "",
            # The time is not NotBefore, but when a document first showed the start.
            "not approved: it started at NotBefore; seen Started 2026-11-20 03:07:21 UTC",
        ),
        (
            freeze(state=State.STARTED, approval=Approval(Approver.DEADLINE, Timestamp(NOW))),
            "",
            "not approved from here: it started at NotBefore or later, while nobody watched",
        ),
        (reboot(), "", "not needed: it has started"),
    ],
)
def test_approval_or_why_there_is_none(life: Lifecycle, reason: str, words: str) -> None:
    """A card says who approved or requested the event, or why that is not done yet: ``reason`` is
    the policy's, ``""`` if it has not decided.
    """
    statuses = {life.event_id: Decision(reason)} if reason else {}
    snapshot = replace(QUIET, current={life.event_id: life}, approval_statuses=statuses)
    assert f"Approval{words}" in Page(snapshot).text


def test_command_to_copy_is_never_hostile() -> None:
    """The command that approves an event is offered for ids of Azure's own form only, as it ends up
    in a shell.
    """
    whole = (
        "run as root on this VM (in a container or pod: inside it): azure-scheduled-events-exporter"
        " approve"
    )
    assert f"{whole} {FREEZE_ID}" in Page(BUSY).text
    evil = freeze(event_id=f"{FREEZE_ID};REBOOT")
    assert "exporter approve" not in Page(replace(QUIET, current={evil.event_id: evil})).text


def test_many_vms_and_many_events_are_counted() -> None:
    """A long list is cut and says by how much, this VM is always among the names, and the page
    stays small.
    """
    others = [f"vm_{number}" for number in range(3000)]
    names = (*others, VM)
    many = {
        f"ID-{n}": freeze(event_id=f"ID-{n}", resources=names, description="x" * 9999)
        for n in range(CARDS + 7)
    }
    snapshot = replace(QUIET, current=many)
    shown = Page(snapshot)
    assert "7 more events are not shown; see the events as JSON." in shown.text
    ten = [VM, *others[:9]]
    more = len(names) - len(ten)
    assert f"Affected VMs ({len(names)}){', '.join(ten)}, and {more} more" in shown.text
    assert len(page(snapshot, NOW, "/metrics")) < 250_000


def test_where_to_read_more() -> None:
    """A card has the command of the event's report, with who may run it, and the link "What to do",
    to the runbook of the alert that the event raises. A harmless event raises none, so its card has
    no such link.
    """
    for pushed in pushed_alerts(resolve({})):
        # An alert without types is about events of any type, also of one that nobody knows.
        for event_type in pushed.events.types or ("Vaporize",):
            life = replace(freeze(event_type=str(event_type)), kind=pushed.events.kind)
            assert runbook(life) == pushed.alert.name
    harmless = freeze()
    shown = Page(replace(QUIET, current={harmless.event_id: harmless}))
    command = f"azure-scheduled-events-exporter report {harmless.event_id}"
    assert f"as root or the exporter's user on this VM: {command}" in shown.text
    assert "What to do" not in shown.text
    announced = replace(harmless, kind=Kind.ANNOUNCED)
    assert "What to do" in Page(replace(QUIET, current={announced.event_id: announced})).text
