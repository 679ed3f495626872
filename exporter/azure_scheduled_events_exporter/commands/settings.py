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
    """Add the variables of the environment file to the environment of this process.

    A variable that the environment has already stays as it is. Returns where each added variable is
    set, by its name, for error messages.

    Raises:
        UsageError: the file that a flag or a variable names cannot be read, or a file is invalid.
    """
    path = _environment_file(parsed)
    if path is None:
        return {}
    places = {}
    for name, (value, line) in environment_file.load(path).items():
        if name not in os.environ:
            os.environ[name] = value
            places[name] = f"{path}:{line}: {name}"
    return places


def _environment_file(parsed: argparse.Namespace) -> Path | None:
    """Return the environment file that is named, or else that of the unit; None without any."""
    named = written_flags(parsed).get(ENV_FILE_FLAG)
    named = named or os.environ.get(environment_name(ENV_FILE_FLAG))
    if named:
        return Path(named)
    if parsed.command_name in _WITHOUT_UNIT_FILE:
        return None
    path = environment_file.UNIT_FILE
    try:
        path.open("rb").close()  # only to see whether it can be read
    except FileNotFoundError:
        return None
    except OSError:
        why = "cannot be read by this user, so its settings are not used"
        print(f"azure-scheduled-events-exporter: {path} {why}", file=sys.stderr)
        return None
    return path


def config_of(parsed: argparse.Namespace) -> Config:
    """Return the settings of a command.

    Raises:
        UsageError: as :func:`take_environment` and ``config.resolution.resolve`` do.
    """
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
