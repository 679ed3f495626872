"""Reports in both forms: nothing from outside becomes markup, and what is unknown is named."""

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from azure_scheduled_events_exporter.core.approvals import mark_requested
from azure_scheduled_events_exporter.core.impact import Impact, Readings, Tcp
from azure_scheduled_events_exporter.core.lifecycle import (
    Approval,
    Approver,
    Lifecycle,
    Transition,
)
from azure_scheduled_events_exporter.core.pause import Pause
from azure_scheduled_events_exporter.core.records import change_record
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.snapshot.hooks import HookRun
from azure_scheduled_events_exporter.times import iso_time
from azure_scheduled_events_exporter.web.report import hooks
from azure_scheduled_events_exporter.web.report.content import report
from azure_scheduled_events_exporter.web.report.course import approval, end, start
from azure_scheduled_events_exporter.web.report.markdown import markdown
from azure_scheduled_events_exporter.web.report.measured import clock, interruption, tcp
from azure_scheduled_events_exporter.web.report.model import Asked, Sources
from azure_scheduled_events_exporter.web.report.page import page
from support.events.lives import NOT_BEFORE, SCHEDULED, START, STARTED, Watch, at

HOSTILE = (
    "<script>alert(1)</script>",
    "![x](https://evil.example/p.png)",
    "@team #1 www.evil.example",
    "line\n# heading\n- item",
    "``` ```",
    "`",
    "a | b | c",
    "\x1b]52;c;Zm9v\x07",
    "\u202eright to left",
    "  ",
)


FENCED = re.compile(r"(?ms)^(`{3,})text$.*?^\1$")
"""A block between two lines of as many backticks, three or more."""
CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)")
"""Code within a line, between two runs of as many backticks."""


class Tags(HTMLParser):
    """Collects the tags and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.content = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember a tag."""
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        """Remember text."""
        self.content += data


def hostile(text: str) -> Sources:
    """Return an event whose every text from outside is ``text``."""
    watch = Watch()
    event = replace(SCHEDULED, resources=("vm_0", text), description=text, source=text)
    watch.sees(at(0), event)
    watch.sees(at(10), replace(STARTED, resources=("vm_0", text), description=text, source=text))
    life = replace(watch.life, approval=Approval(Approver.HOOK, at(5), who=text))
    life = replace(life, event=replace(life.event, event_type=text))
    run = HookRun("1", text, "A", text, "prepare", START, "ok", 1.0, 5.0, output=f"{text}\n{text}")
    asked = Asked(text, Approver.OPERATOR, START, text)
    return Sources(life, runs=(run,), asked=(asked,), others=(life,))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_in_html(text: str) -> None:
    """A page has our elements alone: no script, no address, no handler."""
    found = Tags(page(report(hostile(text)), "Written by a test."))
    assert found.tags <= {
        *("html", "head", "meta", "title", "style", "body", "main", "section", "footer"),
        *("h1", "h2", "p", "bdi", "dl", "dt", "dd", "div", "ul", "li", "pre"),
        *("table", "thead", "tbody", "tr", "th", "td"),
    }
    assert found.attributes <= {
        "lang",
        "charset",
        "name",
        "content",
        "http-equiv",
        "scope",
        "class",
    }
    assert "\x1b" not in found.content


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_in_markdown(text: str) -> None:
    """Text from outside stays code of one line: it makes no heading, item, link or column."""
    written = markdown(report(hostile(text)), "Written by a test.")
    expected = markdown(report(hostile("plain")), "Written by a test.")
    assert "\x1b" not in written
    # What a script printed is a fenced block, in which anything may stand.
    lines = FENCED.sub("", written).splitlines()
    ours = FENCED.sub("", expected).splitlines()
    # Two characters tell a heading, an item, a row of a table and a paragraph apart.
    assert [line[:2] for line in lines] == [line[:2] for line in ours]
    for line in lines:
        prose = CODE_SPAN.sub("", line)
        assert not set("<>[]@#") & set(prose.lstrip("#")), line
    rows = [line for line in lines if line.startswith("|")]
    columns = [len(re.findall(r"(?<!\\)\|", row)) for row in rows]  # without escaped ones
    assert columns == [line.count("|") for line in ours if line.startswith("|")]


