"""docs/doctor.md and the checks that exist: the same names, and every page that a finding points
to.
"""

import re
from pathlib import Path

import pytest

from azure_scheduled_events_exporter import DOCUMENTATION
from azure_scheduled_events_exporter.doctor.finding import AGENT_PAGE, PAGES, THROTTLED_PAGE
from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.http_client import http_config
from support.paths import ROOT

DOCS = ROOT / "docs"
PACKAGE = ROOT / "exporter" / "azure_scheduled_events_exporter"
SOURCES = [*(PACKAGE / "doctor").glob("*.py"), PACKAGE / "commands" / "doctor.py"]


def test_every_check_is_documented() -> None:
    """The table of checks names each check that can be found in the code, and no other."""
    table = (DOCS / "doctor.md").read_text().partition("## Checks")[2].partition("\n\nLimits:")[0]
    # A finding is made by one of these functions; its first argument is the name of the check.
    made = re.compile(r'\b(?:ok|note|skipped|warning|wrong)\(\s*"([a-z-]+)"')
    assert set(re.findall(r"`([a-z-]+)`", table)) == set(PAGES)
    assert {name for path in SOURCES for name in made.findall(path.read_text())} == set(PAGES)


def test_every_page_exists() -> None:
    """Every page that a finding links to exists, and has the heading that is named."""
    for page in (*PAGES.values(), AGENT_PAGE, THROTTLED_PAGE):
        name, _, anchor = page.partition("#")
        text = (DOCS / name).read_text()
        headings = {
            re.sub(r"[^\w -]", "", line.lstrip("# ")).lower().replace(" ", "-")
            for line in text.splitlines()
            if line.startswith("#")
        }
        assert not anchor or anchor in headings, page
    # A finding links to DOCUMENTATION and the name of the page, without anything between them.
    assert DOCUMENTATION.endswith("/docs/")


@pytest.mark.parametrize(
    ("section", "required"),
    [
        ("basic_auth", "username: u, password: p, "),
        ("authorization", "credentials: c, "),
        ("tls_config", ""),
    ],
)
def test_one_list_of_the_keys_of_a_client(section: str, required: str, tmp_path: Path) -> None:
    """The page on pushing lists every key of an HTTP client configuration, and the page on doctor
    only links to it.
    """
    # An unknown key is refused with the list of those that exist, if the required ones are there.
    file = tmp_path / "http.yaml"
    file.write_text(f"{section}: {{{required}nonsense: 1}}\n")
    with pytest.raises(UsageError, match="unknown key; known here: ") as refusal:
        http_config.load(file)
    keys = set(str(refusal.value).partition("known here: ")[2].split(", "))
    pushing, doctor = ((DOCS / page).read_text() for page in ("push-alerts.md", "doctor.md"))
    (listed,) = re.findall(rf"`{section}` takes (.*?)\. ", pushing, re.DOTALL)
    assert set(re.findall(r"`([a-z_]+)`", listed)) == keys
    assert not {key for key in keys if f"`{key}`" in doctor}
    assert "[push-alerts.md](push-alerts.md#settings) lists" in doctor
