"""The command line: parses and wires, nothing else."""

import argparse
import os
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from azure_scheduled_events_exporter import __version__, logs
from azure_scheduled_events_exporter.config import (
    CONFIG_FILE_FLAG,
    SETTINGS,
    Config,
    environment_name,
    resolve,
    unknown_variables,
    without_password,
    written,
)
from azure_scheduled_events_exporter.errors import ExporterError, UsageError

PROGRAM = "azure-scheduled-events-exporter"
_DESCRIPTION = """\
Watches the Scheduled Events of an Azure VM, so that no maintenance, eviction or host failure surprises anybody.

  try it here   azure-scheduled-events-exporter demo
  run it        azure-scheduled-events-exporter run              then look at http://localhost:10169/
  what is up?   azure-scheduled-events-exporter events           asks the metadata service once
  what was?     azure-scheduled-events-exporter history          reads the journal of the running exporter
  drill         azure-scheduled-events-exporter simulate --scenario spot-preempt
"""
_EPILOG = f"""\
Every flag is also an environment variable ({environment_name("imds.endpoint")} for --imds.endpoint)
and a key of the YAML file that --{CONFIG_FILE_FLAG} names (imds.endpoint). A flag wins over the variable, that over
the file, that over the default. Durations are written as 500ms, 1s, 1m30s or 90d.
"""


_FLAGS = {CONFIG_FILE_FLAG, *(setting.flag for setting in SETTINGS)}


