"""One line per record, with any content."""

import fcntl
import io
import json
import logging
import os
import re

import pytest
from freezegun import freeze_time
from hypothesis import given, settings
from hypothesis import strategies as st

from azure_scheduled_events_exporter.log_limits import LibraryLimit, MessageLimit
from azure_scheduled_events_exporter.logs import facts, set_up

NASTY = [
    "two\nlines",
    'x" level=error msg="forged',
    "a b",
    "k=v",
    "back\\slash",
    "tab\t, return\r, nul\x00, escape\x1b[31m, csi\x9b31m, delete\x7f",
    "\u2028line and\u2029paragraph separators, next line\x85",
    "lone surrogate \ud800",
    "no-break\xa0space",
    "right-to-left \u202e override",
    "",
]
FIELD = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|[^\s"=\\]*)(?: |$)')


def written(form: str, message: str = "event detected", level: str = "info", **said: object) -> str:
    """Return what one record makes in ``form``."""
    stream = io.StringIO()
    log = set_up("debug", form, stream)
    log.log(getattr(logging, level.upper()), message, extra=facts(**said))
    return stream.getvalue()


def fields_of(line: str) -> dict[str, str]:
    """Return the fields of a logfmt line, as a program reads them."""
    fields: dict[str, str] = {}
    position = 0
    while position < len(line):
        found = FIELD.match(line, position)
        assert found, f"no field at {line[position:]!r}"
        key, value = found.groups()
        assert key not in fields, f"{key} twice in {line!r}"
        fields[key] = json.loads(value) if value.startswith('"') else value
        position = found.end()
    return fields


@freeze_time("2022-04-11T22:26:58.250Z")
def test_logfmt() -> None:
    """A record in logfmt is time in UTC, level, message and facts."""
    line = written("logfmt", event_id="A", seconds=1.5, count=3, mine=True, whole=2.0, nothing=None)
    assert line == (
        'ts=2022-04-11T22:26:58.250Z level=info msg="event detected"'
        " event_id=A seconds=1.5 count=3 mine=true whole=2 nothing=\n"
    )


@freeze_time("2022-04-11T22:26:58.250Z")
def test_json() -> None:
    """A record in JSON has the same fields, with their types."""
    line = written(
        "json", level="warning", event_id="A", seconds=1.5, count=3, mine=True, nothing=None
    )
    assert json.loads(line) == {
        "ts": "2022-04-11T22:26:58.250Z",
        "level": "warning",
        "msg": "event detected",
        "event_id": "A",
        "seconds": 1.5,
        "count": 3,
        "mine": True,
        "nothing": None,
    }


@pytest.mark.parametrize("value", NASTY)
def test_no_value_forges_a_field(value: str) -> None:
    """No value can end a line, add a field or control a terminal, and every value can be read
    back.
    """
    line = written("logfmt", description=value, after="x")
    assert line.endswith("\n")
    assert line[:-1].isprintable()
    fields = fields_of(line[:-1])
    assert list(fields) == ["ts", "level", "msg", "description", "after"]
    assert fields["description"] == value
    assert fields["level"] == "info"


@given(text=st.text(st.characters(codec=None)), form=st.sampled_from(["logfmt", "json"]))
@settings(deadline=None)
def test_any_text(text: str, form: str) -> None:
    """Every text, as a message or a fact, can be read back from its one line, and be written to any
    stream.
    """
    line = written(form, message=text, fact=text)
    assert line.endswith("\n")
    assert line[:-1].isprintable()
    line.encode()
    fields = json.loads(line) if form == "json" else fields_of(line[:-1])
    assert fields["fact"] == text
    assert fields["msg"] == text


@pytest.mark.parametrize("form", ["logfmt", "json"])
def test_traceback_is_one_line(form: str) -> None:
    """A traceback is a field of its record."""
    stream = io.StringIO()
    log = set_up("info", form, stream)
    try:
        raise ValueError("of\ntwo lines")  # noqa: TRY301 - what is to be logged
    except ValueError:
        log.exception("failed", extra=facts(thread="poll"))
    line = stream.getvalue()
    assert line.count("\n") == 1
    fields = json.loads(line) if form == "json" else fields_of(line[:-1])
    assert fields["thread"] == "poll"
    assert "ValueError: of\ntwo lines" in fields["traceback"]


def test_level() -> None:
    """Nothing below the level is written."""
    stream = io.StringIO()
    log = set_up("warning", "logfmt", stream)
    log.info("quiet")
    log.warning("loud")
    assert "quiet" not in stream.getvalue()
    assert "msg=loud" in stream.getvalue()


def test_a_line_longer_than_the_space_for_it() -> None:
    """A line for which nobody makes space is cut where the space ends. The next one begins on a
    line of its own, after a line that counts the lost ones.
    """
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 16_384)
    with os.fdopen(read_end, "rb", buffering=0) as reader, os.fdopen(write_end, "w") as stream:
        log = set_up("info", "logfmt", stream)
        log.info("long", extra=facts(text="x" * 100_000))  # gives up soon: nobody reads yet
        first = reader.read(1 << 16).decode()
        log.info("short")
        rest = reader.read(1 << 16).decode()
    cut, loss, last, after_the_last = (first + rest).split("\n")
    assert cut.startswith("ts=")
    assert cut.endswith("xxx")
    assert fields_of(loss)["lines"] == "1"
    assert fields_of(loss)["level"] == "warning"
    assert fields_of(last)["msg"] == "short"
    assert after_the_last == ""


