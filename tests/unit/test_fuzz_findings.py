"""What fuzzing has found, each as the shortest input that shows it."""

from pathlib import Path

import pytest

from azure_scheduled_events_exporter.approval import policy_file
from azure_scheduled_events_exporter.commands.cli import main
from azure_scheduled_events_exporter.config.resolution import resolve
from azure_scheduled_events_exporter.errors import UsageError


@pytest.mark.parametrize("key", [r"a\nb", r"\e[2J", r"\x9b2J", r"\u2028", r"\uD800"])
def test_a_key_with_controls_is_complained_about_in_one_line(tmp_path: Path, key: str) -> None:
    """An error about a file is one printable line, with any characters in the names of keys."""
    path = tmp_path / "policy.yaml"
    path.write_text(f'"{key}": 1\n')
    with pytest.raises(UsageError) as caught:
        policy_file.load(path)
    assert str(caught.value).isprintable()
    assert str(caught.value).startswith(f"{path}:1: ")


def test_a_flag_with_controls_is_complained_about_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A complaint about the command line is one line too, and steers no terminal."""
    assert main(["check-config", "--log.level", "a\nb\x1b[2J"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.removesuffix("\n").isprintable()


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("web.listen-address", "[::1%\n]:1"),
        ("instance.name", "web_0\udcff"),  # a byte of the command line that is no UTF-8
        ("instance.name", "web_0\n"),
        ("otlp.endpoint", "http://collec\ntor:4318"),
        ("journal.path", "journal\0.sqlite"),
        ("web.config.file", "web\0.yaml"),
    ],
)
def test_a_value_that_nothing_could_use_is_refused_at_once(flag: str, value: str) -> None:
    """A value with controls or broken characters is refused by its flag, not taken for an address,
    name or path.
    """
    with pytest.raises(UsageError, match=f"^--{flag}: ") as caught:
        resolve({flag: value}, {"HOME": "/"})
    assert str(caught.value).isprintable()
