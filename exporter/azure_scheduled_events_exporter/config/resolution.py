"""Resolves the configuration from flags, environment variables, its file and defaults.

A flag overrides its environment variable, the variable overrides the configuration file, and the
file overrides the default. The error for an invalid value names the setting and where it was set.

``config.settings`` has the table of the settings. Of single ones, this module knows only
``journal.path``, whose default depends on the platform, and ``web.config.file``, because people
write the content of that file into the configuration file.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from azure_scheduled_events_exporter.errors import UsageError, closest, named_by

from .settings import (
    CONFIG_FILE_FLAG,
    ENVIRONMENT_PREFIX,
    FLAGS,
    SETTINGS,
    Config,
    Setting,
    environment_name,
)

_NOT_OURS = "AZURE_SCHEDULED_EVENTS_EXPORTER_"
"""How variables begin that Kubernetes adds to every pod if a Service has the exporter's name."""

_OF_WEB_CONFIG = ("tls_server_config", "http_server_config", "basic_auth_users")
"""The keys of the file that ``web.config.file`` names."""


def resolve(
    flags: Mapping[str, str],
    environment: Mapping[str, str],
    places: Mapping[str, str] | None = None,
) -> Config:
    """Return the configuration, with every value checked and converted.

    Args:
        flags: the texts that were written as flags, by flag without dashes (``imds.timeout``).
        environment: variables by name: those of this process and of an environment file.
        places: for each variable of an environment file, where it is set, such as
            ``FILE:3: NAME``; errors say so.

    Raises:
        UsageError: a value is invalid; or the configuration file cannot be read, or has an unknown
            key.
    """
    values: dict[str, Any] = {}
    for setting, text, place in texts_and_places(flags, environment, places):
        try:
            _refuse_quotes(text)
            values[setting.field] = setting.parse(text)
        except ValueError as error:
            reason = str(error)
            if not text:  # the setting has a default: all others accept an empty text
                reason = f"has no value: write one, such as {setting.default}, or leave it out"
            raise UsageError(f"{place or setting.flag}: {reason}") from None
    values["journal_path"] = values["journal_path"] or state_folder(environment)
    return Config(**values)


def _refuse_quotes(text: str) -> None:
    """Raise ValueError if ``text`` is in quotes: no value of a setting begins and ends with one.

    systemd, Docker Compose and shells remove quotes; ``docker run --env-file``, ``kubectl create
    configmap --from-env-file`` and the YAML block scalars of Kubernetes do not.
    """
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        raise ValueError(
            "begins and ends with a quote, which Docker's --env-file and Kubernetes take for a part"
            " of the value: write it without quotes"
        )


def texts_and_places(
    flags: Mapping[str, str],
    environment: Mapping[str, str],
    places: Mapping[str, str] | None = None,
) -> Iterator[tuple[Setting, str, str]]:
    """Yield every setting with its text, not parsed yet, and the place where that is written.

    A setting that is written nowhere has the text of its default, and the place ``""``. The
    parameters are those of :func:`resolve`.

    Raises:
        UsageError: the configuration file cannot be read, or has an unknown key.
    """
    file = flags.get(CONFIG_FILE_FLAG)
    named_at = f"--{CONFIG_FILE_FLAG}"
    if not file:
        variable = environment_name(CONFIG_FILE_FLAG)
        file = environment.get(variable)
        named_at = _place_of(variable, places)
    from_file: Mapping[str, tuple[str, int]] = {}
    if file:
        with named_by(named_at):
            from_file = _read_file(Path(file))
    for setting in SETTINGS:
        if setting.flag in flags:
            yield setting, flags[setting.flag], f"--{setting.flag}"
        elif setting.environment in environment:
            place = _place_of(setting.environment, places)
            yield setting, environment[setting.environment], place
        elif setting.flag in from_file:
            text, line = from_file[setting.flag]
            yield setting, text, f"{file}:{line}: {setting.flag}"
        else:
            yield setting, setting.default, ""


def _place_of(variable: str, places: Mapping[str, str] | None) -> str:
    """Return where ``variable`` is set, for messages; ``places`` as in :func:`resolve`."""
    return (places or {}).get(variable) or f"environment variable {variable}"


def state_folder(
    environment: Mapping[str, str], platform: str = sys.platform, user: int | None = None
) -> str:
    """Return where a service keeps its state.

    That is ``$STATE_DIRECTORY`` if systemd sets it, else the platform's default.

    Args:
        environment: variables by name.
        platform: a value of ``sys.platform``.
        user: the numeric id of the user; None for that of this process.

    Raises:
        UsageError: this user has no home directory.
    """
    name = "azure-scheduled-events-exporter"
    if environment.get("STATE_DIRECTORY"):
        return environment["STATE_DIRECTORY"].split(":")[0]  # a unit may have several
    if platform == "win32":
        return str(Path(environment.get("PROGRAMDATA", r"C:\ProgramData")) / name)
    if user is None and hasattr(os, "geteuid"):
        user = os.geteuid()
    if user == 0:
        return f"/var/lib/{name}"
    # Path.expanduser would raise where there is none.
    home = environment.get("HOME") or os.path.expanduser("~")  # noqa: PTH111
    # The XDG Base Directory Specification says to ignore a relative path in XDG_STATE_HOME. Without
    # the variable, Path("") is relative, too.
    for state in (Path(environment.get("XDG_STATE_HOME", "")), Path(home) / ".local" / "state"):
        if state.is_absolute():
            return str(state / name)
    raise UsageError(
        "--journal.path: HOME is not set, so there is no default folder: name one, or 'memory'"
    )


def unknown_variables(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the variables with the exporter's prefix that are not settings.

    Each comes with the name that was likely meant, ``""`` if none is similar.
    """
    # Compared without the prefix: it is so long that all names with it are similar.
    known = [environment_name(flag).removeprefix(ENVIRONMENT_PREFIX) for flag in FLAGS]
    for name in sorted(environment):
        if not name.startswith(ENVIRONMENT_PREFIX) or name.startswith(_NOT_OURS):
            continue
        end = name.removeprefix(ENVIRONMENT_PREFIX)
        if end in known:
            continue
        meant = closest(end, known)
        if meant:
            yield name, ENVIRONMENT_PREFIX + meant
        else:
            yield name, ""


def _read_file(path: Path) -> Mapping[str, tuple[str, int]]:
    """Return the text and line of every setting in the configuration file, by its flag.

    A setting may be written ``imds.timeout: 5s`` or ``imds: {timeout: 5s}``.
    """
    # Imported only here: few have such a file, and YAML takes 1.3 MiB.
    from azure_scheduled_events_exporter import yaml_file  # noqa: PLC0415

    found = yaml_file.load(path).flat()
    known = [setting.flag for setting in SETTINGS]
    for key, (text, line) in found.items():
        if not text and any(flag.startswith(f"{key}.") for flag in known):  # such as a lone "imds:"
            raise UsageError(
                f"{path}:{line}: {key}: has no settings: write them below it, indented, or leave"
                " it out"
            )
        if key.partition(".")[0] in _OF_WEB_CONFIG:
            raise UsageError(
                f"{path}:{line}: unknown key '{key}': it belongs in the file that web.config.file"
                " names"
            )
        if key not in known:
            meant = closest(key, known)
            hint = f"did you mean '{meant}'?" if meant else f"known are {', '.join(known)}"
            raise UsageError(f"{path}:{line}: unknown key '{key}': {hint}")
    return found
