"""One answer of whatever serves the address of IMDS."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of any status.

    Attributes:
        status: its HTTP status.
        phrase: the reason phrase, which servers choose freely.
        headers: looked up in any case.
        body: all of it; None if it is larger than the limit.
    """

    status: int
    phrase: str
    headers: Mapping[str, str]
    body: bytes | None
