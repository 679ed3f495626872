"""What the dashboards show of a fleet's last 30 days and present, read as Grafana reads it, from a
real Prometheus.

No rule is loaded: boards are right on scraped series alone, and show the same of what a rule
records.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.alerts import resolve
from azure_scheduled_events_exporter.alerts.series import BLIND, EXPORTERS
from azure_scheduled_events_exporter.alerts.vm_recordings import fleet_recordings, vm_recordings
from azure_scheduled_events_exporter.core.lifecycle import Kind
from dashboards import titles
from support.monitoring.board_fleet import HOUR, MINUTE, NOW, Event
from support.monitoring.board_fleet import PAST as STORY_PAST
from support.monitoring.board_reader import BOARDS, EVERYTHING, BoardReader, filled, load, of_vm
from support.monitoring.board_story import StoryPrometheus, story
from support.monitoring.engines import answer

AT = float(int(time.time()))
"""The moment at which the boards are read."""
PREEMPTS = 60
"""More events than a table has rows."""
MOST_ROWS = 50


@contextmanager
def prometheus_of(folder: Path, samples: str) -> Iterator[str]:
    """Run a Prometheus that has these samples; yield its address."""
    with StoryPrometheus(folder, samples) as prometheus:
        yield prometheus.url


@pytest.fixture(scope="module")
def during_events(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus at a moment with five current events, the VM of one of which is away."""
    with prometheus_of(tmp_path_factory.mktemp("events"), story(AT)) as url:
        yield url


STRANGE = (
    # seen by two VMs, one of which went blind before the end that the other saw
    Event("Reboot", ("web_0", "web_1"), -HOUR, -30 * MINUTE, -30 * MINUTE, -10 * MINUTE),
    Event("Freeze", ("web_2",), -MINUTE, None, description="IMDS gives no NotBefore."),
    Event("SpotRebalanceRecommendation", ("batch_1",), -MINUTE, None, kind=Kind.ADVISORY),
    *(
        Event("Preempt", ("batch_2",), -MINUTE, 60.0 + number, description="")
        for number in range(PREEMPTS)
    ),
)
STATES = {"web_1": "blind", "web_4": "down"}


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus at a moment with many events, an event that ended while an exporter was blind,
    and one down.
    """
    with prometheus_of(
        tmp_path_factory.mktemp("strange"), story(AT, current=STRANGE, states=STATES)
    ) as url:
        yield url


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that scrapes no exporter."""
    text = f'up{{job="node",instance="a:9100"}} 1 {AT:.0f}\n# EOF\n'
    with prometheus_of(tmp_path_factory.mktemp("empty"), text) as url:
        yield url


def board_at(url: str, board: str = "fleet", **variables: str) -> BoardReader:
    """Return a dashboard at the moment of the story, with these values of its variables."""
    return BoardReader(board, url, {f"${name}": value for name, value in variables.items()}, AT)


def vm_board(url: str, vm: str) -> BoardReader:
    """Return the dashboard of a VM."""
    return BoardReader("vm", url, of_vm(vm, f"{vm.replace('_', '-')}:10169"), AT)


def id_in_story(number: int) -> str:
    """Return how the EventId of an event of the story begins: past ones first, then current
    ones.
    """
    return f"{0xC7061BAC + number:08X}"


def states(reader: BoardReader) -> list[tuple[str, str, str]]:
    """Return state, type and VMs of the rows of events, in their order."""
    return [(row["State"], row["Type"], row.get("VMs", "")) for row in reader.table(titles.EVENTS)]


def everything_shown(reader: BoardReader) -> dict[str, object]:
    """Return the texts of single numbers, some of which stand for a doubt, by the panel's title;
    and the answers of all other queries, without the names of metrics, by title and letter.
    """
    texts = {
        each["title"]: reader.stat(each["title"])
        for each in load(reader.board)["panels"]
        if each["type"] == "stat"
    }
    answers = {}
    for title_and_letter, series in reader.answers().items():
        if title_and_letter[: -len(" A")] in texts:
            continue
        for each in series:
            each["metric"].pop("__name__", "")
        answers[title_and_letter] = series
    return {**answers, **texts}


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
    assert fleet.stat(titles.NEXT_EVENT) == "25", "seconds"
    assert fleet.stat(titles.VMS_STARTED) == "1"
    assert fleet.stat(titles.VMS_SCHEDULED) == "3"
    assert fleet.stat(titles.ALL_SEE_IMDS) == "10 exporters: 1 blind"


