"""The settings of a command, from its flags, the environment and the environment file. Must not know any command."""

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from azure_scheduled_events_exporter import environment_file
from azure_scheduled_events_exporter.config import ENV_FILE_FLAG, Config, environment_name, resolve
from azure_scheduled_events_exporter.config.flags import written_flags

_WITHOUT_UNIT_FILE = ("run", "demo")
"""Commands that do not read the unit's environment file by default: to ``run``, systemd passes it."""


def take_environment(parsed: argparse.Namespace) -> Mapping[str, str]:
    """Add the variables of the environment file to this process; return where each of them is set.

    A variable that this process already has takes precedence.
    """
    found, places = from_file(parsed, os.environ)
    os.environ.update(found)
    return places


def from_file(parsed: argparse.Namespace, variables: Mapping[str, str]) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return what the environment file adds to ``variables``, and where each of it is set."""
    flag = written_flags(parsed).get(ENV_FILE_FLAG) or variables.get(environment_name(ENV_FILE_FLAG))
    path = Path(flag) if flag else environment_file.UNIT_FILE
    if not flag:
        if parsed.name in _WITHOUT_UNIT_FILE or not environment_file.may_exist(path):
            return {}, {}
        if not os.access(path, os.R_OK):
            why = "cannot be read by this user, so its settings are not used"
            print(f"azure-scheduled-events-exporter: {path} {why}", file=sys.stderr)
            return {}, {}
    found = {name: each for name, each in environment_file.load(path).items() if name not in variables}
    return (
        {name: value for name, (value, _) in found.items()},
        {name: f"{path}:{line}: {name}" for name, (_, line) in found.items()},
    )


def config_of(parsed: argparse.Namespace) -> Config:
    """Return the settings of a command."""
    places = take_environment(parsed)
    return resolve(written_flags(parsed), os.environ, places)


def config_without_policy(parsed: argparse.Namespace) -> Config:
    """Return the settings with the policy off: a broken policy file must not stop a command that does not use it."""
    places = take_environment(parsed)
    return resolve({**written_flags(parsed), "approval.policy": "off"}, os.environ, places)
