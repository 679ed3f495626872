"""What the status page says of a snapshot, and that no text from IMDS can become part of it."""

import base64
import hashlib
from dataclasses import fields, replace
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from azure_scheduled_events_exporter import DOCUMENTATION
from azure_scheduled_events_exporter.alerts.pushed import pushed_alerts
from azure_scheduled_events_exporter.alerts.settings import resolve
from azure_scheduled_events_exporter.core.document import ScheduledEvent, Scope
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.core.impact import Impact, Readings, Tcp
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.lifecycle import (
    Approval,
    Approver,
    Lifecycle,
    State,
    Transition,
)
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import Outcome
from azure_scheduled_events_exporter.snapshot.approvals import Decision
from azure_scheduled_events_exporter.snapshot.hooks import HookRun
from azure_scheduled_events_exporter.snapshot.journal_state import JournalState
from azure_scheduled_events_exporter.snapshot.snapshot import Polls, Snapshot
from azure_scheduled_events_exporter.web.event_cards import CARDS
from azure_scheduled_events_exporter.web.history import phases
from azure_scheduled_events_exporter.web.status_page import page, page_headers
from azure_scheduled_events_exporter.web.wording import runbook
from support.events.status_scene import (
    BLIND,
    BUSY,
    FREEZE_ID,
    NOW,
    POLLS,
    QUIET,
    VM,
    ended,
    freeze,
    reboot,
)
from support.paths import ROOT

Structure = list[tuple[str, tuple[str, ...]]]
HOSTILE = (
    "</title></style></script><script>hacked()</script>"
    """<img src=x onerror='hacked()' style="x">&amp;"""
)


class Page(HTMLParser):
    """A page taken apart: its elements with the names of their attributes, and its texts.

    The texts of neighboring elements follow one another in ``text`` without a space.
    """

    def __init__(
        self, snapshot: Snapshot, now: float = NOW, telemetry_path: str = "/metrics"
    ) -> None:
        super().__init__()
        self.structure: Structure = []
        self.links: list[str] = []
        self.inline: dict[str, str] = {}
        self.main: dict[str, str | None] = {}
        self.text = ""
        self._within = ""
        self._attributes: dict[str, str | None] = {}
        self.feed(page(snapshot, now, telemetry_path).decode())
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.structure.append((tag, tuple(name for name, _ in attrs)))
        self.links += [value or "" for name, value in attrs if name == "href"]
        self._within, self._attributes = tag, dict(attrs)
        if tag == "main":
            self.main = dict(attrs)

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002 - the parser's signature
        """What follows stands in no element of interest."""
        self._within = ""

    def handle_data(self, data: str) -> None:
        """Note a text."""
        if self._within in {"style", "script"}:
            self.inline[self._within] = data
        else:
            self.text += data


def foreign(text: str) -> Snapshot:
    """Return a snapshot in which every text that comes from IMDS is ``text``."""
    event = ScheduledEvent(text, text, text, text, (text, text), None, text)
    life = Lifecycle(event, State.OTHER, Scope.SELF, Timestamp(NOW - 9))
    old = replace(life, outcome=Transition.LOST, ended_at=Timestamp(NOW - 1))
    return Snapshot(
        polls=replace(POLLS, up=False, failure=text),
        vm_name=text,
        identity=Instance(**{field.name: text for field in fields(Instance)}),
        current={text: life},
        recent=(old,),
        approval_statuses={text: Decision(text)},
    )


@given(st.text(min_size=1, max_size=80))
@example(HOSTILE)
@example("'\" onclick=hacked() x='")
@example("<!-- ")
@example("-->]]><svg/onload=hacked()>")
def test_no_text_becomes_markup(text: str) -> None:
    """Whatever IMDS sends in any field, the page has the elements it has otherwise, and shows the
    text as it is.
    """
    benign, hostile = Page(foreign("text")), Page(foreign(text))
    assert hostile.structure == benign.structure
    assert hostile.links == benign.links
    assert text in hostile.text


def test_policy_names_the_style_and_the_script_of_the_page() -> None:
    """The security policy allows exactly the page's own style and script, and connections to the
    exporter alone.
    """
    shown = Page(BUSY)
    directives = dict(
        one.split(" ", 1) for one in dict(page_headers())["Content-Security-Policy"].split("; ")
    )
    expected = {
        name: (
            f"'sha256-{base64.b64encode(hashlib.sha256(shown.inline[name].encode()).digest()).decode()}'"
        )
        for name in ("script", "style")
    }
    none = dict.fromkeys(("default-src", "base-uri", "form-action", "frame-ancestors"), "'none'")
    names = {
        name
        for snapshot in (BUSY, QUIET, BLIND)
        for _, names in Page(snapshot).structure
        for name in names
    }
    assert not {name for name in names if name == "style" or name.startswith("on")}
    assert directives == {
        **none,
        "script-src": expected["script"],
        "style-src": expected["style"],
        "connect-src": "'self'",
    }


