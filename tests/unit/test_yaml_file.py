"""Reads what people write in YAML, strictly."""

from collections.abc import Callable
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.yaml_file import Section, load, parse


def read(text: str) -> Section:
    """Return the top of ``text``, called f.yaml."""
    return parse(text, "f.yaml")


@pytest.mark.parametrize(
    "written",
    ["off", "no", "yes", "on", "y", "true", "2020-07-01", "0o17", "017", "1e3", "1_000", "12:30",
     "0x1f", ".inf", "=", "2022-04-11 22:26:58"],
)  # fmt: skip
def test_scalars_are_text(written: str) -> None:
    """Values that YAML treats as a boolean, a date or a number are read as the text that was
    written.
    """
    assert read(f"key: {written}\n").text("key") == written
    assert read(f"keys: [{written}, '{written}']\n").texts("keys", ()) == (written, written)


@pytest.mark.parametrize("written", ["", "~", "null"])
def test_nothing_is_no_text(written: str) -> None:
    """A key without a value, in every form of YAML, is read as an empty text, and not as a VM
    called 'null'.
    """
    assert read(f"key: {written}\n").text("key") == ""


COMPLAINTS: list[tuple[str, Callable[[Section], object], str]] = [
    ("a: 1", lambda top: top.text("b"), "f.yaml:1: 'b' is missing"),
    ("a: 1", lambda top: top.number("b"), "f.yaml:1: 'b' is missing"),
    ("a: 1", lambda top: top.duration("b"), "f.yaml:1: 'b' is missing"),
    ("a: 1", lambda top: top.choice("b", ("x",)), "f.yaml:1: 'b' is missing"),
    (
        "\na: [1]",
        lambda top: top.text("a"),
        "f.yaml:2: a: must be one value, not a list or a mapping",
    ),
    (
        "\na: {b: 1}",
        lambda top: top.text("a"),
        "f.yaml:2: a: must be one value, not a list or a mapping",
    ),
    ("a: x", lambda top: top.number("a"), "f.yaml:1: a: 'x' is not a number"),
    ("a:", lambda top: top.number("a"), "f.yaml:1: a: '' is not a number"),
    ("a: -1", lambda top: top.number("a"), "f.yaml:1: a: must be a number, 0 or more, not -1"),
    ("a: nan", lambda top: top.number("a"), "f.yaml:1: a: must be a number, 0 or more, not nan"),
    ("a: inf", lambda top: top.number("a"), "f.yaml:1: a: must be a number, 0 or more, not inf"),
    (
        "a: 10",
        lambda top: top.duration("a"),
        (
            "f.yaml:1: a: '10' is no duration: write a number and a unit, such as 500ms, 1s, 1m30s"
            " or 90d"
        ),
    ),
    (
        "a: maybe",
        lambda top: top.flag("a", default=True),
        "f.yaml:1: a: 'maybe' is neither true nor false",
    ),
    ("a: z", lambda top: top.choice("a", ("x", "y")), "f.yaml:1: a: 'z' is none of x, y"),
    ("a: [[1]]", lambda top: top.texts("a", ()), "f.yaml:1: a: must be a list of plain values"),
    ("a: {b: 1}", lambda top: top.texts("a", ()), "f.yaml:1: a: must be a list of plain values"),
    ("a: 1", lambda top: top.section("a"), "f.yaml:1: a: must be a mapping"),
    ("a: [1]", lambda top: top.section("a"), "f.yaml:1: a: must be a mapping"),
    ("a: 1", lambda top: top.sections("a"), "f.yaml:1: a: must be a list"),
    (
        "a:\n- {b: 1}\n- 2",
        lambda top: top.sections("a"),
        "f.yaml:3: a: every entry must be a mapping",
    ),
    (
        "a:\n- {b: 1}\n- {b: x}",
        lambda top: top.sections("a")[1].number("b"),
        "f.yaml:3: a[1].b: 'x' is not a number",
    ),
    (
        "a:\n  b: 1\n  c: 2\n  b: 3",
        lambda top: top.section("a"),
        "f.yaml:4: 'b' appears twice (first in line 2): keep one",
    ),
    ("a: [1, 2]", lambda top: top.flat(), "f.yaml:1: a: must be one value, not a list"),
]


@pytest.mark.parametrize(
    ("text", "ask", "message"), COMPLAINTS, ids=[message for _, _, message in COMPLAINTS]
)
def test_complaints(text: str, ask: Callable[[Section], object], message: str) -> None:
    """An invalid value is refused with file, line and key."""
    with pytest.raises(UsageError) as caught:
        ask(read(text))
    assert str(caught.value) == message


def test_finish_refuses_what_nobody_asked_for() -> None:
    """A key that the program did not ask for is refused by name. The message has the keys that it
    asked for, in the file or not.
    """
    section = read("b: 1\nspeling: 2\n")
    section.text("b")
    section.text("a", "")
    with pytest.raises(UsageError) as caught:
        section.finish()
    assert str(caught.value) == "f.yaml:2: speling: unknown key; known here: a, b"


def test_load(tmp_path: Path) -> None:
    """A file is read as UTF-8."""
    path = tmp_path / "f.yaml"
    path.write_bytes("name: für\n".encode())
    assert load(path).text("name") == "für"


def test_load_of_what_is_no_text(tmp_path: Path) -> None:
    """A file that is no UTF-8, or no text at all, is refused: a password with a replaced letter
    would be wrong.
    """
    path = tmp_path / "f.yaml"
    path.write_bytes(b"port: 1\nname: f\xfcr\n")
    with pytest.raises(UsageError, match=r"f\.yaml:2: is not UTF-8 text: save the file as UTF-8"):
        load(path)
    path.write_bytes(bytes(range(128)))
    with pytest.raises(UsageError, match=r"f\.yaml: is not valid YAML: unacceptable character"):
        load(path)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing.yaml", "No such file or directory"),
        ("", "Is a directory"),  # the folder itself
        ("f/x", ""),  # below a file: each system gives another reason
    ],
)
def test_load_of_what_cannot_be_read(name: str, reason: str, tmp_path: Path) -> None:
    """A file that cannot be read is named, with the reason."""
    (tmp_path / "f").touch()
    path = tmp_path / name
    with pytest.raises(UsageError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: cannot be read: {reason}")


def test_load_of_what_is_too_large(tmp_path: Path) -> None:
    """A file of more than 1 MiB is not read; one of just 1 MiB is."""
    path = tmp_path / "f.yaml"
    mebibyte = 1 << 20
    beginning = b"a: 1\n###"
    # A comment of characters of four bytes: PyYAML takes its time for each character.
    character = "\U0001f600".encode()
    largest = beginning + character * ((mebibyte - len(beginning)) // len(character))
    assert len(largest) == mebibyte
    path.write_bytes(largest)
    assert load(path).text("a") == "1"
    path.write_bytes(largest + b"#")
    with pytest.raises(UsageError) as caught:
        load(path)
    assert str(caught.value) == f"{path}: larger than 1 MiB: this is not a configuration file"
