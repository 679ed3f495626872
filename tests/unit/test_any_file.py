"""Files that people write, with any content: each is taken, or refused in one line that shows no
secret.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from azure_scheduled_events_exporter.approval import policy_file
from azure_scheduled_events_exporter.config.resolution import resolve
from azure_scheduled_events_exporter.config.settings import SETTINGS
from azure_scheduled_events_exporter.core.document import ScheduledEvent, Scope
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.http_server import web_config
from support.paths import DATA

HASH = "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG"
USERS = f"basic_auth_users:\n  prometheus: {HASH}\n"
YAML = [
    "\n", "  ", "- ", ": ", "{", "}", "[", "]", ",", "'", '"', "&a ", "*a", "!!int ", "<<: ", "? ",
    "|\n", ">", "~", "---\n", "#", "%", "@", "\t", "\0", "\x1b", "\ufeff", "\u2028",
]  # fmt: skip
POLICY = """\
rules: dry_run: name: match: action: approve hold after: 5s leader_only: true takeover: 1m
event_type: Freeze event_source: User scope: self peer unknown duration: resources:
notice_left: {at_least:1,below:5} 0s 1e309"""
POLICIES = [
    path.read_text()
    for name in ("good", "bad")
    for path in sorted((DATA / f"{name}_policy").iterdir())
]
WEB = """\
basic_auth_users: tls_server_config: cert_file: key_file: client_auth_type: NoClientCert
http_server_config: http2: headers: X-Frame-Options: deny"""
LIFE = Lifecycle(
    ScheduledEvent("A", "Freeze", "Scheduled", "Platform", ("vm_0",)),
    State.SCHEDULED,
    Scope.SELF,
    Timestamp(0),
)
_Read = TypeVar("_Read")


def texts(*words: str, files: list[str]) -> st.SearchStrategy[str]:
    """Return texts of the pieces of YAML and ``words``, put into one of ``files``."""
    pieces = st.sampled_from([*YAML, *words]) | st.text(max_size=3)
    insertions = st.lists(pieces, max_size=20).map("".join)
    places = st.sampled_from(["", *files]).flatmap(
        lambda file: st.tuples(st.just(file), st.integers(0, len(file)))
    )

    def put_in(insertion: str, place: tuple[str, int]) -> str:
        file, offset = place
        return file[:offset] + insertion + file[offset:]

    return st.builds(put_in, insertions, places)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that all inputs are written into."""
    return tmp_path_factory.mktemp("any") / "file.yaml"


def taken(file: Path, text: str, read: Callable[[Path], _Read]) -> _Read | None:
    """Write ``text`` to ``file``, and return what ``read`` makes of it.

    None if it is refused, which must be in one printable line without the hash of a password.
    """
    file.write_text(text, "utf-8", "surrogatepass")
    try:
        return read(file)
    except UsageError as error:
        message = str(error)
    assert message.isprintable(), message
    assert HASH not in message
    return None


@given(text=texts(*POLICY.split(), files=POLICIES))
@settings(deadline=None)
def test_any_policy(text: str, file: Path) -> None:
    """A policy that is accepted has rules, each with its own name, and an approval names its
    rule.
    """
    policy = taken(file, text, policy_file.load)
    if policy is None:
        return
    names = [rule.name for rule in policy.rules]
    assert names
    assert len(set(names)) == len(names)
    decision = policy.decide(LIFE, "vm_0", Timestamp(60.0))
    assert not decision.approve or decision.rule


@given(
    text=texts(
        *(f"{setting.flag}: " for setting in SETTINGS),
        "off",
        "http://a",
        "1s",
        ":1",
        files=["log: {level: "],
    )
)
@settings(deadline=None)
def test_any_configuration(text: str, file: Path) -> None:
    """A configuration file is taken, or refused in one line; nothing else is raised."""
    taken(file, text, lambda path: resolve({"config.file": str(path)}, {"HOME": "/nowhere"}))


@given(text=texts(*WEB.split(), files=[USERS, f"http_server_config: {{http2: false}}\n{USERS}"]))
@settings(deadline=None)
def test_any_web_configuration(text: str, file: Path) -> None:
    """A web configuration that is taken does not show the hash of a password in its ``repr``, as
    one that is refused does not in its message.
    """
    assert HASH not in repr(taken(file, text, web_config.load))
