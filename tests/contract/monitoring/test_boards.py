"""What the dashboards show of a fleet's last 30 days and of its current events, read as Grafana
reads it, from a real Prometheus.

``board_fleet.py`` has the VMs and events that are expected here.
"""

from collections.abc import Iterator

import pytest

from dashboards import titles
from support.monitoring.board_fleet import MINUTE, NOW
from support.monitoring.board_fleet import PAST as STORY_PAST
from support.monitoring.board_moment import AT, board_at, prometheus_of, states, vm_board
from support.monitoring.board_reader import BoardReader, of_vm
from support.monitoring.board_story import story


@pytest.fixture(scope="module")
def during_events(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus at a moment with five current events; db-standby, the VM of one, is away."""
    with prometheus_of(tmp_path_factory.mktemp("events"), story(AT)) as url:
        yield url


def test_what_happens_now_stands_above_what_happened(during_events: str) -> None:
    """Current events come first, the most urgent on top, then those whose VM is away, then past
    ones.
    """
    fleet = board_at(during_events)
    current_and_two_past = states(fleet)[: len(NOW) + 2]
    assert current_and_two_past == [
        ("Started", "Freeze", "web_1"),
        ("Scheduled", "Preempt", "batch_1"),
        ("Scheduled", "Reboot", "web_2"),
        ("Scheduled", "Redeploy", "db-primary"),
        ("not seen", "Reboot", "db-standby"),
        ("completed", "Redeploy", "web_1"),
        ("completed", "Freeze", "db-primary"),
    ]
    assert len(states(fleet)) == len(NOW) + len(STORY_PAST)
    assert fleet.stat(titles.NEXT_EVENT) == "25", "seconds until the Preempt of batch_1"
    assert fleet.stat(titles.VMS_STARTED) == "1"
    assert fleet.stat(titles.VMS_SCHEDULED) == "3"
    assert fleet.stat(titles.ALL_SEE_IMDS) == "10 exporters: 1 blind", "that of db-standby"


def test_each_event_says_who_approved_it_and_when_it_happens(during_events: str) -> None:
    """The table has the approver of each event, when a policy will approve it, and when it happens
    at the latest.
    """
    rows = {(row["State"], row["VMs"]): row for row in board_at(during_events).table(titles.EVENTS)}
    assert rows["Started", "web_1"]["Approved"] == "not by exporter"
    assert rows["Scheduled", "batch_1"]["Approved"] == "not yet"
    assert rows["Scheduled", "web_2"]["Approved"] == "not yet"
    # A policy approves the Reboot of web_2 in a minute, and it happens in 11 at the latest.
    milliseconds = 1000
    assert float(rows["Scheduled", "web_2"]["Policy approves"]) == (AT + MINUTE) * milliseconds
    assert float(rows["Scheduled", "web_2"]["When"]) == (AT + 11 * MINUTE) * milliseconds
    assert rows["completed", "web_0"]["Approved"] == "by exporter"
    assert rows["Scheduled", "db-primary"]["Kind"] == "far ahead"


def test_vms_with_an_event_stand_above_those_without_data(during_events: str) -> None:
    """Every VM has a row with its state: those with an event come first, then those without data,
    then the quiet ones. A VM that is away has no data, and its event beside that. What somebody may
    have to act on has a link to the portal.
    """
    rows = {row["VM"]: row for row in board_at(during_events).table(titles.VMS)}
    assert [row["Now"] for row in rows.values()] == [
        "Started",
        *["Scheduled"] * 3,
        "no data",
        *["quiet"] * 5,
    ]
    assert rows["web_1"]["Azure portal"] == "open"
    away = rows["db-standby"]
    assert (away["Now"], away["Event"], away["Azure portal"]) == ("no data", "Reboot", "open")
    assert "Azure portal" not in rows["web_0"], "it is quiet"


def test_a_resource_group_hides_what_is_known_to_be_in_another(during_events: str) -> None:
    """With a resource group chosen, the boards have its VMs and their events alone. A VM that is
    away, and its event, belong to the group that it was in.
    """
    data = board_at(during_events, resource_group="data")
    assert {vms for _, _, vms in states(data)} == {"db-primary", "db-standby"}
    assert [row["VM"] for row in data.table(titles.VMS)] == ["db-primary", "db-standby"]
    # The group has no Started event that an exporter sees, but the exporter of db-standby is away.
    assert data.stat(titles.VMS_STARTED) == "0 known, some exporters are blind"
    production = board_at(during_events, resource_group="production")
    assert ("not seen", "Reboot", "db-standby") not in states(production)


def test_the_board_of_a_vm_has_its_events_alone(during_events: str) -> None:
    """The board of a VM has the current events of the VM, and the past ones that its exporter saw.
    It finds current events by the VM's name, in upper or lower case.
    """
    web = vm_board(during_events, "web_1")
    rows = web.table(titles.EVENTS)
    assert [(row["State"], row["Type"]) for row in rows] == [
        ("Started", "Freeze"),
        ("completed", "Redeploy"),
        ("completed", "Freeze"),
    ]
    # The Freeze of six days ago: seconds of notice, in the state Started, and announced as a pause.
    *_, completed_freeze = rows
    assert completed_freeze["Notice"] == "900"
    assert completed_freeze["Started for"] == "480"
    assert completed_freeze["Announced"] == "5"
    assert (web.stat(titles.STATE), web.stat(titles.SEES_IMDS)) == ("Started", "yes")
    assert web.stat(titles.POLICY) == "documented"
    (identity,) = web.table(titles.THIS_VM)
    assert (identity["VM"], identity["Scale set"], identity["Azure portal"]) == (
        "web_1",
        "web",
        "open",
    )
    without_its_exporter = BoardReader("vm", during_events, of_vm("WEB_1", instances="none"), AT)
    assert [row["State"] for row in without_its_exporter.table(titles.EVENTS)] == ["Started"]


def test_the_timeline_has_what_was_announced_and_what_was_measured(during_events: str) -> None:
    """The board of the fleet has a row for each VM that had an event within the last day, and the
    board of a VM has one for each type: Scheduled, Started, and then the seconds of the pause, if
    one was measured.
    """
    rows = board_at(during_events).timeline(titles.TIMELINE)
    rows.pop("batch_1", None)  # its event is five seconds old: the timeline may have it or not
    assert rows == {
        "web_1": ["Scheduled", "Started", "Scheduled", "Started"],
        "web_2": ["Scheduled"],
        "web_4": ["Scheduled", "Started", "12.3"],
        "db-primary": ["Scheduled", "Started", "4.2", "Scheduled"],
        "db-standby": ["Scheduled", "Started"],
    }
    assert vm_board(during_events, "web_4").timeline(titles.TIMELINE) == {
        "Freeze": ["Scheduled", "Started", "12.3"]
    }


def test_the_board_of_a_vm_says_what_an_event_did_to_it(during_events: str) -> None:
    """The pause and the TCP segments that were measured stand beside what Azure announced: here a
    Freeze of 5 s, in which the VM stood still for 12.3 s.
    """
    web = vm_board(during_events, "web_4")
    (measured,) = web.table(titles.MEASURED)
    assert measured["Type"] == "Freeze"
    assert measured["Announced"] == "5"
    assert measured["Paused"] == "12.3"
    assert measured["TCP segments sent again"] == "240"
    assert measured["TCP timeouts"] == "12"
    newest, *_ = web.table(titles.EVENTS)
    assert newest["Paused"] == "12.3"


def test_events_are_marked_with_their_type_and_vms(during_events: str) -> None:
    """Both boards mark the time in which an event was Started; that of a VM has no event of
    others.
    """

    def marks(board: BoardReader) -> list[tuple[str, str]]:
        """Return type and VMs of each mark."""
        found = board.answers()["Azure Scheduled Events A"]  # the query of the board's annotations
        return [(each["metric"]["event_type"], each["metric"]["vms"]) for each in found]

    of_fleet = marks(board_at(during_events))
    assert {("Redeploy", "web_1"), ("Freeze", "web_4")} <= set(of_fleet)
    of_web_1 = marks(vm_board(during_events, "web_1"))
    assert ("Redeploy", "web_1") in of_web_1
    assert ("Freeze", "web_4") not in of_web_1


def test_a_vm_that_is_away_is_not_called_quiet(during_events: str) -> None:
    """The board of a VM that is away says that nobody sees its event, that its exporter is down,
    and that the rest is unknown.
    """
    standby = vm_board(during_events, "db-standby")
    assert [row["State"] for row in standby.table(titles.EVENTS)] == [
        "not seen",
        "lost",
        "completed",
    ]
    asked = (
        titles.STATE,
        titles.NEXT_EVENT,
        titles.SEES_IMDS,
        titles.POLICY,
    )
    assert [standby.stat(title) for title in asked] == ["not seen", "unknown", "down", "unknown"]


def test_days_are_counted_by_when_an_event_was_first_seen(during_events: str) -> None:
    """The panel has a bar for each day. An event counts once, though it spans midnight and several
    exporters show it.
    """
    (days,) = board_at(during_events).answers()[f"{titles.EVENTS_A_DAY} A"]
    assert sum(float(value) for _, value in days["values"]) == len(STORY_PAST) + len(NOW)
    assert len(days["values"]) <= 30 + 1, "30 days touch 31 dates"
