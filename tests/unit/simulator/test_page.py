"""The page docs/simulator.md against the code: tables, example files, flags and members."""

import re

import pytest

from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.simulator import Simulator, parse
from azure_scheduled_events_exporter.simulator.catalog import SHIPPED
from azure_scheduled_events_exporter.simulator.faults import Fault
from azure_scheduled_events_exporter.simulator.stage import Playlist, Stage
from support.paths import ROOT

PAGE = (ROOT / "docs" / "simulator.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_scenarios_and_faults_are_listed() -> None:
    """The page names every shipped scenario, in the order in which ``--scenario all`` plays them,
    and every fault.
    """
    words = re.findall(r"`([a-z0-9-]+)`", PAGE.partition("\n## Scenarios\n")[2])
    named = dict.fromkeys(word for word in words if word in SHIPPED)  # each once, in their order
    assert [*named] == [*SHIPPED]
    faults = PAGE.partition("\n## Faults\n")[2]
    assert [fault for fault in Fault if f"`{fault}`" not in faults] == []


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
    """Every key that a scenario file may have is in the page's full example or in its table of
    keys.

    Each text has the unknown key ``other``; the error about it lists the keys that are known there.
    """
    with pytest.raises(UsageError) as refused:
        parse(text, "keys.yaml")
    _, _, keys = str(refused.value).partition("known here: ")
    known = keys.split(", ")
    assert len(known) > 2, "the error lists the keys"
    full_example, *_ = EXAMPLES
    in_example = set(re.findall(r"(\w+):", full_example))
    in_table = set(re.findall(r"\| `(\w+)` \|", PAGE))
    assert set(known) <= in_example | in_table


def test_members_table_is_the_class() -> None:
    """The page's last table has exactly the public members of Simulator."""
    names = {name for name in vars(Simulator) if not name.startswith("_")}
    last = PAGE.split("| member | |")[1]
    documented = {
        name
        for row in re.findall(r"^\| (.*?) \|", last, re.MULTILINE)
        for name in re.findall(r"`(\w+)", row)
    }
    assert documented == names
