"""Reports in both forms: nothing from outside becomes markup."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from azure_scheduled_events_exporter.core.lifecycle import (
    Approval,
    Approver,
)
from azure_scheduled_events_exporter.snapshot.hooks import HookRun
from azure_scheduled_events_exporter.web.report.content import report
from azure_scheduled_events_exporter.web.report.markdown import markdown
from azure_scheduled_events_exporter.web.report.model import Asked, Sources
from azure_scheduled_events_exporter.web.report.page import page
from support.events.lives import SCHEDULED, START, STARTED, Watch, at

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
    run = HookRun(
        run="1",
        command=text,
        event_id="A",
        event_type=text,
        phase="prepare",
        started=START,
        outcome="ok",
        duration=1.0,
        output=f"{text}\n{text}",
    )
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
    of_a_plain_word = markdown(report(hostile("plain")), "Written by a test.")
    assert "\x1b" not in written
    # What a script printed is a fenced block, in which anything may stand.
    lines = FENCED.sub("", written).splitlines()
    expected = FENCED.sub("", of_a_plain_word).splitlines()
    # Two characters tell a heading, an item, a row of a table and a paragraph apart.
    assert [line[:2] for line in lines] == [line[:2] for line in expected]
    for line in lines:
        prose = CODE_SPAN.sub("", line).lstrip("#")  # without the marks of our own headings
        assert not set("<>[]@#") & set(prose), line
    rows = [line for line in lines if line.startswith("|")]
    columns = [len(re.findall(r"(?<!\\)\|", row)) for row in rows]  # without escaped ones
    assert columns == [line.count("|") for line in expected if line.startswith("|")]


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
