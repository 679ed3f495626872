"""What a report says of the course of an event, and that it names what is not known."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from azure_scheduled_events_exporter.core.approvals import mark_requested
from azure_scheduled_events_exporter.core.document import ScheduledEvent
from azure_scheduled_events_exporter.core.lifecycle import (
    Approver,
    Lifecycle,
    Transition,
)
from azure_scheduled_events_exporter.core.records import change_record
from azure_scheduled_events_exporter.times import iso_time
from azure_scheduled_events_exporter.web.report.content import report
from azure_scheduled_events_exporter.web.report.course import approval, boots, end, start
from azure_scheduled_events_exporter.web.report.markdown import markdown
from azure_scheduled_events_exporter.web.report.measured import clock, interruption, tcp
from azure_scheduled_events_exporter.web.report.model import Asked, Sources
from support.events.lives import NOT_BEFORE, SCHEDULED, START, STARTED, Watch, at


def unknowns(watch: Watch) -> list[str]:
    """Return the beginnings of the sentences about what is not known."""
    text = markdown(report(Sources(watch.life)), "").partition("## What is not known\n")[2]
    return [line.removeprefix("- ").partition(":")[0] for line in text.splitlines() if line]


def test_a_lost_event() -> None:
    """Of an event that was gone after nobody had polled for a while, hardly anything is known."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.sees(at(3600), watched=False)
    assert watch.life.outcome is Transition.LOST
    assert any(
        each.startswith("Whether it started, how much notice there was, who approved it")
        for each in unknowns(watch)
    )


