"""A request and its answer: ``wire`` reads and sends them, ``service`` and ``control`` answer.

Only values, without behavior.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from .faults import Fault

JSON: Final = "application/json; charset=utf-8"
TEXT: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    Attributes:
        target: path and query, as in the request line.
        headers: their names are in lower case.
        connected_at: when its connection was made, by the clock of the simulator. The default is
            after the beginning of every fault, so the request meets those of the agent too.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""
    connected_at: float = math.inf


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer.

    Attributes:
        fault: the active fault, for ``wire``, which performs those that change how an answer is
            sent, such as only half of the body. None if no fault is active, or if this answer is
            already the fault itself, such as a status of 500.
        is_from_imds: whether IMDS sends it. Otherwise the Guest Proxy Agent does, which names no
            content type and closes the connection.
    """

    status: int
    body: bytes = b""
    content_type: str = JSON
    fault: Fault | None = None
    is_from_imds: bool = True


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that arrived, with its VM and its time on the simulator's clock (Unix seconds)."""

    vm: str
    method: str
    path: str
    at: float
