"""Which clock determines a pause, and what is not a pause."""

import pytest

from azure_scheduled_events_exporter.core.pause import ClockSample, Evidence, Pause, between_runs, gap

DUE = ClockSample(wall=1_700_000_000.0, monotonic=500.0, since_boot=800.0, boot_id="boot-1")


def read(wall: float, monotonic: float, since_boot: float, boot_id: str = "boot-1") -> ClockSample:
    """Return a reading by how far each clock has got beyond DUE."""
    return ClockSample(DUE.wall + wall, DUE.monotonic + monotonic, DUE.since_boot + since_boot, boot_id)


@pytest.mark.parametrize(
    ("late", "seconds"),
    [
        pytest.param((0.0, 0.0, 0.0), 0.0, id="in time"),
        pytest.param((-0.02, -0.02, -0.02), 0.0, id="looked at before it was due"),
        pytest.param((2.5, 2.5, 2.5), 2.5, id="the process was stopped"),
        pytest.param((2.5, 0.5, 2.5), 2.5, id="the VM was suspended, and its wall clock set right"),
        pytest.param((0.5, 0.5, 2.5), 2.5, id="the VM was suspended, its wall clock still late"),
        pytest.param((7.5, 0.0, 0.0), 7.5, id="the VM was frozen, and its wall clock set right"),
        pytest.param((7.5, -0.04, -0.04), 7.5, id="the same, before the next tick"),
        pytest.param((-3600.0, 0.5, 0.5), 0.5, id="the wall clock was set back"),
        pytest.param((900.0, 0.0, 0.0), 900.0, id="the longest step that is taken for a pause"),
        pytest.param((3600.0, 0.5, 0.5), 0.5, id="the wall clock was set forward by an hour"),
        pytest.param((3600.0, 3600.0, 3600.0), 3600.0, id="the process was stopped for an hour"),
        pytest.param((4000.0, 0.0, 3600.0), 4000.0, id="suspended for an hour, and late before"),
    ],
)
def test_the_clock_that_got_furthest_tells(late: tuple[float, float, float], seconds: float) -> None:
    """The pause is the delay of the clock that advanced most; a clock that was set is not a pause."""
    assert gap(DUE, read(*late)) == pytest.approx(seconds)


def test_later() -> None:
    """Without a pause, all clocks advance by the same time."""
    assert DUE.after(5.0) == read(5.0, 5.0, 5.0)
    assert gap(DUE.after(5.0), read(5.0, 5.0, 5.0)) == 0.0


@pytest.mark.parametrize(
    ("first", "pause"),
    [
        pytest.param(read(60.0, 60.0, 60.0), Pause(0.0, Evidence.PART), id="the exporter alone was down"),
        pytest.param(read(67.5, 60.0, 60.0), Pause(7.5, Evidence.PART), id="... and the VM was frozen meanwhile"),
        pytest.param(read(90.0, 60.0, 90.0), Pause(30.0, Evidence.PART), id="... or suspended"),
        pytest.param(read(-60.0, 60.0, 60.0), Pause(0.0, Evidence.PART), id="... or its wall clock was set back"),
        pytest.param(read(95.4321, -490.0, -790.0, "boot-2"), Pause(95.432, Evidence.BOOT), id="a reboot"),
        pytest.param(read(7200.0, 0.0, 0.0, "boot-2"), Pause(7200.0, Evidence.BOOT), id="switched off for two hours"),
        pytest.param(read(95.0, -490.0, -790.0, ""), Pause(95.0, Evidence.BOOT), id="a reboot, the boots without ids"),
        pytest.param(read(60.0, 60.0, 60.0, ""), Pause(0.0, Evidence.PART), id="a restart, the boots without ids"),
    ],
)
def test_between_two_runs(first: ClockSample, pause: Pause) -> None:
    """A reboot is a pause from the last sign of life to the first; a restart of the exporter alone is none."""
    measured = between_runs(DUE, first)
    assert measured is not None
    assert measured.seconds == pytest.approx(pause.seconds, abs=0.0005)
    assert measured.evidence is pause.evidence


def test_a_clock_that_is_behind_after_a_boot_tells_nothing() -> None:
    """Between two boots only the wall clock is used; if it went back, the pause is unknown."""
    assert between_runs(DUE, read(-5.0, -490.0, -790.0, "boot-2")) is None
