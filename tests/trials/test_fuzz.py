"""Minutes of fuzzing, all targets together. Findings are in the failure message, and in a file below .fuzz/."""

from pathlib import Path

import pytest

from fuzz import campaign
from fuzz.registry import NAMES, PLANTED
from support.paths import ROOT

SECONDS = 10.0  # for each target


@pytest.mark.parametrize("name", NAMES)
def test_promise_holds_for_whatever_comes(name: str, seed: int, tmp_path: Path) -> None:
    """No input found in these seconds breaks what the target promises, the captured ones first of all."""
    kept = ROOT / ".fuzz" / "findings"
    result = campaign.fuzz(name, SECONDS, seed, tmp_path, kept)
    assert result.ok, str(result)
    assert result.executed > 0


def test_a_broken_promise_is_found_shown_and_kept(seed: int, tmp_path: Path) -> None:
    """An input that breaks a promise is written to a file, and shown with what is needed to repeat it."""
    result = campaign.fuzz(PLANTED, 30, seed, tmp_path)
    assert not result.ok
    ((path, data),) = result.findings.items()
    assert b"DocumentIncarnation" in data
    assert path.read_bytes() == data
    for wanted in ("the planted breach", repr(data), str(path), f"--repeat {path}"):
        assert wanted in str(result)