class _Parser(argparse.ArgumentParser):
    """Complains in one line."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the whole usage."""
        raise UsageError(f"{message} (see {self.prog} --help)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that ``arguments`` say; return the exit status: 0, 1 for failure, 2 for usage."""
    try:
        arguments = sys.argv[1:] if arguments is None else arguments
        if arguments and arguments[0].lstrip("-").partition("=")[0] in _FLAGS:
            raise UsageError(f"{arguments[0]}: say what to do first: {PROGRAM} run {arguments[0]} … (see --help)")
        parsed, unknown = _parser(arguments[:1]).parse_known_args(arguments)
        if unknown:
            raise UsageError(f"unrecognized arguments: {' '.join(unknown)} (see {PROGRAM} {arguments[0]} --help)")
        return int(parsed.command(parsed))
    except ExporterError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return error.exit_status
    except sqlite3.Error as error:
        print(f"{PROGRAM}: the journal cannot be read: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser(wanted: Sequence[str]) -> argparse.ArgumentParser:
    """The parser; the flags of the simulator only if it is ``wanted``, since the daemon must not load it."""
    parser = _Parser(
        prog=PROGRAM,
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(name: str, function: object, summary: str, *, configured: bool = True) -> argparse.ArgumentParser:
        added = commands.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=_EPILOG if configured else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        added.set_defaults(command=function)
        if configured:
            _add_settings(added)
        return added

    command("run", _run, "Poll the metadata service and serve metrics, until told to end.")
    demo = command("demo", _demo, "Run the exporter on the built-in simulator: all scenarios, sped up, in a loop.")
    demo.add_argument("--speed", metavar="FACTOR", default="60", help="How much faster than in life. (default 60)")
    simulate = command(
        "simulate", _simulate, "Stand in for the metadata service, to try and drill off Azure.", configured=False
    )
    if "simulate" in wanted:
        from azure_scheduled_events_exporter.simulator import command as simulator  # noqa: PLC0415 - the daemon must not load it

        simulator.add_arguments(simulate)
    events = command("events", _events, "ApprovalRequest the metadata service once and show the current events.")
    events.add_argument("--json", action="store_true", help="Print JSON instead of a table.")
    events.add_argument("--follow", action="store_true", help="Print every transition from now on as one line of JSON.")
    events.add_argument("--since", metavar="SEQ", help="With --follow: begin behind the line with this 'seq'.")
    events.add_argument("--mine", action="store_true", help="With --follow: only events of this VM.")
    approve = command("approve", _approve, "Let events begin before NotBefore, for every VM in their Resources.")
    approve.add_argument("event_ids", metavar="EVENT_ID", nargs="*", help="Events to approve.")
    approve.add_argument("--all-mine", action="store_true", help="All events of this VM that wait.")
    approve.add_argument("--yes", action="store_true", help="Do not ask.")
    history = command("history", _history, "Show what the journal remembers, also while the exporter runs.")
    history.add_argument("--json", action="store_true", help="Print JSON instead of a table.")
    command("check-config", _check_config, "Check flags, environment and file, and show what would hold.")
    assets = command(
        "assets", _assets, "Dashboards, alert rules, runbooks, systemd unit, Helm chart, examples.", configured=False
    )
    actions = assets.add_subparsers(title="actions", metavar="ACTION", required=True)
    actions.add_parser("list", help="Show what there is.").set_defaults(target=None)
    export = actions.add_parser("export", help="Copy all of it into a folder.")
    export.add_argument("target", metavar="DIR", help="The folder; it is made if need be.")
    export.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        dest="assignments",
        help="Change a threshold of the alerts; their values.yaml has all names. May be repeated.",
    )
    export.add_argument("--values", metavar="FILE", help="Change thresholds by a file like values.yaml.")
    drill = command("drill", _drill, "A fire drill: shows a team that their own paging works.", configured=False)
    if "drill" in wanted:
        from . import drill as fire_drill  # noqa: PLC0415 - the daemon must not load it

        fire_drill.add_arguments(drill)
    return parser


def _assets(parsed: argparse.Namespace) -> int:
    from . import assets as assets_command  # noqa: PLC0415 - only what a command needs is loaded

    if parsed.target is None:
        return assets_command.show()
    values = Path(parsed.values) if parsed.values else None
    return assets_command.export(Path(parsed.target), parsed.assignments, values)


def _drill(parsed: argparse.Namespace) -> int:
    from . import drill  # noqa: PLC0415 - only what a command needs is loaded

    return drill.run(parsed)


def _add_settings(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("settings")
    for setting in SETTINGS:
        default = f" (default {setting.default})" if setting.default else ""
        text = (setting.help + default).replace("%", "%%")
        group.add_argument(
            f"--{setting.flag}", dest=setting.flag, metavar=setting.metavar, default=argparse.SUPPRESS, help=text
        )
    group.add_argument(
        f"--{CONFIG_FILE_FLAG}", dest=CONFIG_FILE_FLAG, metavar="FILE", default=argparse.SUPPRESS, help="YAML file."
    )


def _flags(parsed: argparse.Namespace) -> dict[str, str]:
    names = [*(setting.flag for setting in SETTINGS), CONFIG_FILE_FLAG]
    return {name: value for name, value in vars(parsed).items() if name in names}


def _config(parsed: argparse.Namespace) -> Config:
    return resolve(_flags(parsed), os.environ)


def _run(parsed: argparse.Namespace) -> int:
    from azure_scheduled_events_exporter.service import daemon  # noqa: PLC0415 - only what a command needs is loaded

    config = _config(parsed)
    log = logs.set_up(config.log_level, config.log_format)
    for name, likeliest in unknown_variables(os.environ):
        hint = f"did you mean {likeliest}?" if likeliest else "see --help"
        log.warning("unknown environment variable", extra=logs.facts(name=name, hint=hint))
    return daemon.run(config, log)


def _demo(parsed: argparse.Namespace) -> int:
    from . import demo  # noqa: PLC0415 - only what a command needs is loaded

    return demo.run(_flags(parsed), os.environ, parsed.speed)


def _simulate(parsed: argparse.Namespace) -> int:
    from azure_scheduled_events_exporter.simulator import command  # noqa: PLC0415 - only what a command needs is loaded

    return int(command.run(parsed))


def _approve(parsed: argparse.Namespace) -> int:
    from . import approve as approve_command  # noqa: PLC0415 - only what a command needs is loaded

    return approve_command.run(_config(parsed), parsed.event_ids, all_mine=parsed.all_mine, yes=parsed.yes)


def _events(parsed: argparse.Namespace) -> int:
    if parsed.follow:
        from . import follow as follow_command  # noqa: PLC0415 - only what a command needs is loaded

        return follow_command.run(_config(parsed), since=parsed.since, mine=parsed.mine)
    if parsed.since or parsed.mine:
        raise UsageError("events: --since and --mine go with --follow")
    from . import events as events_command  # noqa: PLC0415 - only what a command needs is loaded

    return events_command.run(_config(parsed), as_json=parsed.json)


def _history(parsed: argparse.Namespace) -> int:
    from . import history as history_command  # noqa: PLC0415 - only what a command needs is loaded

    return history_command.run(_config(parsed), as_json=parsed.json)


def _check_config(parsed: argparse.Namespace) -> int:
    flags = _flags(parsed)
    config = resolve(flags, os.environ)
    if config.process_user:
        from azure_scheduled_events_exporter.service.privileges import account  # noqa: PLC0415 - only what a command needs is loaded

        account(config.process_user)
    if config.web_config_file is not None:
        from azure_scheduled_events_exporter.http_server.access import check  # noqa: PLC0415 - only what a command needs is loaded

        check(Path(config.web_config_file))
    from azure_scheduled_events_exporter.tracing.delivery import is_on  # noqa: PLC0415 - only what a command needs is loaded

    is_on(config.otlp_endpoint, os.environ)  # refuses a protocol that is not spoken
    for setting, text, place in written(flags, os.environ):
        meant = text or (config.journal_path if setting.flag == "journal.path" else "(none)")
        print(f"{setting.flag}: {without_password(meant)}   [{place or 'default'}]")
    for name, meant in unknown_variables(os.environ):
        hint = f"did you mean {meant}?" if meant else "see --help"
        print(f"unknown environment variable {name}: {hint}", file=sys.stderr)
    return 0