def test_long_texts() -> None:
    """Of a text that is too long to read, a report has the beginning."""
    watch = Watch()
    watch.sees(at(0), replace(SCHEDULED, description="long " * 200_000))
    content = report(Sources(watch.life))
    for written in (markdown(content, ""), page(content, "")):
        assert "long long long" in written
        assert len(written) < 20_000


def test_a_link_to_the_trace() -> None:
    """The address that the user gives is a link in both forms."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    content = report(Sources(watch.life, trace_link="https://traces.example/1"))
    assert "<https://traces.example/1>" in markdown(content, "")
    assert '<a href="https://traces.example/1">https://traces.example/1</a>' in page(content, "")


def unknowns(watch: Watch) -> list[str]:
    """Return the beginnings of the sentences about what is not known."""
    text = markdown(report(Sources(watch.life)), "").partition("## What is not known\n")[2]
    return [line.removeprefix("- ").partition(":")[0] for line in text.splitlines() if line]


def test_what_is_not_known() -> None:
    """Each thing that nobody saw or measured is named."""
    lost = Watch()
    lost.sees(at(0), SCHEDULED)
    lost.sees(at(3600), watched=False)
    assert lost.life.outcome is Transition.LOST
    assert any(
        each.startswith("Whether it started, how much notice there was, who approved it")
        for each in unknowns(lost)
    )
    external = Watch()
    external.sees(at(0), SCHEDULED)
    external.sees(at(60), STARTED)
    assert "Who approved it" in unknowns(external)
    sudden = Watch()
    sudden.sees(at(0), STARTED)
    assert "When it started, how much notice there was, when it was scheduled" in unknowns(sudden)
    assert any("who approved it" in each.lower() for each in unknowns(sudden))
    written = markdown(report(Sources(sudden.life)), "")
    assert (
        "**Notice:** not known: the first document with it, at 2023-11-14 22:13:20 UTC" in written
    )
    assert "**Promised:**" not in written
    others = Watch("vm_9")
    others.sees(at(0), SCHEDULED)
    others.sees(at(NOT_BEFORE - START), STARTED)
    assert any(each.startswith("How long the VM was interrupted") for each in unknowns(others))


def test_what_was_measured() -> None:
    """What was measured stands beside what was announced, and what was usual before."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.sees(at(NOT_BEFORE - START), STARTED)
    readings = Readings(at(0))
    impact = Impact(readings, readings, before=Tcp(1, 0), during=Tcp(120, 7), clock_step=11.9)
    life = replace(watch.life, observed_pause=12.34, pauses=2, pause_ended=at(920), impact=impact)
    written = markdown(report(Sources(life)), "")
    for row in (
        "| Interruption of the VM | 30s |  | paused for 12.3s, the longest of 2 pauses, from about",
        " from about 2023-11-14 22:28:27 UTC to 2023-11-14 22:28:40 UTC |",
        "| TCP segments sent again |  | 1 | 120 so far |",
        "| TCP retransmission timeouts |  | 0 | 7 so far |",
        "| Step of the clock |  |  | forward by 11.9s so far |",
        "22:28:40 | +15m 20s | The longest of 2 pauses of this VM ended, 12.3s later. |",
    ):
        assert row in written
    assert "How long the VM was interrupted" not in written
    assert "What happened to TCP connections" not in written


