"""What a report says of the runs of hooks."""

from dataclasses import replace
from typing import Any

import pytest

from azure_scheduled_events_exporter.snapshot.hooks import HookRun
from azure_scheduled_events_exporter.web.report import hooks
from azure_scheduled_events_exporter.web.report.content import report
from azure_scheduled_events_exporter.web.report.markdown import markdown
from azure_scheduled_events_exporter.web.report.model import Sources
from support.events.lives import SCHEDULED, START, STARTED, Watch, at


def preparation(outcome: str | None, **more: Any) -> HookRun:
    """Return a run of the command ``save`` for the event A that began at START."""
    return HookRun("1", "save", "A", "Reboot", "prepare", START, outcome, **more)


@pytest.mark.parametrize(
    ("outcome", "duration", "left", "said"),
    [
        pytest.param("ok", 50.0, 800.0, "prepare ok;", id="in time"),
        pytest.param(
            "too_late", 126.0, 700.0, "prepare ok, but 26.0s too late: this VM was not", id="late"
        ),
        pytest.param("too_late", 950.0, -50.0, "prepare ok, but 14m 10s too late", id="very late"),
        pytest.param("too_late", None, -5.0, "prepare not run: it was too late", id="not run"),
        pytest.param(
            "failed", 3.0, 800.0, "prepare failed: this VM was not prepared;", id="failed"
        ),
        pytest.param(
            "timeout", 9.0, 800.0, "stopped at its deadline: this VM was not", id="stopped"
        ),
        pytest.param(None, None, None, "prepare no end is recorded", id="interrupted"),
        pytest.param(
            "cancelled", 9.0, 800.0, "stopped, because the event was cancelled;", id="cancelled"
        ),
    ],
)
def test_what_a_script_did(
    outcome: str | None, duration: float | None, left: float | None, said: str
) -> None:
    """The summary says whether the VM was prepared, in the words of the table and the timeline.

    The run begins at START, and the event 100 s later. ``left`` is the time from the end of the run
    to NotBefore. Without an ``outcome``, no end of the run is recorded.
    """
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.sees(at(100), STARTED)
    watch.sees(at(101))
    run = preparation(outcome, duration=duration, seconds_left=left)
    if outcome == "too_late" and duration is not None:  # the command ran, and succeeded
        run = replace(run, exit_status=0)
    written = markdown(report(Sources(watch.life, runs=(run,))), "")
    summary, _, rest = written.partition("## The event")
    assert said in summary
    assert rest.count(hooks.outcome(run, watch.life)) >= 2, "in the table and in the timeline"


def test_a_run_that_ended_before_not_before_but_after_the_start() -> None:
    """What is left to NotBefore is no time left if the event has started early."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.sees(at(100), STARTED)
    in_time = preparation("ok", duration=50.0, seconds_left=850.0)
    late = preparation("too_late", duration=126.0, seconds_left=774.0)
    none_left = "| none: it had started |"
    assert none_left not in markdown(report(Sources(watch.life, runs=(in_time,))), "")
    assert none_left in markdown(report(Sources(watch.life, runs=(late,))), "")


@pytest.mark.parametrize(
    ("end", "said"),
    [
        pytest.param({"exit_status": 3}, "prepare failed with exit status 3", id="status"),
        pytest.param({"signal": "SIGSEGV"}, "prepare failed with SIGSEGV", id="signal"),
        pytest.param({}, "prepare failed: this VM was not prepared", id="neither is known"),
    ],
)
def test_how_a_command_ended(end: dict[str, Any], said: str) -> None:
    """The summary and the timeline have the exit status or the signal of a command that failed."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    run = preparation("failed", duration=1.0, seconds_left=800.0, **end)
    written = markdown(report(Sources(watch.life, runs=(run,))), "")
    summary, _, rest = written.partition("## The event")
    assert said in summary
    assert f"prepare ended: {hooks.outcome(run, watch.life)}." in rest


def test_why_no_hook_ran() -> None:
    """Without a run, a report says why, as far as the journal knows."""
    announced = Watch()
    announced.sees(at(0), SCHEDULED)
    on_a_vm_that_is_not_named = Watch("vm_9")
    on_a_vm_that_is_not_named.sees(at(0), SCHEDULED)
    without_notice = Watch()
    without_notice.sees(at(0), STARTED)
    hooks_of_other_events = ("save",)
    for sources, said in (
        (
            Sources(announced.life),
            "the journal has no run of a hook; whether one was set up is not recorded",
        ),
        (Sources(announced.life, hooks=hooks_of_other_events), "one ran for other events"),
        (
            Sources(on_a_vm_that_is_not_named.life),
            "a hook prepares only for events of its own VM",
        ),
        (
            Sources(without_notice.life),
            "for an event that has started; whether one was set up is not recorded",
        ),
    ):
        written = markdown(report(sources), "")
        assert written.count(said) == 2, "in the summary and below it"


def test_repeated_preparations() -> None:
    """A failed preparation that was repeated is one row, and the same output is shown once."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    first = preparation("failed", duration=1.0, output="no route", exit_status=3)
    second = replace(first, run="2", started=START + 20)
    last = replace(
        first, run="3", started=START + 40, outcome="ok", output="saved", exit_status=None
    )
    written = markdown(report(Sources(watch.life, runs=(first, second, last))), "")
    assert (
        written.count("prepare failed with exit status 3 after 1.0s, and was repeated: `save`") == 2
    )
    assert written.count("no route") == 1
    assert "Runs that wrote the same have their output once" in written
    assert "`save`: prepare ok in run 3, the last one" in written
    written = markdown(report(Sources(watch.life, runs=(first, second))), "")
    assert "`save`: all 2 runs of prepare failed: this VM was not prepared" in written