def test_each_event_says_who_approved_it_and_when_it_happens(during_events: str) -> None:
    """The table has the approver of each event, when a policy will approve it, and when it happens
    at the latest.
    """
    rows = {(row["State"], row["VMs"]): row for row in board_at(during_events).table(titles.EVENTS)}
    assert rows["Started", "web_1"]["Approved"] == "not by exporter"
    assert rows["Scheduled", "batch_1"]["Approved"] == "not yet"
    assert rows["Scheduled", "web_2"]["Approved"] == "not yet"
    milliseconds = 1000
    assert float(rows["Scheduled", "web_2"]["Policy approves"]) == (AT + MINUTE) * milliseconds
    assert float(rows["Scheduled", "web_2"]["When"]) == (AT + 11 * MINUTE) * milliseconds
    assert rows["completed", "web_0"]["Approved"] == "by exporter"
    assert rows["Scheduled", "db-primary"]["Kind"] == "far ahead"


def test_vms_with_an_event_stand_above_those_without_data(during_events: str) -> None:
    """Every VM has a row with its state: those with an event come first, with a link to the portal,
    then those without data, then the quiet ones.
    """
    rows = {row["VM"]: row for row in board_at(during_events).table(titles.VMS)}
    assert [row["Now"] for row in rows.values()] == [
        "Started",
        *["Scheduled"] * 3,
        "no data",
        *["quiet"] * 5,
    ]
    assert rows["web_1"]["Azure portal"] == rows["db-standby"]["Azure portal"] == "open"
    assert (rows["db-standby"]["Event"], rows["db-standby"]["Now"]) == ("Reboot", "no data")
    assert "Azure portal" not in rows["web_0"], "there is nothing to act on"


def test_a_resource_group_hides_what_is_known_to_be_in_another(during_events: str) -> None:
    """The event of a VM that is away goes by the place that it had."""
    data = board_at(during_events, resource_group="data")
    assert {vms for _, _, vms in states(data)} == {"db-primary", "db-standby"}
    assert [row["VM"] for row in data.table(titles.VMS) if row["Now"] != "no data"] == [
        "db-primary"
    ]
    assert ("not seen", "Reboot", "db-standby") not in states(
        board_at(during_events, resource_group="production")
    )
    assert data.stat(titles.VMS_STARTED) == "0 known, some exporters are blind"


def test_the_board_of_a_vm_has_its_events_alone(during_events: str) -> None:
    """The board of a VM has the history of its exporter and its current events. It finds the VM by
    its name in any case.
    """
    web = vm_board(during_events, "web_1")
    rows = web.table(titles.EVENTS)
    assert [(row["State"], row["Type"]) for row in rows] == [
        ("Started", "Freeze"),
        ("completed", "Redeploy"),
        ("completed", "Freeze"),
    ]
    *_, completed_freeze = rows
    assert completed_freeze["Notice"] == "900"
    assert completed_freeze["Started for"] == "480"
    assert completed_freeze["Announced"] == "5"
    assert (web.stat(titles.STATE), web.stat(titles.SEES_IMDS)) == (
        "Started",
        "yes",
    )
    assert web.stat(titles.POLICY) == "documented"
    (identity,) = web.table(titles.THIS_VM)
    assert (identity["VM"], identity["Scale set"], identity["Azure portal"]) == (
        "web_1",
        "web",
        "open",
    )
    loud = BoardReader("vm", during_events, of_vm("WEB_1", "none"), AT)
    assert [row["State"] for row in loud.table(titles.EVENTS)] == ["Started"]


