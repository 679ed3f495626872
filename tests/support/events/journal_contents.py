"""What a journal holds and its exporter counts, and the VMs that a journal may belong to."""

from collections import Counter
from contextlib import closing
from pathlib import Path

from azure_scheduled_events_exporter.journal.access import read_only
from azure_scheduled_events_exporter.simulator import Scenario, VirtualMachine
from support.events.journal_recorder import transitions
from support.programs import Exporter, Scrape

VM_IDS = ("11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222")


def vm(number: int = 0) -> Scenario:
    """Return a scenario in which nothing happens by itself, on a VM with the id of that number."""
    return Scenario(
        "quiet", "Nothing happens.", (VirtualMachine("vmss_0", vm_id=VM_IDS[number]),), ()
    )


def rows(path: Path) -> list[tuple[str, str]]:
    """Return EventId and transition of every row of a journal."""
    return [(str(record["event_id"]), str(record["transition"])) for _, record in transitions(path)]


def history(path: Path) -> set[str]:
    """Return the EventIds of a journal."""
    with closing(read_only(path)) as store:
        return {life.event_id for life in store.history()}


def wait_for_counts(exporter: Exporter, **transitions: int) -> Scrape:
    """Return the metrics once exactly these transitions are counted."""

    def look(scrape: Scrape) -> Scrape | None:
        have = {name: count for name, count in scrape.transitions().items() if count}
        assert Counter(have) <= Counter(transitions), have
        return scrape if have == transitions else None

    found = exporter.shows(f"{transitions}", look)
    assert found
    return found
