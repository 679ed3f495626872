"""What the status page says of a snapshot, and that no text from IMDS can become part of it."""

import base64
import hashlib
from dataclasses import fields, replace

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
