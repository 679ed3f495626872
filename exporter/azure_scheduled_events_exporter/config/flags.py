"""Flags of commands: every setting as one, its place in --help, and likely mistakes.

Must not know what a setting means: ``config.settings`` has the table. ``config.resolution`` parses
the values of settings. Commands have further flags of their own; :func:`argument` and
:func:`parse_assignments` are for these.
"""

import argparse
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TypeVar

from azure_scheduled_events_exporter import environment_file
from azure_scheduled_events_exporter.errors import UsageError

from .resolution import unknown_variables
from .settings import CONFIG_FILE_FLAG, ENV_FILE_FLAG, FLAGS, SETTINGS

_Value = TypeVar("_Value")

GROUPS: Mapping[str, tuple[str, ...]] = {
    "metadata service": ("imds", "poll", "instance"),
    "events": ("freeze",),
    "web server": ("web",),
    "journal": ("journal",),
    "approvals": ("approval",),
    "traces": ("otlp", "tracing"),
    "alerts": ("alertmanager", "alerts"),
    "process and log": ("process", "log"),
}
"""The groups of settings in --help, by the first word of their flags."""


def add_settings(
    parser: argparse.ArgumentParser,
    defaults: Mapping[str, str],
    hidden: Collection[str],
    groups: Collection[str],
) -> None:
    """Add every setting to ``parser``, in groups that follow the command's own options.

    Args:
        parser: of one command.
        defaults: those of this command that differ from the settings' own, by flag. They are only
            shown in the help: the command applies them itself.
        hidden: flags that the help does not show, because the command refuses them later.
        groups: names of :data:`GROUPS` that the help shows. Settings of the other groups are
            accepted all the same, because files and variables of a service have them.
    """
    for group, words in GROUPS.items():
        section = parser.add_argument_group(f"settings: {group}") if group in groups else parser
        for setting in SETTINGS:
            first_word = setting.flag.partition(".")[0]
            if first_word not in words:
                continue
            text = ""
            if group in groups and setting.flag not in hidden:
                default = defaults.get(setting.flag, setting.default)
                text = f"{setting.help} (default {default})" if default else setting.help
            _add(section, setting.flag, setting.metavar, text)
    files = parser.add_argument_group("settings: files")
    file_texts = {
        CONFIG_FILE_FLAG: "Configuration file (YAML).",
        ENV_FILE_FLAG: "File of environment variables. Except for run and demo, the default is"
        f" {environment_file.UNIT_FILE} if it exists.",
    }
    for flag, text in file_texts.items():
        _add(files, flag, "FILE", "" if flag in hidden else text)


def _add(parser: argparse._ActionsContainer, flag: str, metavar: str, text: str) -> None:
    """Add a flag with ``text`` as its help; without text, the help does not show it."""
    shown = text.replace("%", "%%") or argparse.SUPPRESS  # % begins a placeholder of argparse
    parser.add_argument(
        f"--{flag}",
        action="append",  # every value, so that `oversights` sees a flag that is written twice
        dest=flag,
        metavar=metavar,
        default=argparse.SUPPRESS,
        help=shown,
    )


def written_flags(parsed: argparse.Namespace) -> dict[str, str]:
    """Return the text of each setting that was written as a flag, by flag without dashes."""
    return {name: values[-1] for name, values in vars(parsed).items() if name in FLAGS}


def oversights(parsed: argparse.Namespace, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield what in the flags and the environment is likely a mistake."""
    for flag, values in vars(parsed).items():
        if flag in FLAGS and len(set(values)) > 1:  # the same value twice does no harm
            yield f"--{flag} is written more than once: its last value is used"
    for name, meant in unknown_variables(environment):
        hint = f"did you mean {meant}?" if meant else "see --help"
        yield f"unknown environment variable {name}: {hint}"


def argument(parse: Callable[[str], _Value]) -> Callable[[str], _Value]:
    """Return ``parse`` as the ``type`` of an argument of argparse.

    argparse prints the message of an ArgumentTypeError, and not that of a ValueError.
    """

    def read(text: str) -> _Value:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def parse_assignments(flag: str, texts: Iterable[str]) -> dict[str, str]:
    """Return what a flag sets by texts of the form NAME=VALUE; the last value of a name wins.

    Args:
        flag: its name with dashes, for the error.
        texts: one for each assignment: a repeatable flag has several, or one value has commas.

    Raises:
        UsageError: a text has no ``=``. The error does not repeat it, as it may have a key.
    """
    chosen: dict[str, str] = {}
    for number, text in enumerate(texts, start=1):
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"{flag}: number {number} has no '=': write NAME=VALUE")
        chosen[name] = value
    return chosen
