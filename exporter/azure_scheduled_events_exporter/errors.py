"""The exceptions that modules share, and how a message quotes and suggests.

Imports nothing of the package; every module may use it.
"""

import contextlib
import difflib
import re
import sqlite3
from collections.abc import Collection, Iterator
from enum import StrEnum


class ExporterError(Exception):
    """A failure that is reported to the user.

    Its message is one line; the command exits with status 1.
    """

    exit_status = 1

    def __str__(self) -> str:
        """Return the message; line breaks and control characters in quoted text are escaped."""
        return printable(super().__str__())


class UsageError(ExporterError):
    """A flag, variable or file has an impossible value; the command exits with status 2."""

    exit_status = 2


class UnreadableFileError(UsageError):
    """A file that a setting names cannot be read."""


@contextlib.contextmanager
def named_by(setting: str) -> Iterator[None]:
    """Within the block, the error of a file that cannot be read says which setting names it.

    An error in the content of a file passes unchanged: it names file and line.
    """
    try:
        yield
    except UnreadableFileError as error:
        raise UsageError(f"{setting}: {error}") from None


class Outcome(StrEnum):
    """How a poll ended: OK, or which kind of :class:`ImdsError` ended it."""

    OK = "ok"
    TIMEOUT = "timeout"
    CONNECTION_ERROR = "connection_error"
    THROTTLED = "throttled"
    HTTP_ERROR = "http_error"
    INVALID_DOCUMENT = "invalid_document"


class ImdsError(ExporterError):
    """A request to IMDS got no usable answer.

    The message is ``<reason>: <detail>; <hint>``, without the parts that are empty.

    Attributes:
        outcome: the kind of failure.
        reason: the cause in words. It is the same at every attempt that fails for this cause, so
            that a change of the cause can be noticed; what differs is in the detail.
        finding: what was found: the message without the hint.
        status: the HTTP status of the answer, 0 without one.
        may_have_arrived: whether the request may have reached IMDS; False if it was certainly not
            sent, such as without a connection.
        offered: the api-versions that IMDS has; empty if the answer does not name them.
        hint: what to do, ``""`` if nothing is known.
        is_temporary: whether the hint says that a later request may be answered.
    """

    def __init__(
        self,
        outcome: Outcome,
        reason: str,
        detail: str = "",
        status: int = 0,
        *,
        may_have_arrived: bool = True,
        offered: tuple[str, ...] = (),
        hint: str = "",
        is_temporary: bool = False,
    ) -> None:
        detail_and_hint = "; ".join(part for part in (detail, hint) if part)
        super().__init__(_with_part(reason, detail_and_hint))
        self.finding = _with_part(reason, detail)
        self.outcome = outcome
        self.reason = reason
        self.status = status
        self.may_have_arrived = may_have_arrived
        self.offered = offered
        self.hint = hint
        self.is_temporary = is_temporary

    @property
    def is_refusal(self) -> bool:
        """Whether the answer shows that IMDS has not done what was requested: a 3xx or 4xx.

        After a 500 or an unknown 2xx, IMDS may have done it; without an answer, see
        ``may_have_arrived``.
        """
        return 300 <= self.status < 500  # noqa: PLR2004 - redirects and errors of the client


class OutdatedError(ImdsError):
    """An approval was not sent, because the document on which it was decided had become too old.

    It has certainly not arrived. The next document decides again.

    Args:
        age: how long ago the document was asked for, in seconds.
        limit: the greatest age at which an approval is sent.
    """

    def __init__(self, age: float, limit: float) -> None:
        reason = "its document is too old"
        detail = f"{age:.1f} s, and the limit is {limit:g} s"
        super().__init__(Outcome.TIMEOUT, reason, detail, may_have_arrived=False)


def _with_part(reason: str, part: str) -> str:
    if not part:
        return reason
    return f"{reason}: {part}"


class InvalidDocumentError(ExporterError):
    """The body of an answer is not a Scheduled Events document."""


class CodecError(ExporterError):
    """A value has no JSON form (a bug), or JSON from the journal does not fit the wanted class."""


class DamagedTextError(ValueError):
    """Text in the journal is not JSON, so it is not what was written."""


class JournalInUseError(ExporterError):
    """Another process writes this journal: an exporter, or ``approve`` without one."""


class JournalKeptError(ExporterError):
    """A command would have to rename a damaged or foreign journal; only an exporter may do that."""


class NotUsableError(sqlite3.DatabaseError):
    """The file is not a journal, or not one that this version can read."""


class Stopped(Exception):  # noqa: N818 - not an error
    """The work was given up because the process is to end."""


def printable(text: str) -> str:
    """Return ``text`` for a terminal: line breaks and control characters are escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def one_line(text: str, length: int = 160) -> str:
    """Return ``text`` as one printable line of at most ``length`` characters, for a message.

    White space and control characters in a row become one space. An ellipsis says that the text
    was cut.
    """
    without_controls = "".join(c if c.isprintable() else " " for c in text)
    line = " ".join(without_controls.split())
    if len(line) <= length:
        return line
    return line[: length - 3] + "..."


def without_password(text: str) -> str:
    """Return ``text`` for display and logs: addresses in it are without user and password.

    That holds also for an address that is invalid because its password has an unescaped ``/``,
    ``?`` or ``#``, or, if ``text`` is nothing but the address, because its scheme is missing.
    """
    if "//" not in text:
        return re.sub(r"^\S+@", "***@", text)
    # Without "/", "?" and "#", a user and a password reach up to the "@".
    valid = r"[^/?#\s]*"
    # Otherwise, what follows the first colon is a password, unless it is a port and the "@" is only
    # in the path: http://host:8080/a@b.
    unescaped = r"[^/?#\s:]+:(?!\d+[/?#])\S*?"
    return re.sub(f"//(?:{valid}|{unescaped})@", "//***@", text)


def closest(word: str, known: Collection[str]) -> str | None:
    """Return the one of ``known`` that is most similar to ``word``; None if none is similar."""
    similar = difflib.get_close_matches(word, known, n=1)
    return similar[0] if similar else None
