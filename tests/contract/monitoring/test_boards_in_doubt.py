"""What the dashboards call current, ended or unknown: events that no exporter sees any more, that
one exporter misses, or that return, and a fleet without events or without exporters.
"""

from dataclasses import replace
from pathlib import Path

from dashboards import titles
from support.monitoring.board_fleet import HOUR, MINUTE, Event
from support.monitoring.board_fleet import PAST as STORY_PAST
from support.monitoring.board_moment import AT, board_at, prometheus_of, states, vm_board
from support.monitoring.board_story import id_in_story, story

CURRENT_ID = id_in_story(len(STORY_PAST))
"""How the EventId of a story's current event begins: it is numbered after those of the past."""


def test_an_event_that_nobody_sees_any_more_is_not_called_scheduled(tmp_path: Path) -> None:
    """Exporters without an answer of IMDS go on showing an event; the boards say that nobody sees
    it.
    """
    event = Event("Reboot", ("web_0",), seen=-HOUR, not_before=HOUR)
    all_are_blind = {f"web_{number}": "blind" for number in range(5)}
    with prometheus_of(tmp_path, story(AT, current=(event,), states=all_are_blind)) as url:
        assert states(board_at(url))[0] == ("not seen", "Reboot", "web_0")
        assert vm_board(url, "web_0").table(titles.EVENTS)[0]["State"] == "not seen"


def test_one_empty_document_ends_no_event_on_the_boards(tmp_path: Path) -> None:
    """IMDS gave one exporter a document without events, so this exporter saw an end. That end does
    not count as long as other exporters see the event.
    """
    current = Event("Reboot", ("web_0",), seen=-HOUR, not_before=HOUR)
    text = story(AT, current=(current,))
    # The exporter of web_3 exports the end. This series has the labels of that exporter's series
    # `event_first_seen…`, and an outcome.
    first_seen = next(
        line
        for line in text.splitlines()
        if line.startswith("azure_scheduled_events_event_first_seen")
        and CURRENT_ID in line
        and 'instance="web-3:10169"' in line
    )
    labels = first_seen[first_seen.index("{") : first_seen.index("}")]
    ended = "azure_scheduled_events_event_ended_timestamp_seconds"
    wrong = f'{ended}{labels},outcome="cancelled"}} {AT - MINUTE} {AT}'
    with prometheus_of(tmp_path, f"{wrong}\n{text}") as url:
        assert states(board_at(url))[0] == ("Scheduled", "Reboot", "web_0")
        assert board_at(url).stat(titles.VMS_SCHEDULED) == "1"


def test_an_event_that_returns_after_its_end_is_current(tmp_path: Path) -> None:
    """An event that was lost 50 minutes ago, and is seen again for 20 minutes, is current.

    Prometheus still has the samples of its end, but no exporter shows that end any more.
    """
    ended = Event(
        "Reboot",
        ("web_0",),
        seen=-2 * HOUR,
        not_before=-HOUR,
        started=None,
        ended=-50 * MINUTE,
        outcome="lost",
    )
    back = replace(ended, seen=-20 * MINUTE, not_before=10.0 * MINUTE, ended=None)
    samples_of_the_end = [
        line
        for line in story(AT, current=(ended,)).splitlines()
        if CURRENT_ID in line and "_ended_" in line
    ]
    # A line ends with its time. The last sample is from some minutes before the event is back.
    before_it_is_back = [
        line for line in samples_of_the_end if float(line.rpartition(" ")[2]) < AT - 25 * MINUTE
    ]
    text = "\n".join([*before_it_is_back, story(AT, current=(back,))])
    with prometheus_of(tmp_path, text) as url:
        rows = [row for row in board_at(url).table(titles.EVENTS) if row["VMs"] == "web_0"]
        current, _reboot_of_every_story = rows  # the latter is days old, in STORY_PAST
        assert current["State"] == "Scheduled"


def test_a_quiet_day_is_shown_without_a_doubt(tmp_path: Path) -> None:
    """While nothing happens and all exporters see IMDS, the numbers say 0 and none; tables have
    the history and the VMs.
    """
    with prometheus_of(tmp_path, story(AT, current=())) as quiet:
        fleet = board_at(quiet)
        asked = (
            titles.NEXT_EVENT,
            titles.VMS_STARTED,
            titles.VMS_SCHEDULED,
            titles.ALL_SEE_IMDS,
        )
        assert [fleet.stat(title) for title in asked] == ["none", "0", "0", "10 exporters: all"]
        assert len(states(fleet)) == len(STORY_PAST)
        assert {row["Now"] for row in fleet.table(titles.VMS)} == {"quiet"}
        # What the story has of these types; the notice is in seconds.
        by_type = {row["Type"]: row for row in fleet.table(titles.BY_TYPE)}
        freezes = {"Completed": "6", "Cancelled": "1", "Least notice": "900"}
        assert by_type["Freeze"].items() >= freezes.items()
        reboots = {"Completed": "2", "Lost": "1", "Least notice": "240"}
        assert by_type["Reboot"].items() >= reboots.items()
        (days,) = fleet.answers()[f"{titles.EVENTS_A_DAY} A"]
        assert sum(float(value) for _, value in days["values"]) == len(STORY_PAST)


def test_without_exporters_nothing_is_called_quiet(tmp_path: Path) -> None:
    """Without an exporter, the numbers do not say that there is no event, and tables have no row.

    That holds with the default value of the variable ``job``, and for a job that does not exist.
    """
    only_another_job = f'up{{job="node",instance="a:9100"}} 1 {AT:.0f}\n# EOF\n'
    with prometheus_of(tmp_path, only_another_job) as url:
        asked = (titles.NEXT_EVENT, titles.VMS_STARTED, titles.VMS_SCHEDULED)
        every_job = board_at(url)
        doubtful = {"unknown", "0 known, some exporters are blind"}
        assert {every_job.stat(title) for title in asked} <= doubtful
        fleet = board_at(url, job="none")
        assert {fleet.stat(title) for title in asked} == {"unknown"}
        assert fleet.stat(titles.ALL_SEE_IMDS).strip().endswith("none known")
        assert fleet.table(titles.EVENTS) == []
        assert fleet.table(titles.VMS) == []
        exporters = board_at(url, "exporter", job="none")
        assert exporters.stat(titles.IMDS) == "no exporter"
        assert exporters.table(titles.EXPORTERS) == []