def test_the_timeline_has_what_was_announced_and_what_was_measured(during_events: str) -> None:
    """A row for each VM that had an event: scheduled, started, and then the seconds of its pause,
    if one was measured.
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
    """The pause and the TCP segments that were measured stand beside what Azure announced."""
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
        """Return type and VMs of each mark, which the board's annotations ask for."""
        found = board.answers()["Azure Scheduled Events A"]
        return [(each["metric"]["event_type"], each["metric"]["vms"]) for each in found]

    of_web_1 = marks(vm_board(during_events, "web_1"))
    assert ("Redeploy", "web_1") in marks(board_at(during_events))
    assert ("Redeploy", "web_1") in of_web_1
    assert ("Freeze", "web_4") not in of_web_1


def test_an_event_that_nobody_sees_any_more_is_not_called_scheduled(tmp_path: Path) -> None:
    """Exporters without IMDS go on showing it; the boards say that nobody sees it."""
    event = Event("Reboot", ("web_0",), -HOUR, HOUR)
    all_are_blind = {f"web_{number}": "blind" for number in range(5)}
    with prometheus_of(tmp_path, story(AT, current=(event,), states=all_are_blind)) as url:
        assert states(board_at(url))[0] == ("not seen", "Reboot", "web_0")
        assert vm_board(url, "web_0").table(titles.EVENTS)[0]["State"] == "not seen"


def test_one_empty_document_ends_no_event_on_the_boards(tmp_path: Path) -> None:
    """An end that one exporter saw counts only once no other sees the event."""
    current = Event("Reboot", ("web_0",), -HOUR, HOUR)
    text = story(AT, current=(current,))
    # The exporter of web_3 has seen an end of the event: a series with the labels of another one.
    first_seen = next(
        line
        for line in text.splitlines()
        if line.startswith("azure_scheduled_events_event_first_seen")
        and id_in_story(len(STORY_PAST)) in line
        and 'instance="web-3:10169"' in line
    )
    labels = first_seen[first_seen.index("{") : first_seen.index("}")]
    ended = "azure_scheduled_events_event_ended_timestamp_seconds"
    wrong = f'{ended}{labels},outcome="cancelled"}} {AT - MINUTE} {AT}'
    with prometheus_of(tmp_path, f"{wrong}\n{text}") as url:
        assert states(board_at(url))[0] == ("Scheduled", "Reboot", "web_0")
        assert board_at(url).stat(titles.VMS_SCHEDULED) == "1"


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


def recorded(url: str) -> Iterator[str]:
    """Yield, as samples to import, what the rules would record of the series at ``url``."""
    recordings = (*vm_recordings(resolve({"job": ".+"}), "45s"), *fleet_recordings())
    rules = {each.record: f"({each.expression})" for each in recordings}
    # Five minutes are what an instant query looks back, and some more samples.
    times = {"start": f"{AT - 330}", "end": f"{AT}", "step": "15"}
    for name in (BLIND, EXPORTERS):
        for series in answer(url, "query_range", {"query": filled(rules[name], rules), **times}):
            series["metric"].pop("__name__", "")
            labels = ",".join(f'{label}="{text}"' for label, text in series["metric"].items())
            for at, value in series["values"]:
                yield f"{name}{{{labels}}} {value} {at}"


def test_what_a_rule_records_changes_no_answer(strange: str, tmp_path: Path) -> None:
    """The variables find the recording, and every query answers the same with it as without."""
    text = "\n".join([*recorded(strange), story(AT, current=STRANGE, states=STATES)])
    with prometheus_of(tmp_path, text) as url:
        for board in ("fleet", "exporter"):
            names = BoardReader(board, url).names()
            assert names == {"$sees": EXPORTERS, "$scraped": EXPORTERS}
            with_rules = everything_shown(BoardReader(board, url, names, AT))
            without_rules = everything_shown(BoardReader(board, strange, {}, AT))
            assert with_rules == without_rules
            names_without_rules = BoardReader(board, strange).names()
            assert names_without_rules == {name: EVERYTHING[name] for name in names}


def test_an_end_that_one_exporter_saw_counts(strange: str) -> None:
    """A blind exporter still shows the event; the boards show its end, once."""
    of_both = "web_0,web_1"
    over = [(state, kind, vms) for state, kind, vms in states(board_at(strange)) if vms == of_both]
    assert over == [("completed", "Reboot", "web_0,web_1")]


