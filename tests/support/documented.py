"""Reads the blocks of code in the pages of this project, the commands in them, and where links
lead.

Reads Markdown, and enough of the shell's grammar to find programs and their arguments. Checks
nothing.
"""

import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.paths import ROOT

ELSEWHERE = {
    ".git",
    ".venv",
    ".tools",
    ".hypothesis",
    ".pytest_cache",
    ".ruff_cache",
    ".mypy_cache",
    "dist",
    "build",
}
_SEPARATORS = set(";|&()") | {"&&", "||", ";;", "|&", "\n"}
_OPENERS = {
    "do",
    "then",
    "else",
    "elif",
    "if",
    "while",
    "until",
    "!",
    "{",
    "time",
    "exec",
    "nohup",
    "env",
    "sudo",
}
_CLOSERS = {"done", "fi", "esac", "}"}
_REDIRECTION = re.compile(r"^\d*(<|>|>>|<<|<<<|>&|<&|&>|>\|)$")


_ENVIRONMENT = re.compile(r"^(~/exporter|/opt/azure-scheduled-events-exporter)/bin/")
"""The virtual environments that pages make: what is called from there is called by its name
elsewhere.
"""


@dataclass(frozen=True)
class Block:
    """A block of code on a page; ``line`` is that of its first line, ``language`` the word behind
    the fence.
    """

    page: Path
    line: int
    language: str
    text: str
    before: str

    @property
    def place(self) -> str:
        """Where it is, for people and for the names of tests."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def file_name(self) -> str:
        """The file that the paragraph before it names; ``""`` if none."""
        named: list[str] = re.findall(
            r"`(?:[\w./-]*/)?([\w.-]+\.(?:ya?ml|json|toml))`", self.before
        )
        return named[0] if len(set(named)) == 1 else ""


@dataclass(frozen=True)
class Command:
    """A program and its arguments, as a shell would start it; quotes are gone, redirections too."""

    place: str
    program: str
    arguments: tuple[str, ...]


def pages() -> list[Path]:
    """Every Markdown page of the project."""
    found = []
    for folder, inside, files in os.walk(ROOT):
        inside[:] = sorted(set(inside) - ELSEWHERE)
        found += [Path(folder) / name for name in files if name.endswith(".md")]
    return sorted(found)


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page; an indented fence, as in a list, counts."""
    lines = page.read_text().splitlines()
    number = 0
    while number < len(lines):
        opened = re.fullmatch(r"( *)```(\S*).*", lines[number])
        if opened is None:
            number += 1
            continue
        indent = len(opened[1])
        start = number + 1
        while number + 1 < len(lines) and lines[number + 1].strip() != "```":
            number += 1
        text = "".join(
            f"{line[min(indent, len(line) - len(line.lstrip())) :]}\n"
            for line in lines[start : number + 1]
        )
        yield Block(page, start + 1, opened[2], text, _paragraph_before(lines, start - 1))
        number += 2


def _paragraph_before(lines: list[str], fence: int) -> str:
    end = fence
    while end > 0 and not lines[end - 1].strip():
        end -= 1
    begin = end
    while begin > 0 and lines[begin - 1].strip() and not lines[begin - 1].strip().startswith("```"):
        begin -= 1
    return "\n".join(lines[begin:end])


def typed(block: Block) -> str:
    """Return what one types of a block: all of a script, the lines behind a prompt of a console."""
    if block.language != "console":
        return block.text
    kept = []
    goes_on = False
    for line in block.text.splitlines():
        if goes_on or line.startswith(("$ ", "# ")):
            kept.append(line if goes_on else line[2:])
            goes_on = line.endswith("\\")
    return "".join(f"{line}\n" for line in kept)


def commands(block: Block) -> Iterator[Command]:
    """Yield the commands of a shell block, those in pipes, lists and loops too; not those in
    ``$(…)``.
    """
    for line in _logical_lines(typed(block)):
        yield from _commands_of(line, block.place)


def in_prose(page: Path, *programs: str) -> Iterator[Command]:
    """Yield the commands of ``programs`` that are inline code in the text of a page."""
    text = re.sub(
        r"(?ms)^ *```.*?^ *```$", lambda found: "\n" * found[0].count("\n"), page.read_text()
    )
    for found in re.finditer(r"`([^`\n]+)`", text):
        if found[1].removeprefix("sudo ").split()[0] in programs and "…" not in found[1]:
            line = text.count("\n", 0, found.start()) + 1
            yield from _commands_of(found[1], f"{page.relative_to(ROOT)}:{line}")


def _logical_lines(text: str) -> Iterator[str]:
    """Lines with their continuations and open quotes, without the bodies of here-documents."""
    lines = iter(text.replace("\\\n", " ").splitlines())
    for first in lines:
        line = first
        while not _balanced(line):
            line += "\n" + next(lines)
        yield line
        if document := re.search(r"<<-?\s*(['\"]?)(\w+)\1", line):
            while next(lines).strip() != document[2]:
                pass


def _balanced(line: str) -> bool:
    try:
        list(_words(line))
    except ValueError:
        return False
    return True


def _words(line: str) -> shlex.shlex:
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    words.commenters = "#" if re.search(r"(^|\s)#", line) else ""
    return words


def _commands_of(line: str, place: str) -> Iterator[Command]:
    command: list[str] = []
    skip = False
    for word in [*_words(line), "\n"]:
        if skip:
            skip = False
        elif _REDIRECTION.match(word):
            skip = True
            if command and command[-1].isdigit():  # 2> is two words here
                command.pop()
        elif word in _SEPARATORS or set(word) <= set(";|&()"):
            if command:
                yield Command(place, _ENVIRONMENT.sub("", command[0]), tuple(command[1:]))
            command = []
        elif command or not (word in _OPENERS | _CLOSERS or re.match(r"\w+=", word)):
            command.append(word)


def prose(text: str) -> str:
    """The page without its blocks of code and its inline code, in which brackets are no links."""
    return re.sub(
        r"`[^`\n]*`", lambda found: "c" * len(found[0]), re.sub(r"(?ms)^ *```.*?^ *```$", "", text)
    )


def links(page: Path) -> Iterator[str]:
    """Where the links and pictures of a page lead."""
    yield from re.findall(r"\]\(([^()\s]*(?:\([^()\s]*\))?[^()\s]*)\)", prose(page.read_text()))


def rows(page: str, columns: int, first: str) -> list[tuple[str, ...]]:
    """Return the rows of tables with so many columns whose first cell matches ``first``."""
    cells = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in page.splitlines()
        if "|" in line
    ]
    stripped = [tuple(cell.strip("|").strip() for cell in row) for row in cells]
    return [row for row in stripped if len(row) == columns and re.fullmatch(first, row[0])]
