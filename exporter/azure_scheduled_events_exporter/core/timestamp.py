"""A moment, in the two ways a computer knows one.

The wall clock of a VM lags after a pause and is then set right, so it says when something happened but not how
long it took. The monotonic clock says how long, but means nothing in another boot.
"""

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A moment.

    Attributes:
        wall: seconds since the epoch (UTC), by this machine's clock.
        monotonic: seconds of the boot ``boot_id``'s monotonic clock.
        boot_id: which boot that clock belongs to; ``""`` when the moment is known by the wall clock only.
    """

    wall: float
    monotonic: float = 0.0
    boot_id: str = ""

    def is_another_boot_after(self, earlier: "Timestamp") -> bool:
        """Return whether this moment is of a later boot than ``earlier``.

        The wall clock may lag behind after a boot, so ids decide where both are known.
        """
        if self.boot_id and earlier.boot_id:
            return self.boot_id != earlier.boot_id
        return self.wall > earlier.wall

    def since(self, earlier: "Timestamp") -> float:
        """Return the seconds from ``earlier`` to here, never negative.

        By the monotonic clock within one boot, by the wall clock across boots.
        """
        if self.boot_id and self.boot_id == earlier.boot_id:
            return max(0.0, self.monotonic - earlier.monotonic)
        return max(0.0, self.wall - earlier.wall)


def iso_time(seconds: float) -> str:
    """Return seconds since the epoch as people and programs read them: ``2022-04-11T22:26:58Z``.

    Parts of a second are cut off. A time beyond the calendar's years stays a number.
    """
    try:
        return datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return repr(seconds)
