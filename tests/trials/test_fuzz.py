"""Minutes of fuzzing, all targets together. Findings are in the failure message, and in a file below .fuzz/."""

import pytest

from fuzz.__main__ import fuzz
from fuzz.target import NAMES
from support.paths import ROOT

SECONDS = 10.0  # for each target


@pytest.mark.parametrize("name", NAMES)
def test_promise_holds_for_whatever_comes(name: str, seed: int) -> None:
    """No input found in these seconds breaks what the target promises, the captured ones first of all."""
    done = fuzz(name, SECONDS, seed, ROOT / ".fuzz")
    assert done.returncode == 0, done.stdout
    assert "stat::number_of_executed_units" in done.stdout
