"""The file in which a hook keeps its runs: where and what it is, and the files of other hooks.

A hook runs its command to prepare for each event, and once to recover after the last one. What was
prepared has to be recovered, also by a hook that has restarted: therefore the file. Must not write
to it (``runs``).
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from azure_scheduled_events_exporter.errors import CodecError, DamagedTextError
from azure_scheduled_events_exporter.journal.content.codec import decode, encode
from azure_scheduled_events_exporter.journal.disk.location import file_path
from azure_scheduled_events_exporter.journal.disk.lock import is_locked
from azure_scheduled_events_exporter.snapshot.hooks import HookRun


@dataclass(frozen=True, slots=True)
class Stored:
    """The content of the file.

    Attributes:
        runs: those that no recovery has ended, by their ids, in the order in which they began.
        unsent: those that the journal does not have yet, by their ids.
        damage: why a part could not be read; ``""`` if all could.
    """

    runs: Mapping[str, HookRun]
    unsent: Mapping[str, HookRun]
    damage: str = ""


def state_file(journal: Path, name: str) -> Path:
    """Return the file of the hook of this ``name``, for ``--journal.path``."""
    file = file_path(journal)
    return file.with_name(f"{file.name}.hook-{name}.json")


def text_of(stored: Stored) -> str:
    """Return the text of the file with this content."""
    rows = {
        "runs": [encode(run) for run in stored.runs.values()],
        "unsent": [encode(run) for run in stored.unsent.values()],
    }
    return json.dumps(rows, indent=1)


def parse(text: str) -> Stored:
    """Return the content of a file, without the runs that are damaged: ``damage`` says why."""
    problems: list[str] = []
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Stored({}, {}, str(error))
    runs = _runs(content, "runs", problems)
    unsent = _runs(content, "unsent", problems)
    return Stored(runs, unsent, "; ".join(problems))


def _runs(content: object, key: str, problems: list[str]) -> dict[str, HookRun]:
    """Return the runs under ``key``; what cannot be read is added to ``problems``."""
    rows = content.get(key, []) if isinstance(content, dict) else None
    if not isinstance(rows, list):
        problems.append(f"it has no list '{key}'")
        return {}
    found = {}
    for row in rows:
        try:
            run = decode(HookRun, row)
        except (DamagedTextError, CodecError) as error:
            problems.append(str(error))
        else:
            found[run.run] = run
    return found


def abandoned(journal: Path, own: str) -> Iterator[tuple[Path, HookRun]]:
    """Yield the files of hooks that do not run and have not recovered, each with its last run.

    Args:
        journal: ``--journal.path``.
        own: the name of this hook.

    Raises OSError: the folder or one of the files cannot be read.
    """
    file = state_file(journal, own)
    # What the names of all such files begin with, whatever the hook is called.
    begin = state_file(journal, "x").name.removesuffix("x.json")
    for path in sorted(file.parent.iterdir()):
        is_state = path.name.startswith(begin) and path.suffix == ".json"
        if not is_state or path.name == file.name or is_locked(path):
            continue
        runs = parse(path.read_text(encoding="utf-8", errors="replace")).runs
        if runs:
            yield path, list(runs.values())[-1]