def test_lines_that_nobody_reads_are_counted() -> None:
    """A reader that was away for a while learns how many lines it has missed."""
    read_end, write_end = os.pipe()
    # Linux keeps what is written to a pipe in pages of 4096 bytes. It calls a pipe of two pages
    # full as soon as the second one has been begun.
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 2 * 4096)
    with os.fdopen(read_end, "rb", buffering=0) as reader, os.fdopen(write_end, "w") as stream:
        log = set_up("info", "logfmt", stream)
        log.info("fills the first page", extra=facts(text="x" * 3980))
        log.info("begins the second page")
        for _ in range(3):
            log.info("lost")
        reader.read(1 << 16)
        log.info("again")  # is written after a line about the loss
        loss, last, _ = reader.read(1 << 16).decode().split("\n")
    assert (fields_of(loss)["level"], fields_of(loss)["lines"]) == ("warning", "3")
    assert fields_of(last)["msg"] == "again"


def test_repetition_is_bounded() -> None:
    """One message is logged 300 times a minute at most; the next line says how many were left
    out.
    """
    now = [0.0]
    limit = MessageLimit(lambda: now[0])
    records = [
        logging.LogRecord("log", logging.INFO, __file__, 0, "event %s", ("detected",), None)
        for _ in range(1000)
    ]
    logged = 300
    left_out = len(records) - logged
    assert [limit.filter(record) for record in records] == [True] * logged + [False] * left_out
    other = logging.LogRecord("log", logging.INFO, __file__, 0, "exporter stopped", (), None)
    assert limit.filter(other)
    now[0] = 60.0
    assert limit.filter(records[0])
    assert getattr(records[0], "facts", {}) == {"lines_left_out": left_out}
    assert limit.filter(records[1])
    assert not hasattr(records[1], "facts"), "the line before said it"


@pytest.mark.parametrize("library", ["asyncio", "uvicorn.error"])
def test_what_clients_can_cause(library: str) -> None:
    """In a minute, each message of a library is logged once, and ten different ones at most. Ours
    always are.
    """
    stream = io.StringIO()
    log = set_up("debug", "logfmt", stream)
    for _ in range(3):
        logging.getLogger(library).warning("Invalid HTTP request received.\nwith a detail")
        log.info("ours")
    for number in range(30):
        logging.getLogger(library).error("%d", number)
    said = stream.getvalue()
    assert said.count("Invalid HTTP request") == 1
    assert said.count("msg=ours") == 3
    assert said.count("level=error") == 9, "and the warning, which makes ten"


def test_a_minute_later() -> None:
    """After a minute, a message of a library is logged again."""
    now = [0.0]
    limit = LibraryLimit(lambda: now[0])
    record = logging.LogRecord("asyncio", logging.ERROR, __file__, 0, "again", (), None)
    assert [limit.filter(record) for _ in range(2)] == [True, False]
    now[0] = 59.9
    assert not limit.filter(record)
    now[0] = 60.0
    assert limit.filter(record)
