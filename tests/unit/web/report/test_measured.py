"""What a report says of what was measured, and how exact a time is."""

from dataclasses import replace

import pytest

from azure_scheduled_events_exporter.core.document import ScheduledEvent
from azure_scheduled_events_exporter.core.impact import Impact, Readings, Tcp
from azure_scheduled_events_exporter.core.pause import Pause
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.web.report.content import report
from azure_scheduled_events_exporter.web.report.markdown import markdown
from azure_scheduled_events_exporter.web.report.model import Sources
from support.events.lives import NOT_BEFORE, SCHEDULED, START, STARTED, Watch, at

# A report ends with what is not known. These are the titles of two such paragraphs.
PAUSE_IS_UNKNOWN = "How long the VM was interrupted"
TCP_IS_UNKNOWN = "What happened to TCP connections"


def test_what_was_measured() -> None:
    """A row has what was announced, what was usual before, and what was measured, in this order.
    The event of this report still goes on.
    """
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.sees(at(NOT_BEFORE - START), STARTED)
    readings = Readings(at(0))
    impact = Impact(readings, readings, before=Tcp(1, 0), during=Tcp(120, 7), clock_step=11.9)
    life = replace(watch.life, observed_pause=12.34, pauses=2, pause_ended=at(920), impact=impact)
    written = markdown(report(Sources(life)), "")
    for row in (
        "| Interruption of the VM | 30s |  | paused for 12.3s, the longest of 2 pauses, from about",
        " from about 2023-11-14 22:28:27 UTC to 2023-11-14 22:28:40 UTC |",
        "| TCP segments sent again |  | 1 | 120 so far |",
        "| TCP retransmission timeouts |  | 0 | 7 so far |",
        "| Step of the clock |  |  | forward by 11.9s so far |",
        "22:28:40 | +15m 20s | The longest of 2 pauses of this VM ended, 12.3s later. |",
    ):
        assert row in written
    assert PAUSE_IS_UNKNOWN not in written
    assert TCP_IS_UNKNOWN not in written


@pytest.mark.parametrize(
    ("before", "boot", "cell"),
    [
        pytest.param([SCHEDULED], "boot-1", "| 120 in 50s |", id="the whole event"),
        pytest.param(
            [],
            "boot-1",
            "| 120 in 50s; the rest is not known: nobody measured before 2023-",
            id="first seen started",
        ),
        pytest.param(
            [SCHEDULED],
            "boot-2",
            "| 120 before the restart; the rest is not known: nothing was ",
            id="restarted",
        ),
    ],
)
def test_when_tcp_was_measured(before: list[ScheduledEvent], boot: str, cell: str) -> None:
    """Counters that do not cover the whole event say so.

    ``before`` has the event of the document before the start; ``boot`` is that of the document
    after the end.
    """
    readings = Readings(at(0))
    watch = Watch()
    watch.sees(at(0), *before)
    watch.sees(at(10), STARTED)
    watch.sees(at(60, boot=boot))
    life = replace(watch.life, impact=Impact(readings, readings, during=Tcp(120, 7)))
    assert cell in markdown(report(Sources(life)), "")


def report_after_a_restart(booted: float) -> str:
    """Return the report of an event whose longest pause lasted from 910 s to 970 s.

    ``booted`` is when the VM booted anew: before the pause, or in it. All are seconds after START.
    """
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.sees(at(901), STARTED)
    ended = Timestamp(START + 970, monotonic=970.0 - booted, boot_id="boot-2")
    life = replace(watch.life, observed_pause=60.0, pauses=1, pause_ended=ended)
    return markdown(report(Sources(life)), "")


def test_a_restart_in_the_longest_pause() -> None:
    """A VM that restarted was away, not paused."""
    written = report_after_a_restart(booted=940)
    assert (
        "measured on this VM:** away for at most 1m: from the last sign of life, at about"
        " 2023-11-14 22:28:30 UTC" in written
    )
    assert "at 2023-11-14 22:29:30 UTC; the VM booted at 2023-11-14 22:29:00" in written
    assert "| The first look of the exporter after the restart, 1m later" in written


def test_a_restart_before_the_longest_pause() -> None:
    """A boot that came before the pause is not told as a part of the pause."""
    written = report_after_a_restart(booted=880)
    assert (
        "measured on this VM:** paused once, for 1m, from about 2023-11-14 22:28:30 UTC" in written
    )
    assert "the VM booted" not in written
    assert "after the restart" not in written


def test_no_pause() -> None:
    """If no pause was seen, a report does not give a length."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.sees(at(901), STARTED, pause=Pause(0.03, ended=at(900)))
    written = markdown(report(Sources(watch.life)), "")
    assert "| Interruption of the VM | 30s |  | no pause of 0.1s or more was seen |" in written
    assert "pause of this VM" not in written


def test_a_pause_at_a_start_between_two_documents() -> None:
    """An event that began between two documents was measured from its start on."""
    watch = Watch()
    watch.sees(at(0))
    watch.sees(at(1), STARTED, pause=Pause(0.5, ended=at(1)))
    written = markdown(report(Sources(watch.life)), "")
    assert "measured on this VM:** paused once, for 0.5s, from about" in written
    assert PAUSE_IS_UNKNOWN not in written


_REST = "; the rest is not known: nobody watched the"


@pytest.mark.parametrize(
    ("is_start_watched", "is_end_watched", "gap", "cell"),
    [
        (True, True, 1, "50s"),
        (True, True, 9, "about 50s"),
        (False, True, 1, f"at least 50s{_REST} start"),
        (True, False, 1, f"at most 50s{_REST} end"),
        (False, False, 1, f"about 50s{_REST} start and the end"),
    ],
)
def test_how_long_an_event_was_started(
    gap: float, cell: str, *, is_start_watched: bool, is_end_watched: bool
) -> None:
    """The report gives this length as exactly as the last documents before the start and the end
    permit.

    ``gap`` is in seconds between a document and the one before.
    """
    watch = Watch()
    watch.sees(at(901 - gap), SCHEDULED)
    if not is_start_watched:
        watch.restarts()
    watch.sees(at(901), STARTED, watched=is_start_watched)
    watch.sees(at(951 - gap), STARTED)
    if not is_end_watched:
        watch.restarts()
    watch.sees(at(951), watched=is_end_watched)
    written = markdown(report(Sources(watch.life)), "")
    assert f"| How long it was Started |  |  | {cell} |" in written