def test_an_approval_from_elsewhere() -> None:
    """Of an event that began early without an approval from here, nobody knows who approved it."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.sees(at(60), STARTED)
    assert "Who approved it" in unknowns(watch)


def test_an_event_that_was_first_seen_started() -> None:
    """Of an event that no document showed as Scheduled, start, notice and approval are unknown."""
    watch = Watch()
    watch.sees(at(0), STARTED)
    assert "When it started, how much notice there was, when it was scheduled" in unknowns(watch)
    assert any("who approved it" in each.lower() for each in unknowns(watch))
    written = markdown(report(Sources(watch.life)), "")
    assert (
        "**Notice:** not known: the first document with it, at 2023-11-14 22:13:20 UTC" in written
    )
    assert "**Promised:**" not in written


def test_notice_that_is_shorter_than_documented() -> None:
    """The documented notice, the promised one and the difference are in whole seconds that add up:
    30 = 4 + 26, although 4.8 s were promised.
    """
    watch = Watch()
    watch.sees(at(0), replace(SCHEDULED, event_type="Preempt", not_before=START + 4.8))
    written = markdown(report(Sources(watch.life)), "")
    assert "**Promised:** 4s, from first seen" in written
    assert "**Documented:** 30s. 26s less than that were promised" in written


def test_an_approval_in_the_second_of_its_request() -> None:
    """In the timeline, a request comes before the approval and the start that follow from it, which
    the journal has without fractions of a second.
    """
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.sees(at(6), SCHEDULED)
    watch.approves(at(6.6), Approver.OPERATOR)
    watch.sees(at(6.8), STARTED)
    transitions = tuple(change_record(change) for change in watch.changes)
    asked = Asked("root", Approver.OPERATOR, at(6.5).wall, "accepted")
    written = markdown(report(Sources(watch.life, transitions, asked=(asked,))), "")
    order = ("First seen", "The operator `root` asked", "Approved by a person", "Started: the")
    rows = written.partition("## Timeline")[2].splitlines()
    found = [start for row in rows for start in order if f"| {start}" in row]
    assert found == list(order)


def test_a_request_in_the_second_of_a_start_from_elsewhere() -> None:
    """A request that came after a start of the same second has nothing to do with that: the start
    keeps its place in the timeline.
    """
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.sees(at(6), SCHEDULED)
    watch.sees(at(6.1), STARTED)
    transitions = tuple(change_record(change) for change in watch.changes)
    asked = Asked("root", Approver.OPERATOR, at(6.9).wall, "it has started already")
    written = markdown(report(Sources(watch.life, transitions, asked=(asked,))), "")
    order = ("It started before NotBefore", "Started: the", "The operator `root` asked")
    rows = written.partition("## Timeline")[2].splitlines()
    found = [start for row in rows for start in order if f"| {start}" in row]
    assert found == list(order)


def test_an_event_of_another_vm() -> None:
    """This VM cannot measure the interruption of another one."""
    watch = Watch("vm_9")
    watch.sees(at(0), SCHEDULED)
    watch.sees(at(NOT_BEFORE - START), STARTED)
    assert any(each.startswith("How long the VM was interrupted") for each in unknowns(watch))


def test_an_unknown_type() -> None:
    """Of a type that Azure does not document, the report says that its notice and its effect are
    not known.
    """
    watch = Watch()
    watch.sees(at(0), replace(SCHEDULED, event_type="Vaporize"))
    assert "What the event does" in unknowns(watch)
    written = markdown(report(Sources(watch.life)), "")
    assert "**Documented:** not known: Azure documents no such type\n" in written


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
    assert "nobody:" not in written, "that nobody approved it is not known either"


def test_a_boot_during_the_event() -> None:
    """Only a boot before the first sight may explain that an event had started already."""
    sudden = Watch()
    sudden.sees(replace(at(0), monotonic=86_400.0), STARTED)  # the VM has been up for a day
    sudden.sees(replace(at(600, boot="boot-2"), monotonic=300.0))  # it has been up for 300 s
    assert boots(sudden.life) == (at(600 - 300).wall,)
    assert "had booted" not in start(sudden.life).why


def test_the_beginning_of_a_timeline() -> None:
    """The first step of a timeline is 0 s after the event was first seen, also if that was in the
    middle of a second: the journal has its time in whole seconds.
    """
    watch = Watch()
    watch.sees(at(0.9), SCHEDULED)
    detected: dict[str, object] = {
        "transition": "detected",
        "at": iso_time(START + 0.9),
        "state": "Scheduled",
    }
    written = markdown(report(Sources(watch.life, transitions=(detected,))), "")
    assert re.search(r"\| \+0s \| First seen: Scheduled", written)


APPROVED_FROM_HERE = {Approver.OPERATOR, Approver.HOOK, Approver.EXPORTER}


def course(
    before: Sequence[ScheduledEvent], approver: Approver | None, gone_at: float, *, watched: bool
) -> Watch:
    """Return what an exporter has seen of one event, and that its VM has booted meanwhile.

    Args:
        before: the events of the documents before the start: the event as Scheduled, or none.
        approver: who approves the event; None: it does not start.
        gone_at: when a document lacks it, in seconds after START.
        watched: whether somebody saw its start and its end.
    """
    watch = Watch()
    watch.sees(at(0), *before)
    if before and approver in APPROVED_FROM_HERE:
        watch.approves(at(5), approver)
    if approver is not None:
        last_before_start = 20
        if approver is Approver.DEADLINE:
            last_before_start = 899  # NotBefore is at 900 s
        watch.sees(at(last_before_start), *before)
        watch.sees(at(last_before_start + 3), STARTED, watched=watched)
    watch.sees(at(gone_at, boot="boot-2"), watched=watched)
    return watch


def lives() -> Iterator[Lifecycle]:
    """Yield lives of every course: each end, each approval, watched and unwatched, with an end soon
    after NotBefore or hours later.
    """
    not_before = NOT_BEFORE - START
    for before, approver, gone_at, watched in product(
        ((), (SCHEDULED,)),
        (None, *Approver),
        (not_before + 30, not_before + 40_000),
        (True, False),
    ):
        watch = course(before, approver, gone_at, watched=watched)
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
        # An answer that is not known, or not whole, says why.
        for answer in (start(life), approval(life), interruption(life), tcp(life), clock(life)):
            is_unknown = answer.question.lower() in unknown.lower()
            assert is_unknown is bool(answer.why), (answer, unknown)
            seen.add(answer)
    assert len(seen) > 20, "the lives are different enough to have many answers"


def test_an_approval_that_nobody_could_see() -> None:
    """Only who watched an event wait until NotBefore can say that nobody approved it."""
    watched = Watch()
    asleep = Watch()
    away = Watch()
    for watch in (watched, asleep, away):
        watch.sees(at(0), SCHEDULED)
    watched.sees(at(899), SCHEDULED)
    watched.sees(at(901), STARTED)
    asleep.sees(at(850), SCHEDULED)
    asleep.sees(at(905), STARTED)
    away.restarts()
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


def test_an_approval_without_an_answer() -> None:
    """If a request had no answer, and the event started, the approval is only probable."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.known = mark_requested(watch.known, "A", Approver.OPERATOR, at(5), who="anna")
    watch.sees(at(8), STARTED)
    _detected, approved, _started = watch.changes
    written = markdown(report(Sources(watch.life, transitions=(change_record(approved),))), "")
    assert "**Approved by:** probably a person on this VM: `anna`; the rest is not" in written
    assert "| Probably approved: a request from this VM had no answer. |" in written
    assert "| Approved" not in written


def test_a_vm_whose_name_is_not_known() -> None:
    """An exporter that does not know its VM does not claim that the event is another one's."""
    watch = Watch(None)
    watch.sees(at(0), SCHEDULED)
    watch.sees(at(901), STARTED)
    written = markdown(report(Sources(watch.life)), "")
    assert written.count("it is not known whether this VM is one of its VMs") >= 3
    assert "this VM is not one" not in written