def test_what_only_a_boot_proves() -> None:
    """An event that nobody watched has no time of a start, no approval, and no duration."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    booted = at(NOT_BEFORE - START + 60, boot="boot-2")
    watch.sees(at(40_000, boot="boot-2"), watched=False, booted_at=booted)
    assert watch.life.outcome is Transition.COMPLETED
    written = markdown(report(Sources(watch.life)), "")
    boot = "this VM booted at 2023-11-14 22:29:20 UTC, so the event has probably happened"
    assert f"**Started:** not known: nobody watched the start; {boot}\n" in written
    assert f"**Real notice:** not known: nobody watched the start; {boot}\n" in written
    assert "| How long it was Started |  |  | not known: nobody watched the start |" in written
    assert "**Approved by:** not this exporter; the rest is not known: nobody watched" in written
    assert "22:29:20 | +16m | This VM booted. |" in written
    assert "nobody:" not in written


def test_when_tcp_was_measured() -> None:
    """Counters that do not cover the whole event say so."""
    readings = Readings(at(0))
    impact = Impact(readings, readings, during=Tcp(120, 7))
    whole, sudden, restarted = Watch(), Watch(), Watch()
    whole.sees(at(0), SCHEDULED)
    restarted.sees(at(0), SCHEDULED)
    for watch in (whole, sudden, restarted):
        watch.sees(at(10), STARTED)
    for watch, boot, said in (
        (whole, "boot-1", "| 120 in 50s |"),
        (sudden, "boot-1", "| 120 in 50s; the rest is not known: nobody measured before 2023-"),
        (restarted, "boot-2", "| 120 before the restart; the rest is not known: nothing was "),
    ):
        watch.sees(at(60, boot=boot))
        life = replace(watch.life, impact=impact)
        assert said in markdown(report(Sources(life)), "")


def test_the_beginning_of_a_timeline() -> None:
    """The first step is 0 s after the first sight, in a second that has begun."""
    watch = Watch()
    watch.sees(at(0.9), SCHEDULED)
    detected: dict[str, object] = {
        "transition": "detected",
        "at": iso_time(START + 0.9),
        "state": "Scheduled",
    }
    written = markdown(report(Sources(watch.life, transitions=(detected,))), "")
    assert re.search(r"\| \+0s \| First seen: Scheduled", written)


def lives() -> Iterator[Lifecycle]:
    """Yield lives of every course: each end, each approval, watched and unwatched."""
    for watched in (True, False):
        for before in ((), (SCHEDULED,)):
            for approver in (None, *Approver):
                for gone in (30, 901, 40_000):
                    watch = Watch()
                    watch.sees(at(0), *before)
                    if before and approver in {Approver.OPERATOR, Approver.HOOK, Approver.EXPORTER}:
                        watch.approves(at(5), approver)
                    if approver is not None:
                        moment = at(899 if approver is Approver.DEADLINE else 20)
                        watch.sees(moment, *before)
                        watch.sees(replace(moment, wall=moment.wall + 3), STARTED, watched=watched)
                    watch.sees(at(gone + 900, boot="boot-2"), watched=watched)
                    yield from (change.lifecycle for change in watch.changes)


def test_one_answer_in_all_places() -> None:
    """Summary, tables and the list of what is not known give one answer to a question."""
    seen = set()
    for life in lives():
        written = markdown(report(Sources(life)), "")
        summary, _, rest = written.partition("## The event")
        unknown = rest.partition("## What is not known\n")[2].partition("## Trace")[0]
        for answer in (start(life), approval(life), end(life), interruption(life)):
            assert "".join(map(str, answer.line)) in summary
        for answer in (*map(start, [life]), approval(life), interruption(life), tcp(life)):
            is_unknown = answer.question.lower() in unknown.lower()
            assert is_unknown is bool(answer.why), (answer, unknown)
            seen.add(answer)
        assert clock(life).why in unknown
    assert len(seen) > 20, "the lives are different enough to have many answers"


def test_an_approval_that_nobody_could_see() -> None:
    """Only who watched an event wait until NotBefore can say that nobody approved it."""
    watched, asleep, away = Watch(), Watch(), Watch()
    for watch in (watched, asleep, away):
        watch.sees(at(0), SCHEDULED)
    watched.sees(at(899), SCHEDULED)
    watched.sees(at(901), STARTED)
    asleep.sees(at(850), SCHEDULED)
    asleep.sees(at(905), STARTED)
    away.known = replace(away.known, seen={})  # as after a restart of the exporter
    away.sees(at(2000), STARTED, watched=False)
    assert approval(watched.life).why == ""
    assert approval(watched.life).known == ("nobody: it was waiting until NotBefore",)
    assert approval(asleep.life).why == "nobody watched from 2023-11-14 22:27:30 UTC to NotBefore"
    assert approval(away.life).why == "nobody watched the start"
    for watch, moment in (
        (watched, "2023-11-14 22:28:21 UTC, "),
        (asleep, "between 2023-11-14 22:27:30 UTC and 2023-11-14 22:28:25 UTC, "),
        (away, "2023-11-14 22:46:40 UTC at the latest, "),
    ):
        [when] = start(watch.life).known
        assert str(when).startswith(moment)


@pytest.mark.parametrize(
    ("outcome", "duration", "left", "said"),
    [
        pytest.param("ok", 50.0, 800.0, "prepare ok;", id="in time"),
        pytest.param(
            "ok", 126.0, 700.0, "prepare ok, but 26.0s too late: this VM was not", id="late"
        ),
        pytest.param("too_late", 950.0, -50.0, "prepare ok, but 14m 10s too late", id="very late"),
        pytest.param("too_late", None, -5.0, "prepare not run: it was too late", id="not run"),
        pytest.param(
            "failed", 3.0, 800.0, "prepare failed: this VM was not prepared;", id="failed"
        ),
        pytest.param(
            "timeout", 9.0, 800.0, "stopped at its deadline: this VM was not", id="stopped"
        ),
        pytest.param(None, None, None, "prepare no end is recorded", id="interrupted"),
    ],
)
def test_what_a_script_did(
    outcome: str | None, duration: float | None, left: float | None, said: str
) -> None:
    """The summary says whether the VM was prepared, in the words of the table and the timeline."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.sees(at(100), STARTED)
    watch.sees(at(101))
    run = HookRun("1", "save", "A", "Reboot", "prepare", START, outcome, duration, left)
    written = markdown(report(Sources(watch.life, runs=(run,))), "")
    summary, _, rest = written.partition("## The event")
    assert said in summary
    assert rest.count(hooks.outcome(run, watch.life)) >= 2
    is_late = hooks.too_late(run, watch.life) is not None and (left or -1.0) > 0
    assert ("| none: it had started |" in rest) is is_late


