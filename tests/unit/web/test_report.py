"""Reports in both forms: nothing from outside becomes markup, and what is unknown is named."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from azure_scheduled_events_exporter.core.impact import Impact, Readings, Tcp
from azure_scheduled_events_exporter.core.lifecycle import Approval, Approver, Transition
from azure_scheduled_events_exporter.snapshot.hooks import HookRun
from azure_scheduled_events_exporter.times import iso_time
from azure_scheduled_events_exporter.web.report.content import report
from azure_scheduled_events_exporter.web.report.markdown import markdown
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
    without_output = re.sub(r"(?ms)^(`{3,})text$.*?^\1$", "", written)
    lines = without_output.splitlines()
    ours = re.sub(r"(?ms)^(`{3,})text$.*?^\1$", "", expected).splitlines()
    assert [line[:2] for line in lines] == [line[:2] for line in ours]
    for line in lines:
        code = re.sub(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", "", line)
        assert not set("<>[]@#") & set(code.lstrip("#")), line
    rows = [line for line in lines if line.startswith("|")]
    columns = [len(re.findall(r"(?<!\\)\|", row)) for row in rows]
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
    assert "How it ends" in unknowns(lost)
    lost.sees(at(3600), watched=False)
    assert lost.life.outcome is Transition.LOST
    assert "Whether it happened" in unknowns(lost)
    external = Watch()
    external.sees(at(0), SCHEDULED)
    external.sees(at(60), STARTED)
    assert "Who approved it" in unknowns(external)
    sudden = Watch()
    sudden.sees(at(0), STARTED)
    assert "When it was scheduled, when it started, and who approved it" in unknowns(sudden)
    others = Watch("vm_9")
    others.sees(at(0), SCHEDULED)
    others.sees(at(NOT_BEFORE - START), STARTED)
    assert "What the affected VMs noticed" in unknowns(others)


def test_what_was_measured() -> None:
    """What was measured stands beside what was announced, and what was usual before."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.sees(at(NOT_BEFORE - START), STARTED)
    readings = Readings(at(0))
    impact = Impact(readings, readings, before=Tcp(1, 0), during=Tcp(120, 7), clock_step=11.9)
    life = replace(watch.life, observed_pause=12.34, pauses=2, impact=impact)
    written = markdown(report(Sources(life)), "")
    for row in (
        "| Interruption of the VM | 30s | 12.3s, the longest of 2 pauses |",
        "| TCP segments sent again | 1 in the minute before | 120 |",
        "| TCP retransmission timeouts | 0 in the minute before | 7 |",
        "| Step of the clock |  | +11.9 s |",
    ):
        assert row in written
    assert "How long the VM was interrupted" not in written
    assert "What happened to TCP connections" not in written


def test_what_only_a_boot_proves() -> None:
    """An event that nobody watched has no time of a start, and no duration."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    booted = at(NOT_BEFORE - START + 60, boot="boot-2")
    watch.sees(at(40_000, boot="boot-2"), watched=False, booted_at=booted)
    assert watch.life.outcome is Transition.COMPLETED
    written = markdown(report(Sources(watch.life)), "")
    assert "Nobody watched it start: this VM has booted since, so it happened. Over by " in written
    assert "| Time Started |  | unknown: nobody watched |" in written
    assert "Until the start" not in written
    assert "When exactly it started" in unknowns(watch)


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
        (whole, "boot-1", "| 120 |"),
        (sudden, "boot-1", "| 120, since it was first seen |"),
        (restarted, "boot-2", "| 120, until this VM restarted |"),
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
