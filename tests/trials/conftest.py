"""The seed of everything that a run of the trials leaves to chance."""

import random

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flags that repeat a run, and make it longer."""
    parser.addoption(
        "--seed",
        type=int,
        default=random.randrange(1, 1_000_000),
        help="repeats a run of the trials",
    )
    parser.addoption(
        "--fleets", type=int, default=40, help="how many random fleets the rules are played with"
    )


def pytest_sessionstart(session: pytest.Session) -> None:
    """Print the seed before the run."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter:  # the one that has the workers' reports
        reporter.write_line(f"seed {session.config.getoption('--seed')}")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the seed after the run, too, where the failures are."""
    terminalreporter.write_line(
        f"repeat with: make trials TRIALS='--seed {config.getoption('--seed')}'"
    )


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """Return the seed of this run."""
    found: int = request.config.getoption("--seed")
    return found