def test_events_without_a_time_are_shown(strange: str) -> None:
    """Advice, and an event whose NotBefore cannot be read, are current events, too. Advice does not
    count as the state of its VM.
    """
    advice, *_ = vm_board(strange, "batch_1").table(titles.EVENTS)
    assert advice["State"] == "Advisory"
    assert advice["Kind"] == "advisory"
    assert advice["When"] == "no time given"
    assert vm_board(strange, "web_2").table(titles.EVENTS)[0]["When"] == "no time given"
    assert vm_board(strange, "batch_1").stat(titles.STATE) == "nothing"


def test_a_table_has_at_most_fifty_rows(strange: str) -> None:
    """A table has the most urgent rows; no query returns more than a table may have."""
    for board in BOARDS:
        reader = vm_board(strange, "batch_2") if board == "vm" else board_at(strange, board)
        sizes = {name: len(series) for name, series in reader.answers().items()}
        assert {name: size for name, size in sizes.items() if size > MOST_ROWS} == {}
    scheduled = [row for row in states(board_at(strange)) if "Scheduled" in row]
    # Half of the rows are for current events, the other half for past ones.
    assert scheduled == [("Scheduled", "Preempt", "batch_2")] * (MOST_ROWS // 2)


def test_the_exporters_with_a_problem_stand_above_the_others(strange: str) -> None:
    """Each number counts the exporters with a problem; the table names them."""
    board = board_at(strange, "exporter")
    assert (board.stat(titles.IMDS), board.stat(titles.THROTTLING), board.stat(titles.JOURNAL)) == (
        "2 affected",
        "fine",
        "fine",
    )
    rows = board.table(titles.EXPORTERS)
    assert [(row["State"], row["VM"]) for row in rows[:2]] == [
        ("down", "web_4"),
        ("IMDS fails", "web_1"),
    ]
    assert {row["State"] for row in rows[2:]} == {"sees IMDS"}
    chosen = {"web-0:10169": "fine", "web-4:10169": "1 affected", "gone:10169": "no exporter"}
    assert {
        name: board_at(strange, "exporter", instance=name).stat(titles.IMDS) for name in chosen
    } == chosen


def test_a_quiet_day_is_green_only_while_all_exporters_see_imds(tmp_path: Path) -> None:
    """While nothing happens, the numbers say 0 and none; tables have the history and the VMs."""
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


def test_without_exporters_nothing_is_called_quiet(empty: str) -> None:
    """Without an exporter, the numbers say that nothing is known, and no table has a row."""
    asked = (titles.NEXT_EVENT, titles.VMS_STARTED, titles.VMS_SCHEDULED)
    every_job = board_at(empty)
    doubtful = {"unknown", "0 known, some exporters are blind"}
    assert {every_job.stat(title) for title in asked} <= doubtful
    fleet = board_at(empty, job="none")
    assert {fleet.stat(title) for title in asked} == {"unknown"}
    assert fleet.stat(titles.ALL_SEE_IMDS).strip().endswith("none known")
    assert fleet.table(titles.EVENTS) == []
    assert fleet.table(titles.VMS) == []
    exporters = board_at(empty, "exporter", job="none")
    assert exporters.stat(titles.IMDS) == "no exporter"
    assert exporters.table(titles.EXPORTERS) == []


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
    event_id = id_in_story(len(STORY_PAST))
    samples_of_the_end = [
        line
        for line in story(AT, current=(ended,)).splitlines()
        if event_id in line and "_ended_" in line
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


def test_days_are_counted_by_when_an_event_was_first_seen(during_events: str) -> None:
    """A bar a day, each event once, though it spans midnight and several exporters show it."""
    (days,) = board_at(during_events).answers()[f"{titles.EVENTS_A_DAY} A"]
    assert sum(float(value) for _, value in days["values"]) == len(STORY_PAST) + len(NOW)
    assert len(days["values"]) <= 30 + 1, "30 days touch 31 dates"
