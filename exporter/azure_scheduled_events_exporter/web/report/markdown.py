"""Writes a report as Markdown, as GitHub and GitLab render it.

Quoted text becomes code, in which nothing is markup: no HTML, link, image or mention.
"""

import re

from azure_scheduled_events_exporter.errors import printable

from .model import Fact, Line, Link, Output, Quoted, Report, Section, Table


def markdown(report: Report, written_by: str) -> str:
    """Return the report; ``written_by`` says which program wrote it."""
    parts = [f"# {_line(report.title)}", _facts(report.summary)]
    for section in report.sections:
        parts += _section(section)
    parts.append(written_by)
    return "\n\n".join(parts) + "\n"


def _section(section: Section) -> list[str]:
    parts = [f"## {section.title}"]
    if section.facts:
        parts.append(_facts(section.facts))
    if section.table is not None:
        parts.append(_table(section.table))
    parts += _notes(section.notes)
    parts += [_output(output) for output in section.outputs]
    return parts


def _facts(facts: tuple[Fact, ...]) -> str:
    return "\n".join(f"- **{each.name}:** {_line(each.value)}" for each in facts)


def _notes(notes: tuple[Line, ...]) -> list[str]:
    """Return one note as a paragraph, several as a list."""
    if len(notes) == 1:
        return [_line(notes[0])]
    if not notes:
        return []
    return ["\n".join(f"- {_line(note)}" for note in notes)]


def _table(table: Table) -> str:
    """Return a table; a vertical bar in a cell is escaped."""
    rows = [list(table.heads)]
    rows.append(["---"] * len(table.heads))
    for row in table.rows:
        cells = [_line(cell) for cell in row]
        rows.append([cell.replace("|", r"\|") for cell in cells])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def _output(output: Output) -> str:
    text = "\n".join(printable(line) for line in output.text.splitlines())
    fence = _fence(text, 3)
    return f"{_line(output.title)}:\n\n{fence}text\n{text}\n{fence}"


def _line(line: Line) -> str:
    return "".join(map(_part, line))


def _part(part: str | Quoted | Link) -> str:
    if isinstance(part, Link):
        return f"<{part.url}>"
    if isinstance(part, Quoted):
        return _code(part)
    return part


def _code(quoted: Quoted) -> str:
    """Return a text from outside as code of one line (CommonMark, 6.1)."""
    shown = quoted.shown
    if not shown:
        return "(empty)"
    fence = _fence(shown, 1)
    pad = ""
    if "`" in (shown[0], shown[-1]):  # would count as part of the fence
        pad = " "
    return f"{fence}{pad}{shown}{pad}{fence}"


def _fence(text: str, least: int) -> str:
    """Return more backticks than ``text`` has in a row, at least ``least``."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * max(least, longest + 1)
