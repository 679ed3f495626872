"""The map in docs/architecture.md, and what may import what outside the package."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

from support.paths import ROOT

PACKAGE = ROOT / "exporter" / "azure_scheduled_events_exporter"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
DRAWN = [
    pytest.param("The map", ".", id="the whole package"),
    pytest.param("Inside `journal`", "journal", id="journal"),
]
"""The sections of the page that draw layers, each with the package whose layers they are."""
MOST_STEPS = 10
"""Steps of a walk through the code that a reader still follows."""


def section(title: str) -> str:
    """Return the text of a section of the page."""
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def layers(package: str) -> list[list[str]]:
    """Return the layers that import-linter holds in ``package``, the highest first; a layer's
    members do not know each other.
    """
    container = ".".join((PACKAGE.name, *Path(package).parts))
    contracts = PYPROJECT["tool"]["importlinter"]["contracts"]
    (found,) = [each["layers"] for each in contracts if each.get("containers") == [container]]
    split = [[name.strip() for name in layer.split(":")] for layer in found]
    return [layer for layer in split if layer != ["__main__"]]


def summary(package: Path, name: str) -> str:
    """Return the first line of the docstring of a package or module in ``package``."""
    path = package / name / "__init__.py"
    source = path if path.exists() else package / f"{name}.py"
    text = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0].replace("``", "`")


@pytest.mark.parametrize(("title", "package"), DRAWN)
def test_the_picture_shows_the_layers(title: str, package: str) -> None:
    """The picture on the page has the layers of pyproject.toml, in their order."""
    drawn = section(title).partition("```text\n")[2].partition("```")[0]
    arrows = set(" |v")
    rows = [re.findall(r"[a-z_]+", line) for line in drawn.splitlines() if set(line) - arrows]
    assert rows == layers(package)


@pytest.mark.parametrize(("title", "package"), DRAWN)
def test_the_table_says_what_the_docstrings_say(title: str, package: str) -> None:
    """Each package and module has one row on the page, with the first line of its docstring."""
    wanted = [
        f"| `{name}` | {summary(PACKAGE / package, name)} |"
        for layer in layers(package)
        for name in sorted(layer)
    ]
    assert [line for line in section(title).splitlines() if line.startswith("| `")] == wanted


def walks() -> str:
    """Return the section that follows a body, an alert and a flag through the code: a drawing of
    the body's way, then numbered steps from each of the three to its effect.
    """
    return PAGE.partition("## Where the body of IMDS goes\n")[2].partition("\n## ")[0]


def test_the_walks_name_what_exists() -> None:
    """Every module of the walks exists, and has the functions, classes and tables that are named
    behind it.
    """
    found = re.findall(r"`([\w/]+\.py)`(?:: `(\w+)`)?", walks())
    assert len(found) > 20, "the names are found"
    for module, name in found:
        path = PACKAGE / module
        assert path.exists(), module
        if name:
            defined = re.compile(rf"^(\s*def |class |){name}\b", re.MULTILINE)
            assert defined.search(path.read_text(encoding="utf-8")), f"{module}: {name}"


def test_the_walks_are_short() -> None:
    """Each of the three walks has at most MOST_STEPS steps."""
    _drawing, *each_walk = walks().split("\n**From")
    assert len(each_walk) == 3, "of a body, an alert and a flag"
    for walk in each_walk:
        steps = re.findall(r"(?m)^\d+\. ", walk)
        assert 0 < len(steps) <= MOST_STEPS, walk.partition("\n")[0]


def test_the_drawing_names_modules() -> None:
    """Every module in the drawing above the walks exists."""
    drawn = walks().partition("```text\n")[2].partition("```")[0]
    modules = re.findall(r"\b([a-z_]+/[a-z_]+)\b", drawn)
    assert len(modules) > 6, "the names are found"
    assert [each for each in modules if not (PACKAGE / f"{each}.py").exists()] == []


PACKAGES = {
    "google.protobuf": "protobuf",
    "opentelemetry.exporter": "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry.proto": "opentelemetry-proto",
    "opentelemetry.sdk": "opentelemetry-sdk",
    "opentelemetry": "opentelemetry-api",
    "prometheus_client": "prometheus-client",
    "yaml": "PyYAML",
}
"""The package of a module, where the names differ; of several that fit, the first counts."""


def imported() -> set[str]:
    """Return every module from outside the standard library that the package imports."""
    modules = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                modules |= {each.name for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                modules |= {f"{node.module}.{each.name}" for each in node.names}
    ours = {*sys.stdlib_module_names, "azure_scheduled_events_exporter"}
    return {each for each in modules if each.partition(".")[0] not in ours}


def test_every_import_is_declared() -> None:
    """pyproject.toml declares each package that is imported, and no other. No module is imported
    that may change without notice.
    """
    modules = imported()
    needed = set()
    for module in modules:
        known = [name for start, name in PACKAGES.items() if f"{module}.".startswith(f"{start}.")]
        if known:
            needed.add(known[0])
        else:
            needed.add(module.partition(".")[0])
    declared = {re.split("[><=]", each)[0] for each in PYPROJECT["project"]["dependencies"]}
    assert needed == declared
    # OpenTelemetry's modules that change without notice.
    assert [each for each in modules if "_incubating" in each] == []
