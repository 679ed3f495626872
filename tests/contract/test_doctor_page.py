"""docs/doctor.md and the checks that exist: the same names, and every page that a finding points to."""

import ast
import re
from pathlib import Path

import pytest

from azure_scheduled_events_exporter import DOCUMENTATION
from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.http_client import http_config
from support.paths import ROOT

PACKAGE = ROOT / "exporter" / "azure_scheduled_events_exporter"
SOURCES = [*(PACKAGE / "doctor").rglob("*.py"), PACKAGE / "commands" / "doctor.py"]
DOCS = ROOT / "docs"


_MAKERS = {"ok", "note", "skipped", "warning", "wrong", "unreachable"}
"""Functions that make a finding."""


def texts() -> set[str]:
    """Return every text in the sources of doctor."""
    trees = [ast.parse(path.read_text()) for path in SOURCES]
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return {node.value for node in nodes if isinstance(node.value, str)}


def calls() -> set[str]:
    """Return the first argument of every call that makes a finding."""
    made = set()
    for node in (node for path in SOURCES for node in ast.walk(ast.parse(path.read_text()))):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        function, first = node.func, node.args[0]
        chosen = isinstance(function, ast.IfExp)  # (wrong if … else warning)(…)
        if chosen or (
            isinstance(function, ast.Name)
            and function.id in {"ok", "note", "skipped", "warning", "wrong", "unreachable"}
        ):
            made |= {first.value} if isinstance(first, ast.Constant) and isinstance(first.value, str) else set()
    return made


def test_every_check_is_documented() -> None:
    """The table of checks names each check, and no other."""
    table = (DOCS / "doctor.md").read_text().partition("## Checks")[2].partition("\n\nLimits")[0]
    assert set(re.findall(r"`([a-z-]+)`", table)) == calls()


def test_every_page_exists() -> None:
    """Every page that a finding links to exists, and has the heading that is named."""
    pages = {text for text in texts() if re.fullmatch(r"[\w/-]+\.md(#[\w-]+)?", text, re.ASCII)}
    assert len(pages) > 10
    for page in sorted(pages):
        name, _, anchor = page.partition("#")
        text = (DOCS / name).read_text()
        headings = {
            re.sub(r"[^\w -]", "", line.lstrip("# ")).lower().replace(" ", "-")
            for line in text.splitlines()
            if line.startswith("#")
        }
        assert not anchor or anchor in headings, page
    assert DOCUMENTATION.endswith("/docs/")


@pytest.mark.parametrize("section", ["basic_auth", "authorization", "tls_config"])
def test_one_list_of_the_keys_of_a_client(section: str, tmp_path: Path) -> None:
    """The page on pushing lists every key of an HTTP client configuration, and the page on doctor only links to it."""
    file = tmp_path / "http.yaml"
    needed = {"basic_auth": "username: u, password: p, ", "authorization": "credentials: c, ", "tls_config": ""}[
        section
    ]
    file.write_text(f"{section}: {{{needed}nonsense: 1}}\n")
    with pytest.raises(UsageError, match="unknown key; known here: ") as refusal:
        http_config.load(file)
    keys = set(str(refusal.value).partition("known here: ")[2].split(", "))
    pushing, doctor = ((DOCS / page).read_text() for page in ("push-alerts.md", "doctor.md"))
    (listed,) = re.findall(rf"`{section}` takes (.*?)\. ", pushing, re.DOTALL)
    assert set(re.findall(r"`([a-z_]+)`", listed)) == keys
    assert not {key for key in keys if f"`{key}`" in doctor}
    assert "[push-alerts.md](push-alerts.md#settings) lists" in doctor
