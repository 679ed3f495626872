"""The page docs/simulator.md against the code: tables, example files, flags and members."""

import argparse
import re

import pytest

from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.simulator import Simulator, parse, shipped
from azure_scheduled_events_exporter.simulator.command import add_arguments
from azure_scheduled_events_exporter.simulator.faults import FAULTS
from azure_scheduled_events_exporter.simulator.stage import Playlist, Stage
from support.paths import ROOT

PAGE = (ROOT / "docs" / "simulator.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def table(heading: str) -> list[tuple[str, str]]:
    """Return name and text of every row of the table under a heading."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \| (.*) \|$", section, re.MULTILINE)


def test_scenarios_table_is_the_list() -> None:
    """The page lists the shipped scenarios with the descriptions that --list prints, in their order."""
    assert table("Scenarios") == [(each.name, each.description) for each in shipped()]


def test_faults_table_is_the_code() -> None:
    """The page lists every fault with its description."""
    assert table("Faults") == [(fault.value, text) for fault, text in FAULTS.items()]


@pytest.mark.parametrize("text", EXAMPLES)
def test_example_file_plays(text: str) -> None:
    """Every example file of the page is accepted and plays to its end."""
    played = Stage(Playlist((parse(text, "simulator.md"),)), at=0, seed="seed")
    played.advance(86400)
    assert played.record
    assert played.next_at is None


@pytest.mark.parametrize(
    "text",
    [
        "description: x\nother: 1",
        "description: x\nvms: [{name: a, other: 1}]",
        "description: x\nevents: [{type: Reboot, other: 1}]",
        "description: x\nfaults: [{fault: reset, other: 1}]",
    ],
)
def test_every_key_is_described(text: str) -> None:
    """Every key that a scenario file may have is in the page's full example or in its table of keys."""
    with pytest.raises(UsageError) as refused:
        parse(text, "keys.yaml")
    known = str(refused.value).partition("known here: ")[2].split(", ")
    assert len(known) > 2
    assert [key for key in known if not re.search(rf"\b{key}:", EXAMPLES[0]) and f"| `{key}` |" not in PAGE] == []


def test_flags_table_is_the_parser() -> None:
    """The page lists every flag of the command and no other."""
    parser = argparse.ArgumentParser(add_help=False)
    add_arguments(parser)
    flags = [option for action in parser._actions for option in action.option_strings]
    documented = re.findall(r"^\| `(--[^`]+)`", PAGE, re.MULTILINE)
    assert sorted(documented) == sorted(flags)


def test_members_table_is_the_class() -> None:
    """The page's last table has exactly the public members of Simulator."""
    names = {name for name in vars(Simulator) if not name.startswith("_")}
    last = PAGE.split("| member | |")[1]
    documented = {
        name for row in re.findall(r"^\| (.*?) \|", last, re.MULTILINE) for name in re.findall(r"`(\w+)", row)
    }
    assert documented == names
