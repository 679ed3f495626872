"""A point in time, by the wall clock and by the clock since boot.

The wall clock shows when something happened. It does not show how long something took, because
after a pause of the VM it lags, and is corrected later. The clock since boot measures durations,
suspended time included, but only within one boot.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A moment.

    Attributes:
        wall: seconds since the epoch (UTC), by the clock of IMDS or by this machine's: whoever
            gives it says which.
        monotonic: seconds since the boot ``boot_id``; those of the monotonic clock on a system
            where no clock counts suspended time.
        boot_id: the boot since which ``monotonic`` counts; ``""`` if only the wall clock is known.
    """

    wall: float
    monotonic: float = 0.0
    boot_id: str = ""

    @property
    def booted_at(self) -> "Timestamp | None":
        """When the boot ``boot_id`` began, by the wall clock of this moment.

        None if only the wall clock is known. A later moment of the same boot may give another time,
        because the wall clock was corrected: compare boots by their id.
        """
        if not self.boot_id:
            return None
        return Timestamp(self.wall - self.monotonic, 0.0, self.boot_id)

    def is_another_boot_after(self, earlier: "Timestamp") -> bool:
        """Return whether this moment, the beginning of a boot, is of a later boot than ``earlier``.

        The wall clock may lag behind after a boot, so it decides only where an id is not known.
        """
        if self.boot_id and earlier.boot_id:
            return self.boot_id != earlier.boot_id
        return self.wall > earlier.wall

    def since(self, earlier: "Timestamp") -> float:
        """Return the seconds from ``earlier`` to this moment, never negative.

        By the clock since boot within one boot, by the wall clock across boots.
        """
        if self.boot_id and self.boot_id == earlier.boot_id:
            return max(0.0, self.monotonic - earlier.monotonic)
        return max(0.0, self.wall - earlier.wall)
