"""What the journal's thread leaves in memory of the file, for the exporter's other threads.

They do not read the file, because the disk may hang. The thread looks at the file at each poll, and
after each write. Data only.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from .inbox import Inbox


@dataclass(frozen=True, slots=True)
class StoredSpans:
    """The spans on disk that wait for delivery.

    Attributes:
        newest: ids and texts of the newest ones, the newest first.
        count: of all.
    """

    newest: Sequence[tuple[str, str]] = ()
    count: int = 0


@dataclass(frozen=True, slots=True)
class Look:
    """What the file had when the thread last looked.

    Attributes:
        inbox: what other processes have written.
        spans: what waits for delivery.
    """

    inbox: Inbox = field(default_factory=Inbox)
    spans: StoredSpans = field(default_factory=StoredSpans)
