"""An answer to a question of a post-mortem, with what is not known about it.

A report gives an answer in several places: its summary, a table, and the list of what is not known.
All of them relay the same :class:`Answer`, so that they cannot contradict each other. Pure.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from .model import Line


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known and what is not.

    Attributes:
        question: such as "Who approved it".
        known: what is known; empty if nothing is.
        why: why nothing, or no more, is known; ``""`` if all is.
        hint: a sentence that may help to find out; ``""`` for none.
    """

    question: str
    known: Line = ()
    why: str = ""
    hint: str = ""

    @property
    def line(self) -> Line:
        """What is known, and why the rest is not, in one line."""
        if not self.known:
            return (f"not known: {self.why}",)
        if self.why:
            return (*self.known, f"; the rest is not known: {self.why}")
        return self.known


def unanswered(answers: Iterable[Answer]) -> tuple[Line, ...]:
    """Return a line for each reason why something is not known, with the questions left open.

    Complete answers are left out.
    """
    questions: dict[str, list[str]] = {}
    hints: dict[str, str] = {}
    for answer in answers:
        if answer.why:
            questions.setdefault(answer.why, []).append(answer.question)
            hints.setdefault(answer.why, answer.hint)
    return tuple((_text(asked, why, hints[why]),) for why, asked in questions.items())


def _text(questions: list[str], why: str, hint: str) -> str:
    """Return the questions, the reason why they have no answer, and the hint."""
    first, *others = questions
    within_sentence = [question[:1].lower() + question[1:] for question in others]
    asked = ", ".join([first, *within_sentence])
    return f"{asked}: {why}. {hint}".rstrip()
