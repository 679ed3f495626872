"""The command line: version, help, and what is refused before anything happens."""

import re
import subprocess
import sys

import pytest

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.commands.cli import COMMANDS, main, parser_of
from azure_scheduled_events_exporter.config.settings import SETTINGS
from support.commands import NAME, assert_one_line, command
from support.programs import COMMAND, environment

NOWHERE = ("--imds.endpoint", "http://127.0.0.1:9")


@pytest.mark.parametrize(
    "program", [[COMMAND], [sys.executable, "-m", "azure_scheduled_events_exporter"]]
)
def test_version(program: list[str]) -> None:
    """--version prints name and version; running the module does the same as the command."""
    for words in (["--version"], ["run", "--version"]):
        said = subprocess.check_output([*program, *words], env=environment(), text=True)
        assert said == f"{NAME} {__version__}\n"


def test_help() -> None:
    """--help names every command, and each has a help of its own; all fit 80 columns."""
    said = command("--help").stdout
    assert f"{NAME} demo" in said
    assert max(map(len, said.splitlines())) <= 80
    for name in COMMANDS:
        assert re.search(rf"\n    {name}\s", said)
        own = command(name, "--help", COLUMNS="80").stdout
        assert own.startswith(f"usage: {NAME} {name} ")
        assert max(map(len, own.splitlines())) <= 80


def test_name_of_a_hook_is_not_that_of_the_command() -> None:
    """A hook that is called ``run`` reads the environment file of the unit, as every hook does. The
    command ``run`` does not.
    """
    parsed = parser_of("hook").parse_args(["--name", "run"])
    assert parsed.name == "run"
    assert parsed.command_name == "hook"


@pytest.mark.parametrize("name", ["events", "approve", "hook", "history"])
def test_help_shows_what_matters(name: str) -> None:
    """The help of a command shows the settings that matter to it."""
    said = command(name, "--help").stdout
    assert "--journal.path " in said
    assert "--web.listen-address " not in said


@pytest.mark.parametrize("name", ["run", "check-config"])
def test_help_shows_settings(name: str) -> None:
    """The help of run and check-config names every flag with its default, and the other ways to set
    it.
    """
    said = " ".join(command(name, "--help").stdout.split())
    for setting in SETTINGS:
        assert f"--{setting.flag} " in said
        assert not setting.default or f"(default {setting.default})" in said
    assert "AZURE_SCHEDULED_EVENTS_POLL_INTERVAL" in said


class TestUsage:
    """A usage error is one line, with status 2."""

    @pytest.mark.parametrize(
        ("arguments", "word"),
        [
            ((), "name a command"),
            (("fly",), "the first word is no command: choose from run,"),
            (("simulator",), "did you mean 'simulate'?"),
            (("run", "--poll.intervall", "1s"), "did you mean '--poll.interval'?"),
            (("history", "--jsn"), "did you mean '--json'?"),
            (("drill", "--alertmanager", "http://127.0.0.1:1:2"), "--alertmanager: is not"),
            (("drill", "--alertmanager", "http://u:sesame 2@h"), "--alertmanager: is not"),
            (("doctor", "--prometheus", "http://u:sesame 2@h"), "--prometheus: is not"),
            (("run", "--otlp.endpoint", "http://u:sesame 2@h"), "--otlp.endpoint: is not"),
            (("run", "--otlp.endpoint", "'http://u:sesame@h'"), "--otlp.endpoint: begins and"),
            (
                ("run", "--alertmanager.url", "http://a,http://u:sesame,2@h"),
                "--alertmanager.url: address 2 is not",
            ),
            (
                ("assets", "export", "/no", "--set", "chat.slack-url=sesame 2"),
                "chat.slack-url: its value",
            ),
            (("--poll.interval", "1s"), "run --poll.interval"),
            (("run", "--poll.interval"), "--poll.interval"),
            (("run", "sesame"), "unrecognized arguments: 1 word that is no flag"),
            (("run", "--otlp.headerz", "sesame"), "--otlp.headerz and 1 word that is no flag: did"),
            (
                ("run", "--alertmanager.ulr", "http://u:ses", "sesame@h"),
                "--alertmanager.ulr and 2 words that are no flags: did you mean",
            ),
            (("run", "--alertmanager.labels", "a=b,sesame"), "--alertmanager.labels: number 2 is"),
            (("run", "--alertmanager.labels", "a b=sesame"), "--alertmanager.labels: number 1 is"),
            (("run", "--poll.interval", "soon"), "--poll.interval"),
            (("run", "--imds.api-version", "latest"), "2020-07-01, or"),
            (("run", "--config.file", "/nonexistent/config.yml"), "/nonexistent/config.yml"),
            (("demo", "--speed", "fast"), "--speed"),
            (("demo", "--imds.endpoint", "http://127.0.0.1:1"), "--imds.endpoint"),
            (("simulate", "--scenario", "x" * 300), "is no scenario"),
            (("run", "--imds.endpoin", "http://u:sesame@h"), "did you mean '--imds.endpoint'?"),
            (
                (
                    "run",
                    "--otlp.endpoin=http://u:sesame 2@h",
                ),
                "did you mean '--otlp.endpoint'?",
            ),
            (("--otlp.endpoint=http://u:sesame 2@h",), "run --otlp.endpoint"),
            (("otlp.endpoint=http://u:sesame 2@h",), "run otlp.endpoint"),
            (("http://u:sesame@h",), "the first word is no command"),
            (("assets", "export", "/no", "--set", "pager.pagerduty-key:sesame"), "number 1 has no"),
            (
                ("check-config", "--imds.endpoint", "http://127.0.0.1/?token=sesame"),
                "write http://HOST[:PORT], or 'discover'\n",
            ),
            (("check-config", "--approval.policy", f"{'x' * 300}.yaml"), "--approval.policy"),
            (
                ("events", *NOWHERE, "--poll.interval", ""),
                "--poll.interval: has no value: write one, such as 1s",
            ),
            (
                ("events", *NOWHERE, "--follow", "--since", "last"),
                "--since: 'last' is not a position: use the 'cursor'",
            ),
            (("events", *NOWHERE, "--since", "3"), "events: --since and --mine need --follow"),
            (("events", *NOWHERE, "--mine"), "events: --since and --mine need --follow"),
            (
                ("check-config", "--env-file", "/nonexistent/environment"),
                "/nonexistent/environment",
            ),
            (
                ("history", "--documents", "--json"),
                "argument --json: not allowed with argument --documents",
            ),
            (
                ("drill", "--alertmanager", "http://h", "--alertmanager.http-config.file", "/no"),
                "file: /no: ",
            ),
        ],
    )
    def test_refused(
        self, arguments: tuple[str, ...], word: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The line names what was wrong, without a password."""
        status = main(arguments)
        said = capsys.readouterr()
        assert_one_line(subprocess.CompletedProcess(arguments, status, said.out, said.err), 2, word)
        assert "sesame" not in said.err