@pytest.mark.parametrize(
    ("end", "said"),
    [
        pytest.param({"exit_status": 3}, "prepare failed with exit status 3", id="status"),
        pytest.param({"signal": "SIGSEGV"}, "prepare failed with SIGSEGV", id="signal"),
        pytest.param({}, "prepare failed: this VM was not prepared", id="neither is known"),
    ],
)
def test_how_a_command_ended(end: dict[str, Any], said: str) -> None:
    """The summary and the timeline have the exit status or the signal of a command that failed."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    run = HookRun("1", "save", "A", "Reboot", "prepare", START, "failed", 1.0, 800.0, **end)
    written = markdown(report(Sources(watch.life, runs=(run,))), "")
    summary, _, rest = written.partition("## The event")
    assert said in summary
    assert f"prepare ended: {hooks.outcome(run, watch.life)}." in rest


def test_why_no_hook_ran() -> None:
    """Without a run, a report says why, as far as the journal knows."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    other = Watch("vm_9")
    other.sees(at(0), SCHEDULED)
    sudden = Watch()
    sudden.sees(at(0), STARTED)
    for sources, said in (
        (
            Sources(watch.life),
            "the journal has no run of a hook; whether one was set up is not recorded",
        ),
        (Sources(watch.life, hooks=("save",)), "one ran for other events"),
        (Sources(other.life), "a hook prepares only for events of its own VM"),
        (
            Sources(sudden.life),
            "for an event that has started; whether one was set up is not recorded",
        ),
    ):
        assert markdown(report(sources), "").count(said) == 2


