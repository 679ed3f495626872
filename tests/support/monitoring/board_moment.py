"""The moment at which tests read the dashboards, and what the dashboards show at it.

No rule is loaded in the Prometheus of a test: the boards are right on scraped series alone, and
show the same of what a rule records.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dashboards import titles
from support.monitoring.board_reader import BoardReader, of_vm
from support.monitoring.board_story import StoryPrometheus

AT = float(int(time.time()))
"""The moment at which the boards are read: when the tests were loaded."""


@contextmanager
def prometheus_of(folder: Path, samples: str) -> Iterator[str]:
    """Run a Prometheus that has these samples; yield its address."""
    with StoryPrometheus(folder, samples) as prometheus:
        yield prometheus.url


def board_at(url: str, board: str = "fleet", **variables: str) -> BoardReader:
    """Return a dashboard at the moment of the story, with these values of its variables."""
    return BoardReader(board, url, {f"${name}": value for name, value in variables.items()}, AT)


def vm_board(url: str, vm: str) -> BoardReader:
    """Return the dashboard of a VM."""
    return BoardReader("vm", url, of_vm(vm, f"{vm.replace('_', '-')}:10169"), AT)


def states(reader: BoardReader) -> list[tuple[str, str, str]]:
    """Return state, type and VMs of the rows of events, in their order."""
    return [(row["State"], row["Type"], row.get("VMs", "")) for row in reader.table(titles.EVENTS)]
