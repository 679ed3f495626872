"""Guards this process, and gives every test that starts programs a place for their output."""

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent / "support" / "guard"))
if "sitecustomize" in sys.modules:
    del sys.modules["sitecustomize"]  # Debian's own, which Python has imported at start
import sitecustomize  # noqa: F401 - guards this process
from azure_scheduled_events_exporter.logs import LOGGER
from azure_scheduled_events_exporter.simulator import Simulator
from support import apart
from support.paths import DATA, TESTS
from support.prepared import Prepared
from support.programs import Exporter, Program
from support.quiet import QUIET

LONGEST_FIRST = (
    ("end_to_end", "contract/monitoring"),
    ("trials",),
    ("contract",),
    ("wire",),
    ("unit",),
)
"""Folders.

In the first two, tests mostly wait, or need minutes of processor time: each waits beside one that
works.
"""

FLAKY_FILE = os.environ.get("FLAKY_TESTS")
"""Where ``.ci/run`` collects the tests that passed only at their second attempt."""

SECOND_ATTEMPT = "--lf"
"""The flag with which ``.ci/run`` repeats what failed."""

FLAKY_AT_MOST = 2
"""More flaky tests than that fail a run."""

# No deadline: speed is measured elsewhere, and the machine may be busy. The same cases each time: a
# new case that fails must not stop a change that has nothing to do with it. `make fuzz` tries new
# ones, and many.
settings.register_profile(
    "repeatable",
    deadline=None,
    derandomize=True,
    max_examples=10 if os.environ.get("QUICK") else 20,
)
settings.register_profile(
    "search", deadline=None, max_examples=int(os.environ.get("EXAMPLES", "100"))
)
settings.load_profile("repeatable")


@pytest.hookimpl(trylast=True)  # the terminal reporter is made in a hook of this name
def pytest_configure(config: pytest.Config) -> None:
    """Keep this run apart from others, and let programs that tests start end by SIGINT: a shell
    that runs the tests in the background has it ignored.
    """
    if not hasattr(config, "workerinput"):  # workers are processes of the run
        apart.mounts()
        apart.temporary_folder()
        terminal = config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:  # -p no:terminal
            config.pluginmanager.register(FailuresAtOnce(terminal))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return how many tests ``-n auto`` runs at a time: most wait for programs that they have
    started.
    """
    return 3 * (os.cpu_count() or 1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the one flag that writes the golden files anew."""
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write tests/data/golden/ anew instead of comparing",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take long, so that no worker is left alone with one at the end of
    the run.
    """
    files = [path.relative_to(TESTS) for path in dict.fromkeys(item.path for item in items)]
    folders = {
        folder: [each for each in files if each.is_relative_to(folder)]
        for folder in chain(*LONGEST_FIRST)
    }

    def turn(file: Path) -> tuple[int, float]:
        stage = next(
            number
            for number, some in enumerate(LONGEST_FIRST)
            if any(map(file.is_relative_to, some))
        )
        folder = next(filter(file.is_relative_to, LONGEST_FIRST[stage]))
        evenly = (folders[folder].index(file) + 0.5) / len(folders[folder])
        return stage, evenly

    turns = {TESTS / file: turn(file) for file in files}
    items.sort(key=lambda item: turns[item.path])


def _flaky() -> list[str]:
    path = Path(FLAKY_FILE) if FLAKY_FILE else None
    return path.read_text().splitlines() if path and path.exists() else []


class FailuresAtOnce:
    """Prints the name of each failed test when it has failed: a run takes minutes."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write one line after the test's letter, which stands among the dots."""
        if report.failed:
            self._terminal.write(f"\nFAILED {report.nodeid}\n", red=True)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the name of each test that passes at its second attempt."""
    if FLAKY_FILE and SECOND_ATTEMPT in sys.argv and report.when == "call" and report.passed:
        with Path(FLAKY_FILE).open("a") as file:
            file.write(
                f"{report.nodeid} (Python {sys.version_info.major}.{sys.version_info.minor})\n"
            )


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a run with too many flaky tests."""
    if exitstatus == pytest.ExitCode.OK and len(_flaky()) > FLAKY_AT_MOST:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the flaky tests in the last lines."""
    for name in _flaky():
        terminalreporter.write_line(f"FLAKY {name}: failed, then passed alone", yellow=True)
    if len(_flaky()) > FLAKY_AT_MOST:
        terminalreporter.write_line(
            f"{len(_flaky())} flaky tests; more than {FLAKY_AT_MOST} fail the run", red=True
        )


@pytest.fixture(scope="session", autouse=True)
def _prepared() -> Iterator[None]:
    """Start the program without its imports."""
    Program.prepared = Prepared()
    yield
    Program.prepared.close()
    Program.prepared = None


@pytest.fixture(autouse=True)
def _unchanged_signals() -> Iterator[None]:
    """Handle signals as before: a command that a test runs in this process may leave them ignored.

    A program that a later test starts would ignore them, too, and never end.
    """
    before = {
        number: signal.getsignal(number)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def _unchanged_logger() -> Iterator[None]:
    """Leave the process's logger as it was: commands that a test runs in this process set it up."""
    log = logging.getLogger(LOGGER)
    before = (log.handlers, log.level, log.propagate)
    yield
    log.handlers, log.level, log.propagate = before


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with a golden file, ``golden("name.txt", text)``."""

    def compare(name: str, text: str) -> None:
        path = DATA / "golden" / name
        if request.config.getoption("--update-golden"):
            path.write_text(text)
        assert text == path.read_text(), f"{name} differs: if that is meant, run: make golden"

    return compare


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """A simulator of two VMs in which nothing happens by itself."""
    with Simulator(QUIET) as running:
        yield running


@pytest.fixture
def start_exporter(tmp_path: Path) -> Iterator[Callable[..., Exporter]]:
    """Return ``start_exporter(endpoint, *flags, **environment)``; exporters end with the test."""
    with ExitStack() as stack:
        count = 0

        def start(endpoint: str, *flags: str, **env: str) -> Exporter:
            nonlocal count
            count += 1
            return stack.enter_context(
                Exporter(endpoint, tmp_path / f"exporter-{count}.log", *flags, **env)
            )

        yield start
