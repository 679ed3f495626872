"""Environment files, read as systemd reads them."""

from pathlib import Path

import pytest

from azure_scheduled_events_exporter.environment_file import load
from azure_scheduled_events_exporter.errors import UsageError
from support.servers.imds_peer import CASES


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("A=b\n", {"A": ("b", 1)}, id="one variable"),
        pytest.param(
            "# A=b\n; A=c\n\n  A = d \n", {"A": ("d", 4)}, id="comments and blanks around a value"
        ),
        pytest.param(
            "A=one two\nB='three  four'\n",
            {"A": ("one two", 1), "B": ("three  four", 2)},
            id="several words, quoted or not",
        ),
        pytest.param(
            'A="say \\"x\\" for \\$5"\n',
            {"A": ('say "x" for $5', 1)},
            id="escapes within double quotes",
        ),
        pytest.param(
            "A=one\\\ntwo\nB=c\n",
            {"A": ("onetwo", 1), "B": ("c", 3)},
            id="a line that a backslash continues",
        ),
        pytest.param("A=\n", {"A": ("", 1)}, id="an empty value"),
        pytest.param("A=first\nA=second\n", {"A": ("second", 2)}, id="the last assignment counts"),
        pytest.param("A=x=y#z", {"A": ("x=y#z", 1)}, id="= and # within a value"),
        pytest.param(r"A=C:\\folder", {"A": (r"C:\folder", 1)}, id="a backslash that is escaped"),
        pytest.param("A=b # c\n", {"A": ("b # c", 1)}, id="no comment after a value"),
        pytest.param("A='b'\"c\" d\n", {"A": ("bcd", 1)}, id="pieces in quotes, and one without"),
        pytest.param('A=b"c"\n', {"A": ('b"c"', 1)}, id="a quote within a value is text"),
        pytest.param(
            "A='b\n# c\n'\nD=e\n",
            {"A": ("b\n# c\n", 1), "D": ("e", 4)},
            id="a quoted value of several lines",
        ),
        pytest.param('A="b\\\nc\\d"\n', {"A": ("bc\\d", 1)}, id="a backslash within double quotes"),
        pytest.param(
            "A=b \\\n  c\nD=e",
            {"A": ("b   c", 1), "D": ("e", 3)},
            id="a continued line keeps its blanks",
        ),
        pytest.param(
            "A=b\\ \nC=d\n", {"A": ("b ", 1), "C": ("d", 2)}, id="a blank that is escaped"
        ),
        pytest.param("\n\n# only a comment", {}, id="no variable"),
        pytest.param("# one \\\nA=b\n# \\", {"A": ("b", 2)}, id="a comment ends with its line"),
        pytest.param("", {}, id="an empty file"),
    ],
)
def test_values(text: str, expected: dict[str, tuple[str, int]], tmp_path: Path) -> None:
    """Comments, quotes, escapes and continued lines mean what they mean to systemd. Each value
    comes with the number of the line in which its variable stands.
    """
    file = tmp_path / "environment"
    file.write_text(text)
    assert load(file) == expected


@pytest.mark.parametrize("text", ["A=b\nexport C=d\n", "A=b\nnonsense\n", "A=b\n=c\n"])
def test_bad_line(text: str, tmp_path: Path) -> None:
    """A line that is not an assignment is refused with its number; systemd would only log it."""
    file = tmp_path / "environment"
    file.write_text(text)
    with pytest.raises(UsageError, match=":2: expected NAME=VALUE"):
        load(file)


@pytest.mark.parametrize("text", ["A='b\n", 'A="b\\"\n', "A='b'\nC='\n", "A='b'\"c\n"])
def test_open_quote(text: str, tmp_path: Path) -> None:
    """A quote that is never closed is refused; systemd would take the rest of the file as the
    value.
    """
    file = tmp_path / "environment"
    file.write_text(text)
    with pytest.raises(UsageError, match=": the quote is not closed"):
        load(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\ufeffA=b\n", ":1: begins with a byte order mark"),
        ("\ufeff# comment\nA=b\n", ":1: begins with a byte order mark"),
        ("A=b\nC=d\0e\n", ":2: has a NUL byte"),
        ("A='b\n\0'\n", ":2: has a NUL byte"),
        ("A=b\n# \0\n", ":2: has a NUL byte"),
    ],
)
def test_invisible_characters(text: str, message: str, tmp_path: Path) -> None:
    """A byte order mark or a NUL byte is refused with its line; systemd would ignore a setting, or
    the whole file.
    """
    file = tmp_path / "environment"
    file.write_text(text)
    with pytest.raises(UsageError, match=message):
        load(file)


def test_not_text(tmp_path: Path) -> None:
    """A file that is not UTF-8 text is refused, as other files are. Notepad writes UTF-16, which is
    no UTF-8, or UTF-8 with a byte order mark.
    """
    file = tmp_path / "environment"
    file.write_bytes(b"A=\xff\n")
    with pytest.raises(UsageError, match=r":1: is not UTF-8 text: save the file as UTF-8$"):
        load(file)
    with pytest.raises(UsageError, match=r":1: is not UTF-8 text: save the file as UTF-8$"):
        load(CASES / "env.utf16")
    with pytest.raises(
        UsageError, match=r":1: begins with a byte order mark, so systemd ignores its first setting"
    ):
        load(CASES / "env.bom")
