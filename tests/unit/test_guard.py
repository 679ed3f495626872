"""The guard that keeps tests from a real metadata service.

The event that Python raises before it connects is raised here by hand: even with a broken guard
nothing is sent.
"""

import subprocess
import sys

import pytest

from support.programs import environment

ADDRESS = "169.254.169.254"


def test_this_process_cannot_connect_to_the_metadata_address() -> None:
    """A test that forgot to name the simulator fails before a packet leaves."""
    with pytest.raises(PermissionError, match="name the simulator's endpoint"):
        sys.audit("socket.connect", None, (ADDRESS, 80))


def test_programs_started_by_tests_cannot_connect_to_it_either() -> None:
    """The guard is inherited by every Python program that a test starts."""
    attempt = f"import sys; sys.audit('socket.connect', None, ('{ADDRESS}', 80))"
    done = subprocess.run(
        [sys.executable, "-c", attempt],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "name the simulator's endpoint" in done.stderr
