"""The result of one check. Must not depend on parts of the chain or on how findings are printed."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from azure_scheduled_events_exporter import DOCUMENTATION


class Mark(StrEnum):
    """How a check ended. Only ``WRONG`` makes the command fail."""

    OK = "ok"
    NOTE = "note"
    SKIPPED = "skipped"
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    Attributes:
        check: the check's name; docs/doctor.md has a row for each.
        mark: how it ended.
        sentence: the result, for people.
        hint: what to do about it; ``""`` when it is ok.
        page: the page with more information, as a path below ``docs/``.
    """

    check: str
    mark: Mark
    sentence: str
    hint: str = ""
    page: str = ""

    @property
    def link(self) -> str:
        """The address of :attr:`page`."""
        return f"{DOCUMENTATION}{self.page}" if self.page else ""


Findings = Iterator[Finding]


def ok(check: str, sentence: str) -> Finding:
    """Return a finding of a check that passed."""
    return Finding(check, Mark.OK, sentence)


def note(check: str, sentence: str) -> Finding:
    """Return a finding that is neither right nor wrong, such as a feature that is not used."""
    return Finding(check, Mark.NOTE, sentence)


def skipped(check: str, sentence: str, hint: str = "", page: str = "") -> Finding:
    """Return that something was not checked; ``sentence`` says why."""
    return Finding(check, Mark.SKIPPED, sentence, hint, page)


def warning(check: str, sentence: str, hint: str, page: str) -> Finding:
    """Return a finding that does not make the command fail."""
    return Finding(check, Mark.WARNING, sentence, hint, page)


def wrong(check: str, sentence: str, hint: str, page: str) -> Finding:
    """Return a finding that makes the command fail."""
    return Finding(check, Mark.WRONG, sentence, hint, page)
