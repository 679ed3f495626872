"""Signals to ``run``: SIGTERM and SIGINT end it within 2 s and with status 0, also if a part hangs;
others do not.
"""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from azure_scheduled_events_exporter.simulator import Simulator
from support.programs import COMMAND, PATIENCE, Exporter, Program, eventually
from support.quiet import QUIET

SOON = 5.0  # seconds; two are promised, the rest is for a busy machine
Start = Callable[..., Exporter]
SIGNALS = [signal.SIGTERM, signal.SIGINT]


@pytest.fixture(autouse=True)
def from_a_terminal() -> Iterator[None]:
    """Start exporters as a terminal does: tests under nohup ignore SIGHUP, and so would every
    exporter of theirs.
    """
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def assert_ends(exporter: Exporter, number: signal.Signals) -> None:
    """It ends soon after the signal, with status 0 and a last line in the log."""
    began = time.monotonic()
    exporter.process.send_signal(number)
    status = exporter.process.wait(30)
    took = time.monotonic() - began
    assert status == 0, exporter.log
    assert took < SOON
    assert 'msg="exporter stopped"' in exporter.log.splitlines()[-1]
    assert "Traceback" not in exporter.log


@pytest.mark.parametrize("number", SIGNALS)
def test_while_all_is_well(
    number: signal.Signals, simulator: Simulator, start_exporter: Start
) -> None:
    """Between two polls, the exporter ends without waiting for the next one."""
    exporter = start_exporter(simulator.url, "--poll.interval", "1h")
    exporter.shows("a poll", lambda now: now.value("up") == 1)
    assert_ends(exporter, number)


def test_as_the_first_process_of_a_container(simulator: Simulator, tmp_path: Path) -> None:
    """A signal ends the exporter also as process 1, for which the kernel has no default action."""
    apart = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
    flags = [
        "--imds.endpoint",
        simulator.url,
        "--journal.path",
        "memory",
        "--web.listen-address",
        "127.0.0.1:0",
    ]
    with Program([*apart, COMMAND, "run", *flags], tmp_path / "log") as outer:
        outer.wait_for_line("listening")
        (first,) = psutil.Process(outer.process.pid).children()
        first.terminate()
        assert outer.process.wait(PATIENCE) == 0


def test_signals_that_do_not_end_it(
    simulator: Simulator, start_exporter: Start, tmp_path: Path
) -> None:
    """On SIGHUP, the log says that settings need a restart and that files do not: a changed policy
    is read without one. SIGUSR1 and SIGUSR2 have no effect.
    """
    policy = tmp_path / "policy.yaml"
    policy.write_text("rules:\n  - name: first\n    action: approve\n")
    exporter = start_exporter(
        simulator.url, "--approval.policy", str(policy), "--poll.interval", "250ms"
    )
    policy.write_text("rules:\n  - name: second\n    action: approve\n")
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        exporter.process.send_signal(number)
    exporter.wait_for_line("SIGHUP: .* a change of the settings needs a restart")
    exporter.wait_for_line("approval policy reloaded")
    assert_ends(exporter, signal.SIGTERM)


def test_nohup(simulator: Simulator, start_exporter: Start) -> None:
    """An exporter that nohup has started outlives the end of its terminal."""
    exporter = start_exporter(simulator.url, "--poll.interval", "250ms", command=("nohup", COMMAND))
    exporter.process.send_signal(signal.SIGHUP)
    exporter.shows(
        "polls after the signal", lambda now: (now.value("polls_total", outcome="ok") or 0) > 4
    )
    assert_ends(exporter, signal.SIGTERM)


def test_started_in_the_background(simulator: Simulator, start_exporter: Start) -> None:
    """SIGINT ends the exporter also if a script has started it with SIGINT ignored."""
    ignoring = ("sh", "-c", 'trap "" INT; exec "$0" "$@"', COMMAND)
    exporter = start_exporter(simulator.url, command=ignoring)
    exporter.shows("a poll", lambda now: now.value("up") == 1)
    assert_ends(exporter, signal.SIGINT)


def test_during_the_first_request(start_exporter: Start) -> None:
    """The exporter ends while its first request, which may take two minutes, has no answer."""
    with Simulator(QUIET, first_answer_delay=120) as simulator:
        exporter = start_exporter(simulator.url)
        eventually(
            lambda: any(seen.path.endswith("scheduledevents") for seen in simulator.requests),
            "the first request, which has no answer yet",
        )
        assert_ends(exporter, signal.SIGTERM)
