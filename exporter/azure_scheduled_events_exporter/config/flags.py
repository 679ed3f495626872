"""Every setting as a flag of a command: its place in --help, and the values that were written.

Must not know what a setting means: ``config.settings`` has the table. ``config.resolution`` parses the values.
"""

import argparse
from collections.abc import Collection, Iterator, Mapping

from azure_scheduled_events_exporter import environment_file

from .resolution import CONFIG_FILE_FLAG, ENV_FILE_FLAG
from .settings import SETTINGS, Setting

GROUPS: Mapping[str, tuple[str, ...]] = {
    "metadata service": ("imds", "poll", "instance"),
    "web server": ("web",),
    "journal": ("journal",),
    "approvals": ("approval",),
    "traces": ("otlp", "tracing"),
    "alerts": ("alertmanager", "alerts"),
    "process and log": ("process", "log"),
}
"""The groups of settings in --help, by the first word of their flags."""

FLAGS = {CONFIG_FILE_FLAG, ENV_FILE_FLAG, *(setting.flag for setting in SETTINGS)}


class _SettingFlag(argparse.Action):
    """Takes the value of a setting; ``repeated`` has the flags of which it replaced an earlier, different value."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 - argparse passes it
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,  # noqa: ARG002 - as above
    ) -> None:
        """Argparse calls this each time that the flag is written."""
        if getattr(namespace, self.dest, values) != values:
            namespace.repeated = {*getattr(namespace, "repeated", ()), f"--{self.dest}"}
        setattr(namespace, self.dest, values)


def add_settings(
    parser: argparse.ArgumentParser,
    defaults: Mapping[str, str],
    hidden: Collection[str],
    groups: Collection[str] = (*GROUPS, "others"),
) -> None:
    """Add every setting, in groups that follow the command's own options.

    ``defaults`` are those of this command that differ from the settings' own. Flags in ``hidden`` are not in the help;
    the command refuses them. Settings of other ``groups`` are taken, because files and variables of a service have
    them, but are not in the help.
    """
    for group, settings in _grouped(defaults):
        is_shown = group in groups or group == "files"
        added = parser.add_argument_group(f"settings: {group}") if is_shown else parser
        for flag, metavar, text in settings:
            shown = text if is_shown and flag not in hidden else argparse.SUPPRESS
            added.add_argument(
                f"--{flag}", action=_SettingFlag, dest=flag, metavar=metavar, default=argparse.SUPPRESS, help=shown
            )


def _grouped(defaults: Mapping[str, str]) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Every group of settings, with flag, metavar and help of each."""
    left = list(SETTINGS)
    for group, words in [*GROUPS.items(), ("others", ())]:
        chosen = [setting for setting in left if not words or setting.flag.partition(".")[0] in words]
        left = [setting for setting in left if setting not in chosen]
        rows = [(each.flag, each.metavar, _help(each, defaults.get(each.flag, each.default))) for each in chosen]
        if rows:
            yield group, rows
    unit = environment_file.UNIT_FILE
    yield (
        "files",
        [
            (CONFIG_FILE_FLAG, "FILE", "Configuration file (YAML)."),
            (
                ENV_FILE_FLAG,
                "FILE",
                f"File of environment variables. Except for run and demo, the default is {unit} if it exists.",
            ),
        ],
    )


def _help(setting: Setting, default: str) -> str:
    """Return the help of a setting for argparse, which replaces ``%``."""
    return (setting.help + (f" (default {default})" if default else "")).replace("%", "%%")


def written_flags(parsed: argparse.Namespace) -> dict[str, str]:
    """Return the settings that were written as flags, by name."""
    return {name: value for name, value in vars(parsed).items() if name in FLAGS}


def repeated_flags(parsed: argparse.Namespace) -> list[str]:
    """Return the flags that were written more than once, with different values."""
    return sorted(getattr(parsed, "repeated", ()))
