"""What the observation of a document depends on, besides the document and the known events.

Data only. ``polling.state`` makes it for each document, and ``core.observation`` uses it.
"""

from dataclasses import dataclass

from .impact import Counted
from .kinds import SHORT_FREEZE_SECONDS
from .pause import Pause
from .timestamp import Timestamp

WATCHED_WITHIN_SECONDS = 60.0
"""If two documents are further apart, nobody watched: a start can have been missed in between."""


@dataclass(frozen=True, slots=True)
class ObservationContext:
    """What the observation of a document depends on, besides the document.

    Attributes:
        now: the moment of the observation.
        vm_name: this VM's name, by the settings or by IMDS; None while unknown. Resources may spell
            it in another case.
        watched: whether the previous document is so recent that no start can have been missed;
            False for the first document of a run. See :data:`WATCHED_WITHIN_SECONDS`.
        keeps_unshown: True while it is not known whether the journal is this VM's. An event of an
            earlier run may then be another VM's, so it is not over because a document lacks it.
        pause: the longest pause of this VM since the last document; None if it was not measured.
        counted: what the kernel has counted; None if nobody read it.
        harmless_below: a Freeze announced as shorter than so many seconds is harmless.
    """

    now: Timestamp
    vm_name: str | None = None
    watched: bool = True
    pause: Pause | None = None
    keeps_unshown: bool = False
    counted: Counted | None = None
    harmless_below: float = SHORT_FREEZE_SECONDS
