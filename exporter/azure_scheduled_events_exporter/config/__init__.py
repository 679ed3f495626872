"""The configuration: one table of settings, and one frozen result.

Must not start or open anything that it configures.
"""

from .resolution import (
    CONFIG_FILE_FLAG,
    ENV_FILE_FLAG,
    parse_assignments,
    resolve,
    state_folder,
    unknown_variables,
    written,
)
from .settings import DISCOVER, SETTINGS, Config, environment_name, warnings

__all__ = [
    "CONFIG_FILE_FLAG",
    "DISCOVER",
    "ENV_FILE_FLAG",
    "SETTINGS",
    "Config",
    "environment_name",
    "parse_assignments",
    "resolve",
    "state_folder",
    "unknown_variables",
    "warnings",
    "written",
]
