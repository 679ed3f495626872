"""Each test of a dashboard runs for all of them."""

import pytest

from support.monitoring.board_reader import BOARDS, Json, load


@pytest.fixture(params=BOARDS)
def board(request: pytest.FixtureRequest) -> Json:
    """Each dashboard in turn."""
    return load(request.param)
