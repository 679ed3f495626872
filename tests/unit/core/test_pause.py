"""Which clock determines a pause, and what is not a pause."""

import pytest

from azure_scheduled_events_exporter.core.pause import Pause, between_runs, gap
from azure_scheduled_events_exporter.core.timestamp import Timestamp

DUE = Timestamp(wall=1_700_000_000.0, monotonic=800.0, boot_id="boot-1")


def read(wall: float, since_boot: float, boot_id: str = "boot-1") -> Timestamp:
    """Return a moment by how far each clock has got beyond DUE."""
    return Timestamp(DUE.wall + wall, DUE.monotonic + since_boot, boot_id)


@pytest.mark.parametrize(
    ("wall_late", "since_boot_late", "seconds"),
    [
        pytest.param(0.0, 0.0, 0.0, id="in time"),
        pytest.param(-0.02, -0.02, 0.0, id="looked at before it was due"),
        pytest.param(
            2.5,
            2.5,
            2.5,
            id="the process was stopped, or the VM suspended and its wall clock set right",
        ),
        pytest.param(0.5, 2.5, 2.5, id="the VM was suspended, its wall clock still late"),
        pytest.param(7.5, 0.0, 7.5, id="the VM was frozen, and its wall clock set right"),
        pytest.param(7.5, -0.04, 7.5, id="the same, before the next tick"),
        pytest.param(-3600.0, 0.5, 0.5, id="the wall clock was set back"),
        pytest.param(900.0, 0.0, 900.0, id="the longest step that is taken for a pause"),
        pytest.param(3600.0, 0.5, 0.5, id="the wall clock was set forward by an hour"),
        pytest.param(3600.0, 3600.0, 3600.0, id="the process was stopped for an hour"),
        pytest.param(4000.0, 3600.0, 4000.0, id="suspended for an hour, and late before"),
    ],
)
def test_the_clock_that_got_furthest_tells(
    wall_late: float, since_boot_late: float, seconds: float
) -> None:
    """The pause is the delay of the clock that advanced most; a clock that was set is no
    pause.

    Somebody waits from ``DUE`` on. By ``wall_late`` and ``since_boot_late``, the wall clock and the
    one since boot advance further than the wait.
    """
    for wait in (0.0, 5.0):
        now = read(wall_late + wait, since_boot_late + wait)
        assert gap(DUE, now, wait) == pytest.approx(seconds), wait


@pytest.mark.parametrize(
    ("first", "pause"),
    [
        pytest.param(
            read(60.0, 60.0),
            Pause(0.0),
            id="the exporter alone was down, or the VM suspended meanwhile",
        ),
        pytest.param(
            read(67.5, 60.0),
            Pause(7.5, ended=read(67.5, 60.0)),
            id="the exporter was down, and the VM was frozen meanwhile",
        ),
        pytest.param(
            read(-60.0, 60.0),
            Pause(0.0),
            id="the exporter was down, and the wall clock was set back meanwhile",
        ),
        pytest.param(
            read(95.4321, -790.0, "boot-2"),
            Pause(95.432, is_boot=True, ended=read(95.4321, -790.0, "boot-2")),
            id="a reboot",
        ),
        pytest.param(
            read(7200.0, 0.0, "boot-2"),
            Pause(7200.0, is_boot=True, ended=read(7200.0, 0.0, "boot-2")),
            id="switched off for two hours",
        ),
        pytest.param(
            read(-5.0, -790.0, "boot-2"), None, id="a reboot, and a wall clock that is behind"
        ),
    ],
)
def test_between_two_runs(first: Timestamp, pause: Pause | None) -> None:
    """A reboot is a pause from the last sign of life to the first; a restart of the exporter alone
    is none.

    ``DUE`` is the last moment of the earlier run, and ``first`` that of the new one. Pauses are
    rounded to milliseconds. None: how long the pause was cannot be known.
    """
    assert between_runs(DUE, first) == pause
