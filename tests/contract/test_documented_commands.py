"""Every command and configuration in README and docs is run, or at least parsed by its program."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from configparser import ConfigParser
from pathlib import Path

import pytest
import yaml

from azure_scheduled_events_exporter.commands.cli import PROGRAM, main, parser_of
from azure_scheduled_events_exporter.config.settings import SETTINGS
from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.metrics.table import SPECS
from support.documented import Block, Command, blocks, commands, in_prose, pages, typed
from support.paths import GUARD, ROOT
from support.programs import debian, environment

PAGES = pages()
BLOCKS = [block for page in PAGES for block in blocks(page)]
SHELL = [block for block in BLOCKS if block.language in {"sh", "bash", "console"}]
COMMANDS = [command for block in SHELL for command in commands(block)]
PROSE = [command for page in PAGES for command in in_prose(page, PROGRAM, "make")]


def blocks_in(language: str) -> list[Block]:
    """The blocks in a language."""
    return [block for block in BLOCKS if block.language == language]


def commands_of(program: str) -> list[Command]:
    """The commands of a program, in blocks and in sentences."""
    return [command for command in [*COMMANDS, *PROSE] if command.program == program]


def parse_ini(text: str) -> None:
    """Read a unit or an INI file; a key may come again, as in units."""
    ConfigParser(strict=False, interpolation=None, delimiters=("=",)).read_string(text)


def parse_as_is(text: str) -> None:
    """Accept any text: nobody reads it but people, or only a program that is not here."""
    assert text.strip()


READERS: dict[str, Callable[[str], object]] = {
    "ini": parse_ini,
    "json": json.loads,
    "python": lambda text: compile(text, "block", "exec"),
    "text": parse_as_is,
    "toml": tomllib.loads,
    "yaml": lambda text: list(yaml.safe_load_all(text)),
}
CHECKED_BELOW = {"sh", "bash", "console", "promql"}
"""The languages that other tests of this file read."""


class TestBlocks:
    """Each block is what it calls itself."""

    def test_readable(self) -> None:
        """The parser of its language reads each block, and no block is in a language that nothing
        here reads. Output of programs is in the language `text`.
        """
        for block in BLOCKS:
            assert block.language in READERS.keys() | CHECKED_BELOW, block.place
            try:
                READERS.get(block.language, parse_as_is)(block.text)
            except (ValueError, SyntaxError, yaml.YAMLError) as error:
                pytest.fail(f"{block.place}: {error}")

    def test_expressions(self, tmp_path: Path) -> None:
        """Each block is one expression that Prometheus can read, and each metric in it exists.

        A block is pasted as a whole, so a second expression is an error.
        """
        rules = [
            {"record": "documented", "labels": {"place": block.place}, "expr": block.text}
            for block in blocks_in("promql")
        ]
        assert rules
        file = tmp_path / "rules.yml"
        file.write_text(yaml.safe_dump({"groups": [{"name": "documented", "rules": rules}]}))
        done = run([debian("promtool"), "check", "rules", str(file)], tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        recorded = re.findall(
            r"record: (\S+)",
            (ROOT / "alerts/generated/prometheus/prometheus-rules.yml").read_text(),
        )
        ours = {
            f"azure_scheduled_events_{spec.name}{end}"
            for spec in SPECS.values()
            for end in ("", "_bucket", "_count", "_sum")
        }
        for rule in rules:
            for name in re.findall(r"azure_scheduled_events[:_][\w:]+", str(rule["expr"])):
                assert name in ours | set(recorded), f"{rule['labels']}: {name}"

    @pytest.mark.parametrize(
        ("has", "check"),
        [
            ("scrape_configs:", ("check", "config", "--syntax-only")),
            ("- alert:", ("check", "rules", "--lint-fatal")),
        ],
    )
    def test_files_of_prometheus(
        self, has: str, check: tuple[str, ...], subtests: pytest.Subtests, tmp_path: Path
    ) -> None:
        """Prometheus takes the documented scrape configurations and alert rules, also as the part
        of an OpenTelemetry collector's configuration that Prometheus' own code reads there.
        """
        for block in blocks_in("yaml"):
            if has in block.text:
                with subtests.test(block.place):
                    content = yaml.safe_load(block.text)
                    if "receivers" in content:
                        content = content["receivers"]["prometheus"]["config"]
                    (tmp_path / "file.yml").write_text(yaml.safe_dump(content))
                    done = run([debian("promtool"), *check, "file.yml"], tmp_path)
                    assert done.returncode == 0, done.stdout + done.stderr

    def test_our_own_files(
        self, subtests: pytest.Subtests, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A documented configuration or approval policy is one that the exporter takes."""
        flags = {setting.flag for setting in SETTINGS}
        settings_and_groups = flags | {flag.split(".")[0] for flag in flags}
        checked = 0
        for block in blocks_in("yaml"):
            content = next(yaml.safe_load_all(block.text))
            keys = set(content) if isinstance(content, dict) else set()
            file = tmp_path / "file.yaml"
            file.write_text(block.text)
            if keys and keys <= settings_and_groups:
                option = "--config.file"
            elif keys == {"rules"} and "action:" in block.text:
                option = "--approval.policy"
            else:
                continue
            with subtests.test(block.place):
                assert main(["check-config", option, str(file)]) == 0, capsys.readouterr()
                checked += 1
        assert checked > 0


