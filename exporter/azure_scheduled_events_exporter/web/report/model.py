"""What a report is made from (:class:`Sources`), and what it consists of (:class:`Report`).

Data only: ``content`` makes a report from the sources, and ``markdown`` and ``page`` write it.

Text from outside is a :class:`Quoted`, so that no form of the report can take it for markup.
"""

from dataclasses import dataclass

from azure_scheduled_events_exporter.core.lifecycle import Approver, Lifecycle
from azure_scheduled_events_exporter.core.records import Record
from azure_scheduled_events_exporter.errors import printable
from azure_scheduled_events_exporter.snapshot.hooks import HookRun
from azure_scheduled_events_exporter.web.wording import clipped


@dataclass(frozen=True, slots=True)
class Quoted:
    """A text from outside: from IMDS, from an operator or from a script."""

    text: str

    @property
    def shown(self) -> str:
        """Its beginning on one line, without control characters; ``""`` if there is nothing."""
        return clipped(printable(self.text)).strip()


@dataclass(frozen=True, slots=True)
class Link:
    """An address of the web that the user has given, without spaces and angle brackets."""

    url: str


Line = tuple[str | Quoted | Link, ...]
"""A sentence or a cell, of our words and of quoted ones."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A value under its name."""

    name: str
    value: Line


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under their heads."""

    heads: tuple[str, ...]
    rows: tuple[tuple[Line, ...], ...]


@dataclass(frozen=True, slots=True)
class Output:
    """The last lines that a script has written."""

    title: Line
    text: str


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report. What it does not have is left out."""

    title: str
    facts: tuple[Fact, ...] = ()
    table: Table | None = None
    notes: tuple[Line, ...] = ()
    outputs: tuple[Output, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """A report: title, summary, and parts."""

    title: Line
    summary: tuple[Fact, ...]
    sections: tuple[Section, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to approve the event.

    Attributes:
        who: the login name of the operator, or the name of the hook's script.
        approver: operator or hook.
        at: when it was made, Unix seconds.
        result: what became of it; ``""`` while that is open.
    """

    who: str
    approver: Approver
    at: float
    result: str


@dataclass(frozen=True, slots=True)
class Sources:
    """What the journal has about one event.

    Attributes:
        life: the event.
        transitions: its transitions, the oldest first.
        runs: what hooks ran for it, the oldest first.
        hooks: the command lines of the hooks that the journal knows, also from other events.
        asked: the requests to approve it, the oldest first.
        others: events that were current at the same time.
        trace_link: the address of its trace; ``""`` if nobody has given one.
    """

    life: Lifecycle
    transitions: tuple[Record, ...] = ()
    runs: tuple[HookRun, ...] = ()
    hooks: tuple[str, ...] = ()
    asked: tuple[Asked, ...] = ()
    others: tuple[Lifecycle, ...] = ()
    trace_link: str = ""
