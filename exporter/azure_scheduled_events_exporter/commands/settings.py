"""The settings of a command, from its flags, the environment and the environment file.

Must not know any command.
"""

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from azure_scheduled_events_exporter import environment_file
from azure_scheduled_events_exporter.config.flags import written_flags
from azure_scheduled_events_exporter.config.resolution import resolve
from azure_scheduled_events_exporter.config.settings import ENV_FILE_FLAG, Config, environment_name
from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.journal.disk.location import MEMORY

_WITHOUT_UNIT_FILE = ("run", "demo")
"""Commands that do not read the unit's environment file.

To ``run``, systemd passes it, and ``demo`` is not the exporter of the unit.
"""


def take_environment(parsed: argparse.Namespace) -> Mapping[str, str]:
    """Add to the environment what only the environment file has.

    Returns, by the names of these variables, the place that sets them, for error messages.
    """
    flag = written_flags(parsed).get(ENV_FILE_FLAG) or os.environ.get(
        environment_name(ENV_FILE_FLAG)
    )
    if not flag and parsed.name in _WITHOUT_UNIT_FILE:
        return {}
    path = Path(flag) if flag else environment_file.UNIT_FILE
    if not flag:
        try:
            path.open("rb").close()  # only to see whether it can be read
        except FileNotFoundError:
            return {}
        except OSError:
            why = "cannot be read by this user, so its settings are not used"
            print(f"azure-scheduled-events-exporter: {path} {why}", file=sys.stderr)
            return {}
    found = {
        name: each for name, each in environment_file.load(path).items() if name not in os.environ
    }
    os.environ.update({name: value for name, (value, _) in found.items()})
    return {name: f"{path}:{line}: {name}" for name, (_, line) in found.items()}


def config_of(parsed: argparse.Namespace) -> Config:
    """Return the settings of a command."""
    places = take_environment(parsed)
    return resolve(written_flags(parsed), os.environ, places)


def shared_journal(config: Config) -> Path:
    """Return the journal that the running exporter writes.

    Raises:
        UsageError: it is in the memory of the exporter.
    """
    if config.journal_path == MEMORY:
        raise UsageError(
            "--journal.path: 'memory' cannot be shared: name the journal of the running exporter"
        )
    return Path(config.journal_path)