class TestShell:
    """What is typed can be typed."""

    def test_syntax(self) -> None:
        """A shell can read what is typed, and a console block has something behind a prompt."""
        for block in SHELL:
            assert typed(block).strip(), (
                f"{block.place}: a console block shows what is typed behind '$ ' or '# '"
            )
            done = subprocess.run(
                ["bash", "-n"], input=typed(block), text=True, capture_output=True, check=False
            )
            assert done.returncode == 0, f"{block.place}: {done.stderr}"

    def test_blocking_commands_are_last(self) -> None:
        """A command that runs until it is stopped is the last one of its block.

        Otherwise the commands behind it would not run when the block is pasted.
        """
        blocking = {
            *((PROGRAM, name) for name in ("run", "simulate", "demo", "hook")),
            ("make", "demo"),
            ("make", "stack"),
        }
        for block in SHELL:
            all_but_the_last = list(commands(block))[:-1]
            for command in all_but_the_last:
                first = command.arguments[:1]
                if "--list" in command.arguments or "--help" in command.arguments:
                    continue
                assert (command.program, *first) not in blocking, command.place

    def test_our_own_commands(self) -> None:
        """Every documented command line of ours is one that the program takes: command, flags and
        values.
        """
        ours = commands_of(PROGRAM)
        assert len(ours) > 40, "the commands are found"
        for command in ours:
            check_ours(command)

    def test_make_targets(self) -> None:
        """Every documented target exists, and make can say what it would do."""
        targets = {each.arguments[0] for each in commands_of("make") if each.arguments}
        assert {"demo", "test"} <= targets, "the targets are found"
        subprocess.run(["make", "-n", *sorted(targets)], cwd=ROOT, check=True, capture_output=True)


# Commands that change nothing outside the folder in which they are run, and end by themselves.
SAFE = re.compile(
    r"(python -m (alerts|dashboards) .*|(promtool|amtool) (check\S*|config routes test) .*"
    rf"|{PROGRAM} (assets|check-config|simulate --list|\S+ --help).*)"
)


def runnable(block: Block) -> bool:
    """Whether each line of a block is one of the SAFE commands, and names no file of the machine
    below /etc.
    """
    lines = [
        line.strip() for line in typed(block).replace("\\\n", " ").splitlines() if line.strip()
    ]
    return all(SAFE.fullmatch(line) and "/etc/" not in line for line in lines)


def test_what_can_be_run_here_is_run(subtests: pytest.Subtests, tmp_path: Path) -> None:
    """The commands of a block succeed, one after the other, with the files that the page gives for
    them.
    """
    path = os.pathsep.join(
        [str(Path(sys.executable).parent), str(ROOT / ".tools/usr/bin"), os.environ["PATH"]]
    )
    env = environment(PATH=path, PYTHONPATH=os.pathsep.join(map(str, (GUARD, ROOT))))
    # By their text: what several pages say alike is run once.
    found = {typed(block): block for block in SHELL if runnable(block)}
    assert len(found) > 2, "the rule above still finds blocks to run"
    for number, (lines, block) in enumerate(found.items()):
        with subtests.test(block.place):
            folder = tmp_path / str(number)
            folder.mkdir()
            for other in blocks(block.page):
                if other.file_name:
                    (folder / other.file_name).write_text(other.text)
            script = lines.replace("/tmp/", f"{folder}/")  # noqa: S108 - what pages name, made ours
            done = subprocess.run(
                ["bash", "-e"],
                input=script,
                cwd=folder,
                env=env,
                text=True,
                capture_output=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr


def run(arguments: list[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    assert shutil.which(arguments[0]), arguments[0]
    return subprocess.run(
        arguments, cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )


def check_ours(command: Command) -> None:
    """Parse a command line as the program does, and each setting in it.

    A setting is not parsed where a reader puts in a value: at a word in capitals, an ellipsis, a
    variable of the shell or a path.
    """
    words = command.arguments
    if not words or words[0] in {"--help", "--version"}:
        return
    try:
        parsed, unknown = parser_of(words[0]).parse_known_args(words[1:])
    except SystemExit:  # --help and --version
        return
    except UsageError as error:
        if command in PROSE and "required" in str(error):
            return  # a sentence may name a command without what it requires: `assets export`
        raise AssertionError(f"{command.place}: {error}") from None
    assert not unknown, f"{command.place}: {unknown}"
    for setting in SETTINGS:
        text = vars(parsed).get(setting.flag)
        # The parser gives a flag that may be repeated as a list, of which the last value holds.
        text = text[-1] if isinstance(text, list) else text
        if text is not None and not re.search(r"[A-Z]{2}|…|\$|^/", text):
            setting.parse(text)
