"""An answer to a question of a post-mortem, with what is not known about it.

A report gives an answer in several places: its summary, a table, and the list of what is not known.
All of them relay the same :class:`Answer`, so that they cannot contradict each other. Pure.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from azure_scheduled_events_exporter.times import iso_time

from .model import Line


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known and what is not.

    Attributes:
        question: such as "Who approved it".
        known: what is known; empty if nothing is.
        why: why nothing, or no more, is known; ``""`` if all is.
        hint: a sentence that may help to find out.
    """

    question: str
    known: Line = ()
    why: str = ""
    hint: str = ""

    @property
    def line(self) -> Line:
        """The answer, which says itself what is not known."""
        if not self.known:
            return (f"not known: {self.why}",)
        if self.why:
            return (*self.known, f"; the rest is not known: {self.why}")
        return self.known


def unanswered(answers: Iterable[Answer]) -> tuple[Line, ...]:
    """Return a sentence for each reason why something is not known, with its questions."""
    questions: dict[str, list[str]] = {}
    hints: dict[str, str] = {}
    for answer in answers:
        if answer.why:
            questions.setdefault(answer.why, []).append(answer.question)
            hints.setdefault(answer.why, answer.hint)
    return tuple((_sentence(found, why, hints[why]),) for why, found in questions.items())


def _sentence(questions: list[str], why: str, hint: str) -> str:
    """Return a sentence: the questions, why they have no answer, and the hint."""
    first, *others = questions
    asked = ", ".join([first, *(each[:1].lower() + each[1:] for each in others)])
    return f"{asked}: {why}. {hint}".rstrip()


def clock_time(seconds: float) -> str:
    """Return a moment in UTC, as reports write it; the unit stands beside it."""
    return iso_time(seconds).replace("T", " ").removesuffix("Z")


def utc(seconds: float) -> str:
    """Return a moment with its time zone."""
    return f"{clock_time(seconds)} UTC"