def test_all_quiet_needs_an_imds_that_answers() -> None:
    """The page says that there are no events only while IMDS answers; without that, that nobody
    knows.
    """
    assert "No events: Azure has announced nothing" in Page(QUIET).text
    assert Page(QUIET).main["data-announcement"] == "IMDS answers, no events"
    never = Snapshot(polls=Polls())
    refused = replace(
        never, polls=Polls({**Polls().outcomes, Outcome.HTTP_ERROR: 1}, failure="IMDS answered 503")
    )
    silent = replace(QUIET, polls=replace(POLLS, last_success=NOW - 60))
    hanging = Snapshot(polls=Polls(failure="a poll hangs since 170s", hanging=True))
    for snapshot in (replace(BLIND, current={}), never, refused, silent, hanging):
        shown = Page(snapshot)
        assert "No events" not in shown.text
        assert "Unknown." in shown.text
        assert "IMDS answers" not in shown.text
        assert "is unknown" in (shown.main["data-announcement"] or "")
    assert "IMDS has not answered yet" in Page(never).text
    assert "IMDS answered 503" in Page(refused).text
    assert "IMDS gives no valid answera poll hangs since 170s" in Page(hanging).text
    assert "two minutes" not in Page(hanging).text


def test_a_document_that_is_partly_unreadable() -> None:
    """The page shows what can be read, also what is new, and does not date it to the last valid
    answer.
    """
    polls = replace(BLIND.polls, partial=True, failure="Events[1] is no object: '7'")
    shown = Page(replace(BLIND, polls=polls))
    for text in (
        "IMDS answers, but not all of it can be read",
        "Events[1] is no object: '7'",
        "Events may be missing; none counts as ended.",
        "Current events, as last known",
    ):
        assert text in shown.text
    assert "known then" not in shown.text
    assert "not all of it can be read, as last known 2 events: Freeze of" in (
        shown.main["data-announcement"] or ""
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
    shown = Page(replace(BLIND, current={life.event_id: life}))
    assert "NotBefore passed 51s ago; whether it began is unknown" in shown.text
    assert "any moment" not in shown.text.partition("Current events")[2].partition("Kind")[0]


def test_where_to_read_more() -> None:
    """A card has the runbook of the alert that its event raises, and the command of its report."""
    pushed = pushed_alerts(resolve({}))
    for alert in pushed:
        for event_type in alert.events.types or ("Vaporize",):
            life = replace(freeze(event_type=str(event_type)), kind=alert.events.kind)
            assert runbook(life) == alert.alert.name
    life = freeze()
    shown = Page(replace(QUIET, current={life.event_id: life}))
    assert f"azure-scheduled-events-exporter report {life.event_id}" in shown.text
    assert "What to do" not in shown.text


def test_a_journal_in_memory_has_no_report() -> None:
    """No command is offered for a report that another process cannot print."""
    life = freeze()
    in_memory = replace(QUIET, current={life.event_id: life}, journal=JournalState(up=None))
    assert " report " not in Page(in_memory).text


def test_what_hooks_did_and_what_was_measured() -> None:
    """Card and history show what a hook did for the event, and what the event did to the VM."""
    begins = Readings(Timestamp(NOW - 60))
    life = freeze(
        state=State.STARTED,
        started_at=Timestamp(NOW - 60),
        observed_pause=12.0,
        impact=Impact(begins, begins, Tcp(4, 0), Tcp(350, 7), 11.5),
    )
    run = HookRun("r", "drain", life.event_id, "Freeze", "prepare", NOW - 90, "ok", 12.0, 18.0)
    runs = (
        run,
        replace(run, outcome="failed", exit_status=3),
        replace(run, outcome="timeout", signal="SIGKILL"),
        replace(run, outcome=None, duration=None, seconds_left=None),
    )
    shown = Page(replace(QUIET, current={life.event_id: life}, hook_runs=runs)).text
    card, _, history = shown.partition("History")
    for text in (
        "prepare: done after 12s, 18s before NotBefore",
        "prepare: failed with exit status 3 after 12s",
        "prepare: stopped at its deadline with SIGKILL after 12s",
        "prepare: running, or interrupted",
        "this VM was paused for 12.0s",
        "350 TCP segments were sent again (4 in the minute before)",
        "7 TCP timeouts",
        "the clock was set by +11.5s",
    ):
        assert text in card
        assert text in history


def test_what_is_not_known() -> None:
    """Without the VM's name, the page says what follows from that; without events, that the history
    is empty.
    """
    nameless = Page(replace(BUSY, vm_name=None, identity=None)).text
    assert (
        "The name of this VM is not known yet, so the exporter cannot tell which events affect it."
        in nameless
    )
    assert "The history of this exporter has no event." in Page(replace(QUIET, recent=())).text


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
    places = [
        text.index(word)
        for word in ("RedeployStarted", "FreezeScheduled", "RebootStarted", "RebootScheduled")
    ]
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
    life = freeze(event_type=event_type, duration_seconds=60.0)
    assert words in Page(replace(QUIET, current={FREEZE_ID: life})).text
    text = Page(
        replace(QUIET, current={FREEZE_ID: freeze(event_type=event_type, duration_seconds=0.0)})
    ).text
    assert "Azure announces no interruption" in text
    assert words not in text


@pytest.mark.parametrize(
    ("life", "rule", "words"),
    [
        (freeze(), "held by rule 'x'", "not yet: held by rule 'x'"),
        (freeze(), "", "not yet: the policy decides at the next answer of the metadata service"),
        (
            freeze(request=Approval(Approver.OPERATOR, Timestamp(NOW))),
            "the approval policy is off",
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
            freeze(state=State.STARTED, approval=Approval(Approver.DEADLINE, Timestamp(NOW))),
            "",
            "not approved: it started at NotBefore",
        ),
        (reboot(), "", "not needed: it has started"),
    ],
)
def test_approval_and_its_rule(life: Lifecycle, rule: str, words: str) -> None:
    """A card says who approved the event and when, or what the policy's rule does with it."""
    statuses = {life.event_id: Decision(rule)} if rule else {}
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


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "less than 0.1s"),
        (0.1, "0.1s"),
        (2.449, "2.4s"),
        (59.9, "59.9s"),
        (85.5, "1m 25s"),
        (7200.0, "2h"),
        (7259.0, "2h 0m 59s"),
        (86_405.0, "1d"),
    ],
)
def test_history_tells_how_long_the_vm_stood_still(seconds: float, words: str) -> None:
    """Beside how long an event was Started stands how long this VM was really paused, if that was
    measured.
    """
    unmeasured, *_ = BUSY.recent
    measured = replace(unmeasured, observed_pause=seconds)
    shown = Page(replace(QUIET, recent=(measured,))).text
    assert f", this VM was paused for {words}." in shown
    assert "was paused" not in Page(replace(QUIET, recent=(unmeasured,))).text


