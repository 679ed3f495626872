"""An event of more VMs than an exporter keeps the names of."""

from dataclasses import replace

import pytest

from azure_scheduled_events_exporter.commands.approve.question import question
from azure_scheduled_events_exporter.core.document import MOST_NAMES
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle
from azure_scheduled_events_exporter.web.report.content import report
from azure_scheduled_events_exporter.web.report.markdown import markdown
from azure_scheduled_events_exporter.web.report.model import Sources
from azure_scheduled_events_exporter.web.rows import current_row
from support.events.lives import SCHEDULED, START, Watch, at

VMS = tuple(f"vm_{number}" for number in range(150))
LEFT_OUT = len(VMS) - MOST_NAMES
NAMED_IN_A_REPORT = 10


@pytest.fixture
def life() -> Lifecycle:
    """Return a Scheduled event of all of ``VMS``."""
    watch = Watch()
    watch.sees(at(0), replace(SCHEDULED, resources=VMS))
    return watch.life


def test_a_row_counts_the_vms_without_a_name(life: Lifecycle) -> None:
    """The table of current events names those that are kept, and counts the others."""
    (cell,) = (cell for cell in current_row(life, START) if VMS[0] in cell)
    assert cell.endswith(f"{VMS[MOST_NAMES - 1]} and {LEFT_OUT} more")


def test_the_question_counts_the_vms_without_a_name(life: Lifecycle) -> None:
    """Before an approval, its operator reads how many VMs it concerns."""
    assert question([life]).endswith(f" and {LEFT_OUT} more")


def test_a_report_counts_all_other_vms(life: Lifecycle) -> None:
    """A report names ten VMs, and counts all others."""
    written = markdown(report(Sources(life)), "")
    assert f" and {len(VMS) - NAMED_IN_A_REPORT} more" in written
