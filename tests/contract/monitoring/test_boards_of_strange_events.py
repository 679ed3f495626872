"""What the dashboards show of more events than a table has rows, of odd ones, and of exporters with
a problem: with the recordings of the rules, and without.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.alerts import resolve
from azure_scheduled_events_exporter.alerts.series import BLIND, EXPORTERS
from azure_scheduled_events_exporter.alerts.vm_recordings import fleet_recordings, vm_recordings
from azure_scheduled_events_exporter.core.lifecycle import Kind
from dashboards import titles
from support.monitoring.board_fleet import HOUR, MINUTE, Event
from support.monitoring.board_moment import AT, board_at, prometheus_of, states, vm_board
from support.monitoring.board_reader import BOARDS, BoardReader, filled, load
from support.monitoring.board_story import story
from support.monitoring.engines import answer

PREEMPTS = 60
"""More events than a table has rows."""
MOST_ROWS = 50
ENDED_WHILE_ONE_WAS_BLIND = Event(
    "Reboot",
    ("web_0", "web_1"),
    seen=-HOUR,
    not_before=-30 * MINUTE,
    started=-30 * MINUTE,
    ended=-10 * MINUTE,
)
"""Both VMs saw it. The exporter of web_1 was blind before the end, which only that of web_0 saw."""
STRANGE = (
    ENDED_WHILE_ONE_WAS_BLIND,
    Event(
        "Freeze",
        ("web_2",),
        seen=-MINUTE,
        not_before=None,
        description="IMDS gives no NotBefore.",
    ),
    Event(
        "SpotRebalanceRecommendation",
        ("batch_1",),
        seen=-MINUTE,
        not_before=None,
        kind=Kind.ADVISORY,
    ),
    *(
        Event("Preempt", ("batch_2",), seen=-MINUTE, not_before=60.0 + number, description="")
        for number in range(PREEMPTS)
    ),
)
STATES = {"web_1": "blind", "web_4": "down"}
"""What is wrong with the exporters of these VMs."""


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus at a moment with the STRANGE events, an exporter that is blind and one that is
    down.
    """
    with prometheus_of(
        tmp_path_factory.mktemp("strange"), story(AT, current=STRANGE, states=STATES)
    ) as url:
        yield url


def test_a_table_has_at_most_fifty_rows(strange: str) -> None:
    """A table has the most urgent rows; no query returns more than a table may have."""
    for board in BOARDS:
        reader = vm_board(strange, "batch_2") if board == "vm" else board_at(strange, board)
        sizes = {name: len(series) for name, series in reader.answers().items()}
        assert {name: size for name, size in sizes.items() if size > MOST_ROWS} == {}
    scheduled = [row for row in states(board_at(strange)) if "Scheduled" in row]
    # Half of the rows are for current events, the other half for past ones.
    assert scheduled == [("Scheduled", "Preempt", "batch_2")] * (MOST_ROWS // 2)


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


def test_an_end_that_one_exporter_saw_counts(strange: str) -> None:
    """A blind exporter still shows the event as Started; the board shows its end, once."""
    vms_of_it = ",".join(ENDED_WHILE_ONE_WAS_BLIND.vms)
    rows_of_it = [row for row in states(board_at(strange)) if vms_of_it in row]
    assert rows_of_it == [("completed", "Reboot", vms_of_it)]


def test_the_exporters_with_a_problem_stand_above_the_others(strange: str) -> None:
    """Each number counts the exporters with a problem, of all that are chosen; the table names
    them.
    """
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
    # What the number about IMDS says with one exporter chosen: the first is well, the second is
    # down, and the third does not exist.
    for chosen, number in (
        ("web-0:10169", "fine"),
        ("web-4:10169", "1 affected"),
        ("gone:10169", "no exporter"),
    ):
        assert board_at(strange, "exporter", instance=chosen).stat(titles.IMDS) == number


def recorded(url: str) -> Iterator[str]:
    """Yield, as samples to import, what the rules would record of the series at ``url``."""
    recordings = (*vm_recordings(resolve({"job": ".+"}), "45s"), *fleet_recordings())
    rules = {each.record: f"({each.expression})" for each in recordings}
    # An instant query looks back for five minutes: these, and two more samples.
    times = {"start": f"{AT - 330}", "end": f"{AT}", "step": "15"}
    for name in (BLIND, EXPORTERS):
        # No rule runs here. So a recording that the query reads is filled in as its expression.
        query = filled(rules[name], rules)
        for series in answer(url, "query_range", {"query": query, **times}):
            series["metric"].pop("__name__", "")
            labels = ",".join(f'{label}="{text}"' for label, text in series["metric"].items())
            for at, value in series["values"]:
                yield f"{name}{{{labels}}} {value} {at}"


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


def test_what_a_rule_records_changes_no_answer(strange: str, tmp_path: Path) -> None:
    """A dashboard's variables $sees and $scraped are the names of the series that its queries read:
    of the recording, or of what exporters show if no rule records. Every query answers the same.
    """
    text = "\n".join([*recorded(strange), story(AT, current=STRANGE, states=STATES)])
    with prometheus_of(tmp_path, text) as url:
        for board in ("fleet", "exporter"):
            names = BoardReader(board, url).names()
            assert names == {"$sees": EXPORTERS, "$scraped": EXPORTERS}
            names_without_rules = BoardReader(board, strange).names()
            assert names_without_rules == {"$sees": "azure_scheduled_events_up", "$scraped": "up"}
            with_rules = everything_shown(BoardReader(board, url, names, AT))
            without_rules = everything_shown(BoardReader(board, strange, names_without_rules, AT))
            assert with_rules == without_rules
