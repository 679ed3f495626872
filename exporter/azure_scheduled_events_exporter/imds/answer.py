"""One HTTP answer of IMDS, or of whatever else answers at its address."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of any status.

    Attributes:
        status: its HTTP status.
        phrase: the reason phrase after the status, which a server may choose freely.
        headers: a look-up ignores the case of the name.
        body: the whole body; None if it is larger than ``client.LARGEST_BODY``.
    """

    status: int
    phrase: str
    headers: Mapping[str, str]
    body: bytes | None
