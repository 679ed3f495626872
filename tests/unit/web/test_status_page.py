"""What the status page says of a snapshot, and that no text from IMDS can become part of it."""

import base64
import hashlib
from dataclasses import fields, replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from azure_scheduled_events_exporter import DOCUMENTATION
from azure_scheduled_events_exporter.core.document import ScheduledEvent, Scope
from azure_scheduled_events_exporter.core.impact import Impact, Readings, Tcp
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.lifecycle import (
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
from azure_scheduled_events_exporter.web.status_page import page_headers
from support.events.status_reader import Page
from support.events.status_scene import (
    BLIND,
    BUSY,
    NOW,
    POLLS,
    QUIET,
    freeze,
)
from support.paths import ROOT

HOSTILE = (
    "</title></style></script><script>hacked()</script>"
    """<img src=x onerror='hacked()' style="x">&amp;"""
)


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


# Underscores at the beginning of a VM's name are left out. Nothing is left of a name that consists
# of them.
@given(st.text(min_size=1, max_size=80).filter(lambda text: text.strip("_")))
@example(HOSTILE)
@example("'\" onclick=hacked() x='")
@example("<!-- ")
@example("-->]]><svg/onload=hacked()>")
def test_no_text_becomes_markup(text: str) -> None:
    """Whatever IMDS sends in any field, the page has the elements it has otherwise, and shows the
    text as it is.
    """
    benign = Page(foreign("text"))
    hostile = Page(foreign(text))
    assert hostile.structure == benign.structure
    assert hostile.links == benign.links
    assert text in hostile.text


def hash_source(text: str) -> str:
    """Return how a security policy names an inline script or style of this text."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def test_policy_names_the_style_and_the_script_of_the_page() -> None:
    """The security policy allows exactly the page's own style and script, and connections to the
    exporter alone.
    """
    policy = dict(page_headers())["Content-Security-Policy"]
    directives = dict(directive.split(" ", 1) for directive in policy.split("; "))
    inline = Page(BUSY).inline
    assert directives == {
        "default-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "script-src": hash_source(inline["script"]),
        "style-src": hash_source(inline["style"]),
        "connect-src": "'self'",
    }


def test_no_element_has_a_style_or_a_handler_of_its_own() -> None:
    """The security policy forbids both in attributes."""
    names = {
        name
        for snapshot in (BUSY, QUIET, BLIND)
        for _, attributes in Page(snapshot).structure
        for name in attributes
    }
    assert [name for name in names if name == "style" or name.startswith("on")] == []


def test_all_quiet() -> None:
    """If IMDS answers and has no events, the page says so, also to a screen reader."""
    assert "No events: Azure has announced nothing" in Page(QUIET).text
    assert Page(QUIET).main["data-announcement"] == "IMDS answers, no events"


NEVER_ANSWERED = Snapshot(polls=Polls())


@pytest.mark.parametrize(
    ("snapshot", "reason"),
    [
        pytest.param(NEVER_ANSWERED, "IMDS has not answered yet", id="no answer yet"),
        pytest.param(
            replace(
                NEVER_ANSWERED,
                polls=Polls(
                    {**Polls().outcomes, Outcome.HTTP_ERROR: 1}, failure="IMDS answered 503"
                ),
            ),
            "IMDS answered 503",
            id="refused",
        ),
        pytest.param(replace(BLIND, current={}), "IMDS gives no valid answer", id="IMDS fails"),
        pytest.param(
            replace(QUIET, polls=replace(POLLS, last_success=NOW - 60)),
            "IMDS gives no valid answer",
            id="the last answer is old",
        ),
        pytest.param(
            Snapshot(polls=Polls(failure="a poll hangs since 170s", hanging=True)),
            "a poll hangs since 170s",
            id="a poll hangs",
        ),
    ],
)
def test_without_an_answer_nobody_knows_whether_there_are_events(
    snapshot: Snapshot, reason: str
) -> None:
    """While IMDS does not answer, the page says that it is unknown whether there are events, and
    gives the reason.
    """
    shown = Page(snapshot)
    assert "No events" not in shown.text
    assert "Unknown." in shown.text
    assert "IMDS answers" not in shown.text
    assert "is unknown" in (shown.main["data-announcement"] or "")
    assert reason in shown.text


def test_a_poll_that_hangs_is_not_a_late_first_answer() -> None:
    """The first answer may take two minutes; that is not said of a poll that hangs."""
    hanging = Snapshot(polls=Polls(failure="a poll hangs since 170s", hanging=True))
    assert "two minutes" not in Page(hanging).text
    assert "two minutes" in Page(NEVER_ANSWERED).text


def test_a_document_that_is_partly_unreadable() -> None:
    """If only a part of a document can be read, the page says what is wrong with the rest, and that
    events may be missing. It does not say that all it shows is from the last valid answer, because
    what can be read may be new.
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


def test_a_journal_in_memory_has_no_report() -> None:
    """The page of an event does not offer the command ``report``, which reads the journal from its
    file: a journal in memory has none.
    """
    life = freeze()
    on_disk = replace(QUIET, current={life.event_id: life}, journal=JournalState(up=True))
    in_memory = replace(on_disk, journal=JournalState(up=None))
    assert " report " in Page(on_disk).text
    assert " report " not in Page(in_memory).text


def hook_runs(event_id: str) -> tuple[HookRun, ...]:
    """Return four runs of a hook for an event, one of each end: it is done, it failed, it was
    stopped at its deadline, and it is running or was interrupted.
    """
    done = HookRun(
        run="r",
        command="drain",
        event_id=event_id,
        event_type="Freeze",
        phase="prepare",
        started=NOW - 90,
        outcome="ok",
        duration=12.0,
        seconds_left=18.0,
    )
    failed = replace(done, outcome="failed", exit_status=3)
    stopped = replace(done, outcome="timeout", signal="SIGKILL")
    running = replace(done, outcome=None, duration=None, seconds_left=None)
    return done, failed, stopped, running


def test_what_hooks_did_and_what_was_measured() -> None:
    """Card and history show what a hook did for the event, and what the event did to the VM."""
    readings = Readings(Timestamp(NOW - 60))
    impact = Impact(
        begins=readings,
        ends=readings,
        before=Tcp(retransmitted=4, timeouts=0),
        during=Tcp(retransmitted=350, timeouts=7),
        clock_step=11.5,
    )
    life = freeze(
        state=State.STARTED,
        started_at=Timestamp(NOW - 60),
        observed_pause=12.0,
        impact=impact,
    )
    shown = Page(
        replace(QUIET, current={life.event_id: life}, hook_runs=hook_runs(life.event_id))
    ).text
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


def test_a_single_tcp_segment() -> None:
    """One TCP segment that was sent again, and one timeout, are told in the singular."""
    readings = Readings(Timestamp(NOW - 60))
    once = Impact(begins=readings, ends=readings, during=Tcp(retransmitted=1, timeouts=1))
    life = freeze(state=State.STARTED, started_at=Timestamp(NOW - 60), impact=once)
    shown = Page(replace(QUIET, current={life.event_id: life})).text
    assert ", 1 TCP segment was sent again, 1 TCP timeout." in shown


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
