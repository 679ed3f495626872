"""A point in time, by the wall clock and by the clock since boot.

After a pause, the wall clock of a VM lags and is corrected later, so it shows when something
happened but not how long it took. The clock since boot measures durations, suspended time too, but
only within one boot.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A moment.

    Attributes:
        wall: seconds since the epoch (UTC), by the clock of IMDS or by this machine's: whoever
            gives it says which.
        monotonic: seconds since the boot ``boot_id``; where no clock counts suspended time, of the
            monotonic clock.
        boot_id: which boot that clock belongs to; ``""`` if only the wall clock is known.
    """

    wall: float
    monotonic: float = 0.0
    boot_id: str = ""

    @property
    def booted_at(self) -> "Timestamp | None":
        """When this boot began, by the wall clock of this moment.

        None if only the wall clock is known.

        It may move when the wall clock is corrected, so boots are distinguished by their id.
        """
        if not self.boot_id:
            return None
        return Timestamp(self.wall - self.monotonic, 0.0, self.boot_id)

    def is_another_boot_after(self, earlier: "Timestamp") -> bool:
        """Return whether this moment is of a later boot than ``earlier``.

        The wall clock may lag behind after a boot, so ids decide where both are known.
        """
        if self.boot_id and earlier.boot_id:
            return self.boot_id != earlier.boot_id
        return self.wall > earlier.wall

    def since(self, earlier: "Timestamp") -> float:
        """Return the seconds from ``earlier`` to here, never negative.

        By the clock since boot within one boot, by the wall clock across boots.
        """
        if self.boot_id and self.boot_id == earlier.boot_id:
            return max(0.0, self.monotonic - earlier.monotonic)
        return max(0.0, self.wall - earlier.wall)