def test_many_vms_and_many_events_are_counted() -> None:
    """A long list is cut and says by how much, this VM is always among the names, and the page
    stays small.
    """
    names = (*(f"vm_{number}" for number in range(3000)), VM)
    many = {
        f"ID-{n}": freeze(event_id=f"ID-{n}", resources=names, description="x" * 9999)
        for n in range(CARDS + 7)
    }
    snapshot = replace(QUIET, current=many)
    shown = Page(snapshot)
    assert "7 more events are not shown; see the events as JSON." in shown.text
    assert f"Affected VMs (3001){VM}, vm_0, " in shown.text
    assert "vm_8, and 2991 more" in shown.text
    assert len(page(snapshot, NOW, "/metrics")) < 250_000


@pytest.mark.parametrize(
    ("life", "expected"),
    [
        (
            ended("Reboot", 5000, 900, 300, 700, Transition.COMPLETED, Approver.OPERATOR, 130),
            {"waiting": (0, 130), "approved": (130, 300), "started": (300, 700)},
        ),
        (
            ended("Freeze", 5000, 900, 900, 960, Transition.COMPLETED, Approver.DEADLINE, 900),
            {"waiting": (0, 900), "started": (900, 960)},
        ),
        (ended("Freeze", 5000, 900, None, 60, Transition.CANCELLED), {"waiting": (0, 60)}),
        (ended("Reboot", 5000, 0, 0, 60, Transition.COMPLETED), {"started": (0, 60)}),
        (freeze(), {"waiting": (0, 28)}),
        (
            freeze(approval=Approval(Approver.EXPORTER, Timestamp(NOW - 8))),
            {"waiting": (0, 20), "approved": (20, 28)},
        ),
    ],
)
def test_phases(life: Lifecycle, expected: dict[str, tuple[float, float]]) -> None:
    """A bar has the phases in their order, one ending where the next begins, in seconds after the
    event was first seen.
    """
    assert phases(life, NOW) == expected


def test_links() -> None:
    """Links to the exporter are relative, so that they work behind a proxy; those to documentation
    exist.
    """
    links = Page(BUSY, telemetry_path="/a:b").links
    pages = [link.removeprefix(DOCUMENTATION) for link in links if link.startswith("https:")]
    assert sorted(pages) == [
        "runbooks/",
        "runbooks/AzureScheduledEventWithoutNotice.md",  # the Freeze of 5 s is harmless
        "status-page.md",
    ]
    assert all((ROOT / "docs" / each).exists() for each in pages)
    relative = [link for link in links if not link.startswith("https:")]
    assert relative == ["#events", "./a:b", "./api/v1/events", "./-/healthy", "./-/ready"]
