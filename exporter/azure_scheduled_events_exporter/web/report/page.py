"""Writes a report as one HTML file in the style of the status page: no script, printable."""

from azure_scheduled_events_exporter.errors import printable
from azure_scheduled_events_exporter.web.html import Markup, file_text, joined, tag

from .model import Fact, Line, Link, Output, Quoted, Report, Section, Table

# A file has no HTTP headers, so its security policy is in it: no script, and only its own style.
_HEAD = Markup(
    '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
    '<meta name="color-scheme" content="light dark">'
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';'
    " style-src 'unsafe-inline'\">"
)
_STYLE = """
h1 { margin-top: 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); }
th, td { text-align: left; vertical-align: top; }
main dl > div { display: grid; grid-template-columns: 13rem 1fr; gap: .5rem; padding: .2rem 0; }
section > ul { padding-left: 1.2rem; }
pre { padding: .6rem; border: 1px solid var(--line); background: var(--card); }
pre { white-space: pre-wrap; }
@media print {
  :root { color-scheme: light; --page: #fff; --text: #000; --soft: #333; }
  section, tr, pre { break-inside: avoid; }
}
"""


def page(report: Report, written_by: str) -> str:
    """Return the report; ``written_by`` says which program wrote it."""
    style = Markup(f"<style>{file_text('status.css')}{_STYLE}</style>")
    head = tag("head", _HEAD, tag("title", _plain(report.title)), style)
    main = tag(
        "main",
        tag("h1", _line(report.title)),
        _facts(report.summary),
        *map(_section, report.sections),
    )
    body = tag("body", main, tag("footer", tag("p", written_by, class_="remark")))
    return f"<!doctype html>\n{tag('html', head, body, lang='en').text}\n"


def _section(section: Section) -> Markup:
    parts = [tag("h2", section.title)]
    if section.facts:
        parts.append(_facts(section.facts))
    if section.table is not None:
        parts.append(_table(section.table))
    outputs = map(_output, section.outputs)
    return tag("section", *parts, _notes(section.notes), *outputs)


def _facts(facts: tuple[Fact, ...]) -> Markup:
    rows = (tag("div", tag("dt", each.name), tag("dd", _line(each.value))) for each in facts)
    return tag("dl", *rows)


def _notes(notes: tuple[Line, ...]) -> Markup | None:
    """Return nothing for no notes, a paragraph for one, and a list for several."""
    if not notes:
        return None
    if len(notes) == 1:
        return tag("p", _line(notes[0]))
    return tag("ul", *(tag("li", _line(note)) for note in notes))


def _table(table: Table) -> Markup:
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in table.heads)))
    rows = (tag("tr", *(tag("td", _line(cell)) for cell in row)) for row in table.rows)
    return tag("table", head, tag("tbody", *rows))


def _output(output: Output) -> Markup:
    text = "\n".join(printable(line) for line in output.text.splitlines())
    return joined(tag("p", _line(output.title)), tag("pre", text))


def _line(line: Line) -> Markup:
    """Return a line; a quoted text cannot change the writing direction of what is around it."""
    return joined(*map(_part, line))


def _part(part: str | Quoted | Link) -> Markup | str:
    if isinstance(part, Link):
        return tag("a", part.url, href=part.url)
    if isinstance(part, Quoted):
        return tag("bdi", part.shown or "(empty)")
    return part


def _plain(line: Line) -> str:
    """Return a line as text, for the title, which can have no markup."""
    return "".join(map(_text, line))


def _text(part: str | Quoted | Link) -> str:
    if isinstance(part, Quoted):
        return part.shown
    if isinstance(part, Link):
        return part.url
    return part