def test_an_approval_without_an_answer() -> None:
    """If a request had no answer, and the event started, the approval is only probable."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.known = mark_requested(watch.known, "A", Approver.OPERATOR, at(5), who="anna")
    watch.sees(at(8), STARTED)
    _detected, approved_then, _started = watch.changes
    approved = change_record(approved_then)
    written = markdown(report(Sources(watch.life, transitions=(approved,))), "")
    assert "**Approved by:** probably a person on this VM: `anna`; the rest is not" in written
    assert "| Probably approved: a request from this VM had no answer. |" in written
    assert "| Approved" not in written


def test_how_long_an_event_was_started() -> None:
    """Its length is as exact as the documents before its start and its end.

    ``gap`` is in seconds between a document and the one before.
    """
    rest = "; the rest is not known: nobody watched the"
    for is_start_watched, is_end_watched, gap, said in (
        (True, True, 1, "50s"),
        (True, True, 9, "about 50s"),
        (False, True, 1, f"at least 50s{rest} start"),
        (True, False, 1, f"at most 50s{rest} end"),
        (False, False, 1, f"about 50s{rest} start and the end"),
    ):
        watch = Watch()
        watch.sees(at(901 - gap), SCHEDULED)
        if not is_start_watched:
            watch.known = replace(watch.known, seen={})  # as after a restart of the exporter
        watch.sees(at(901), STARTED, watched=is_start_watched)
        watch.sees(at(951 - gap), STARTED)
        if not is_end_watched:
            watch.known = replace(watch.known, seen={})
        watch.sees(at(951), watched=is_end_watched)
        written = markdown(report(Sources(watch.life)), "")
        assert f"| How long it was Started |  |  | {said} |" in written


def test_a_vm_whose_name_is_not_known() -> None:
    """An exporter that does not know its VM does not claim that the event is another one's."""
    watch = Watch(None)
    watch.sees(at(0), SCHEDULED)
    watch.sees(at(901), STARTED)
    written = markdown(report(Sources(watch.life)), "")
    assert written.count("it is not known whether this VM is one of its VMs") >= 3
    assert "this VM is not one" not in written


def test_a_restart_in_the_longest_pause() -> None:
    """A VM that restarted was away, not paused; a boot before the pause is none in it."""
    for boot, said in (
        (940, "away for at most 1m: from the last sign of life, at"),
        (880, "paused once, for 1m, from"),
    ):
        watch = Watch()
        watch.sees(at(0), SCHEDULED)
        watch.sees(at(901), STARTED)
        ended = Timestamp(START + 970, 970.0 - boot, "boot-2")
        life = replace(watch.life, observed_pause=60.0, pauses=1, pause_ended=ended)
        written = markdown(report(Sources(life)), "")
        assert f"measured on this VM:** {said} about 2023-11-14 22:28:30 UTC" in written
        is_away = said.startswith("away")
        assert (
            "at 2023-11-14 22:29:30 UTC; the VM booted at 2023-11-14 22:29:00" in written
        ) is is_away
        assert (
            "| The first look of the exporter after the restart, 1m later" in written
        ) is is_away


def test_no_pause() -> None:
    """If no pause was seen, a report does not give a length."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.sees(at(901), STARTED, pause=Pause(0.03, ended=at(900)))
    written = markdown(report(Sources(watch.life)), "")
    assert "| Interruption of the VM | 30s |  | no pause of 0.1s or more was seen |" in written
    assert "pause of this VM" not in written


def test_repeated_preparations() -> None:
    """A failed preparation that was repeated is one row, and the same output is shown once."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    runs = tuple(
        HookRun(str(n), "save", "A", "Reboot", "prepare", START + 20 * n, *end_of_run)
        for n, end_of_run in enumerate([("failed", 1.0), ("failed", 1.0), ("ok", 1.0)])
    )
    failed = [replace(run, output="no route", exit_status=3) for run in runs[:2]]
    last = replace(runs[2], output="saved")
    written = markdown(report(Sources(watch.life, runs=(*failed, last))), "")
    assert (
        written.count("prepare failed with exit status 3 after 1.0s, and was repeated: `save`") == 2
    )
    assert written.count("no route") == 1
    assert "Runs that wrote the same have their output once" in written
    assert "`save`: prepare ok in run 3, the last one" in written
    written = markdown(report(Sources(watch.life, runs=tuple(failed))), "")
    assert "`save`: all 2 runs of prepare failed: this VM was not prepared" in written
