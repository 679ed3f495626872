"""What a fuzz target is: a promise about whatever bytes come, and where to begin to look for a breach of it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from support.paths import DATA

NAMES = ("document", "identity", "policy", "configuration", "web_config", "values")
"""Of all targets. Their modules are imported where they run."""

SEPARATOR = b"\0"
"""Between the parts of an input, where a target takes several."""


@dataclass(frozen=True, slots=True)
class Target:
    """One promise.

    Attributes:
        check: raises when an input breaks the promise; must hold no state that a later input could notice.
        seeds: inputs to begin with; captured ones are read from where the other tests have them.
        words: what the readers under test know, to be put in anywhere.
        longest: bytes of an input.
    """

    check: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]
    words: tuple[bytes, ...] = ()
    longest: int = 8192


def files(folder: str, pattern: str = "*") -> list[bytes]:
    """Return the contents of the files in a folder of tests/data, in order of their names."""
    return [path.read_bytes() for path in sorted((DATA / folder).glob(pattern))]


def one_line(message: str, where: object = "") -> None:
    """A complaint is one line that a terminal takes as it is, and begins with ``where``."""
    assert message, "an error without a message"
    assert message.startswith(str(where)), f"does not say where: {message}"
    assert message.isprintable(), f"not one printable line: {message!r}"
