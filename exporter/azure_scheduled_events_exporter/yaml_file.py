"""Reads YAML files that people write, strictly: an error names the file, and the line if known.

Must not depend on the meaning of a file. Every scalar is text until a reader requests another type,
so ``off`` is never a boolean and ``2020-07-01`` never a date. Aliases are refused, because a few
lines of them can stand for millions of keys. Anchors and tags are refused, because a password
without quotes can look like one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar, cast

import yaml

from .errors import UsageError
from .text_file import read_text
from .times import parse_duration

_TRUE = ("true", "yes", "on")
_FALSE = ("false", "no", "off")
_DEEPEST = 30  # levels of nesting; Python's limit of recursion is far above
# Tokens that begin and end a level of nesting.
_OPENING = (
    yaml.BlockMappingStartToken,
    yaml.BlockSequenceStartToken,
    yaml.FlowMappingStartToken,
    yaml.FlowSequenceStartToken,
)
_CLOSING = (yaml.BlockEndToken, yaml.FlowMappingEndToken, yaml.FlowSequenceEndToken)
_REFUSED = (yaml.AliasToken, yaml.AnchorToken, yaml.TagToken)

_Value = TypeVar("_Value")
_Node = TypeVar("_Node", bound=yaml.Node)


class Section:
    """One mapping of a YAML file, read key by key.

    :meth:`finish` then refuses the keys that were not read. Methods with a ``default`` return it
    for a key that is not there; if no default is given, a missing key is an error. All errors are
    UsageErrors.

    Args:
        source: how errors name the file.
        node: the mapping.
        name: its key, which errors name; ``""`` for the top of the file.
    """

    def __init__(self, source: str, node: yaml.MappingNode, name: str = "") -> None:
        self.source = source
        self.name = name
        self.line = node.start_mark.line + 1
        self._nodes: dict[str, yaml.Node] = {}
        self._lines: dict[str, int] = {}
        self._known: list[str] = []  # what was read, also without a value in the file
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise UsageError(f"{source}:{line}: a key must be plain text")
            key = str(key_node.value)
            if key in self._nodes:
                raise UsageError(
                    f"{source}:{line}: '{key}' appears twice (first in line {self._lines[key]}):"
                    " keep one"
                )
            self._nodes[key] = value_node
            self._lines[key] = line

    def __contains__(self, key: str) -> bool:
        """Return whether the file has ``key``."""
        return key in self._nodes

    def __iter__(self) -> Iterator[str]:
        """Yield the keys that the file has, in its order."""
        return iter(self._nodes)

    def error(self, message: str, key: str | None = None) -> UsageError:
        """Return (not raise) an error with ``message`` about ``key``, or about the section."""
        line = self.line if key is None else self._lines.get(key, self.line)
        subject = ".".join(part for part in (self.name, key) if part)
        if subject:
            message = f"{subject}: {message}"
        return UsageError(f"{self.source}:{line}: {message}")

    def finish(self) -> None:
        """Raise UsageError for the first key that was not read."""
        for key in self._nodes:
            if key not in self._known:
                raise self.error(f"unknown key; known here: {', '.join(sorted(self._known))}", key)

    def accept(self, key: str) -> None:
        """Let :meth:`finish` accept ``key``, which is not read."""
        self._known.append(key)

    def is_text(self, key: str) -> bool:
        """Return whether ``key`` is there with a single value, not a list or a mapping."""
        return isinstance(self._nodes.get(key), yaml.ScalarNode)

    def text(self, key: str, default: str | None = None) -> str:
        """Return the text at ``key``."""
        return self._parsed(key, str, default)

    def number(self, key: str, default: float | None = None) -> float:
        """Return the number at ``key``, which must not be negative."""
        return self._parsed(key, _number, default)

    def duration(self, key: str, default: float | None = None) -> float:
        """Return the seconds at ``key``, written as ``1m30s``."""
        return self._parsed(key, parse_duration, default)

    def flag(self, key: str, *, default: bool) -> bool:
        """Return whether the value at ``key`` is true, yes or on."""
        return self._parsed(key, _flag, default)

    def choice(self, key: str, choices: Sequence[str], default: str | None = None) -> str:
        """Return the text at ``key``, which must be one of ``choices``."""
        text = self.text(key, default)
        if text not in choices:
            raise self.error(f"'{text}' is none of {', '.join(choices)}", key)
        return text

    def texts(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """Return the list of texts at ``key``; a single text counts as a list of one."""
        node = self._node_at(key, yaml.Node, "anything")  # the check below has a better error
        if node is None:
            return default
        items = node.value if isinstance(node, yaml.SequenceNode) else [node]
        if not all(isinstance(item, yaml.ScalarNode) for item in items):
            raise self.error("must be a list of plain values", key)
        return tuple(str(item.value) for item in items)

    def section(self, key: str) -> "Section | None":
        """Return the mapping at ``key``, or None when there is none."""
        node = self._node_at(key, yaml.MappingNode, "a mapping")
        if node is None:
            return None
        return Section(self.source, node, key)

    def sections(self, key: str) -> tuple["Section", ...]:
        """Return the list of mappings at ``key``; empty when there is none."""
        node = self._node_at(key, yaml.SequenceNode, "a list")
        if node is None:
            return ()
        found = []
        for index, item in enumerate(node.value):
            if not isinstance(item, yaml.MappingNode):
                raise UsageError(
                    f"{self.source}:{item.start_mark.line + 1}: {key}: every entry must be a"
                    " mapping"
                )
            found.append(Section(self.source, item, f"{key}[{index}]"))
        return tuple(found)

    def flat(self, *, lists: bool = False) -> Mapping[str, tuple[str, int]]:
        """Return the value and line of every scalar below this section, by its dotted key.

        All keys count as read.

        With ``lists``, a list of plain values becomes one text, in which each value is a line;
        without, a list is refused.
        """
        found: dict[str, tuple[str, int]] = {}
        for key, node in self._nodes.items():
            self._known.append(key)
            if isinstance(node, yaml.MappingNode):
                inner = Section(self.source, node, key).flat(lists=lists)
                entries = {f"{key}.{rest}": entry for rest, entry in inner.items()}
            elif lists and isinstance(node, yaml.SequenceNode):
                items = "".join(f"{item}\n" for item in self.texts(key, ()))
                entries = {key: (items, self._lines[key])}
            elif isinstance(node, yaml.ScalarNode):
                entries = {key: (self.text(key), self._lines[key])}
            else:
                raise self.error("must be one value, not a list", key)
            twice = found.keys() & entries.keys()
            if twice:
                raise self.error(f"'{min(twice)}' appears twice: keep one", key)
            found |= entries
        return found

    def _node_at(self, key: str, kind: type[_Node], what: str) -> _Node | None:
        """Return the node at ``key``, None if the key is not there; the key then counts as read.

        The node must be a ``kind``; an error names that in words, as ``what``.
        """
        self._known.append(key)
        node = self._nodes.get(key)
        if node is not None and not isinstance(node, kind):
            raise self.error(f"must be {what}", key)
        return node

    def _parsed(self, key: str, parse: Callable[[str], _Value], default: _Value | None) -> _Value:
        """Return what ``parse`` makes of the scalar at ``key``, or ``default``.

        A ValueError of ``parse`` becomes a UsageError with the same message.
        """
        node = self._node_at(key, yaml.ScalarNode, "one value, not a list or a mapping")
        if node is None and default is None:
            raise self.error(f"'{key}' is missing")
        if node is None:
            return cast("_Value", default)
        text = str(node.value)
        if node.tag == "tag:yaml.org,2002:null":  # no value, ~ or null
            text = ""
        try:
            return parse(text)
        except ValueError as error:
            raise self.error(str(error), key) from None


def _number(text: str) -> float:
    """Return the number ``text``, 0 or more. Raises ValueError."""
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a number") from None
    if not 0 <= value < float("inf"):
        raise ValueError(f"must be a number, 0 or more, not {text}")
    return value


def _flag(text: str) -> bool:
    """Return the boolean ``text``, in any case. Raises ValueError."""
    if text.lower() not in _TRUE + _FALSE:
        raise ValueError(f"'{text.lower()}' is neither true nor false")
    return text.lower() in _TRUE


def load(path: Path) -> Section:
    """Read the YAML file at ``path``, whose top must be a mapping.

    Raises:
        UsageError: the file cannot be read, is not UTF-8 or not valid YAML, is larger than 1 MiB,
            has what this module refuses, or its top is not a mapping. An empty file counts as an
            empty mapping.
    """
    return parse(read_text(path), str(path))


def parse(text: str, source: str) -> Section:
    """Read YAML from ``text``; ``source`` names it in error messages.

    Raises as :func:`load` does.
    """
    try:
        _check_tokens(text, source)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        problem = error.problem or ""
        # PyYAML splits some messages: "expected a single document" is the context, "but found
        # another document" the problem.
        if not problem or problem.startswith("but "):
            problem = f"{error.context} {problem}"
        raise UsageError(f"{source}:{line}: is not valid YAML: {problem}") from None
    except yaml.YAMLError as error:
        raise UsageError(f"{source}: is not valid YAML: {' '.join(str(error).split())}") from None
    # An empty file has no node, and a lone "---" an empty scalar. ("" in quotes has a style.)
    is_empty_scalar = isinstance(node, yaml.ScalarNode) and node.value == "" and node.style is None
    if node is None or is_empty_scalar:
        node = yaml.MappingNode("tag:yaml.org,2002:map", [], yaml.Mark(source, 0, 0, 0, "", 0))
    if not isinstance(node, yaml.MappingNode):
        raise UsageError(
            f"{source}:{node.start_mark.line + 1}: must be a mapping of keys to values"
        )
    return Section(source, node)


def _check_tokens(text: str, source: str) -> None:
    """Refuse aliases, anchors and tags, and nesting that is too deep for PyYAML's composer.

    The composer calls itself at each level, so it must not see such a file.
    """
    depth = 0
    for token in yaml.scan(text, Loader=yaml.SafeLoader):
        if isinstance(token, _OPENING):
            depth += 1
        elif isinstance(token, _CLOSING):
            depth -= 1
        problem = ""
        if depth > _DEEPEST:
            problem = "nested too deeply"
        if isinstance(token, _REFUSED):
            problem = (
                "YAML's aliases, anchors and tags are not read: put a value that begins with *, &"
                " or ! in quotes"
            )
        if problem:
            raise UsageError(f"{source}:{token.start_mark.line + 1}: {problem}")
