"""A policy file that changes while the exporter runs, look by look."""

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.approval.policy_file import load
from azure_scheduled_events_exporter.approval.policy_reload import ReloadingPolicy
from azure_scheduled_events_exporter.core.event_types import EventType

HOLD = "rules: [{name: wait, action: hold}]\n"
APPROVE = "rules: [{name: go, action: approve}]\n"
NOBODY = 65534
LOG = logging.getLogger("azure-scheduled-events-exporter")


@pytest.fixture
def file() -> Iterator[Path]:
    """Return the path of a policy that approves, in a folder that every user can enter."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder, "policy.yaml")
        path.write_text(APPROVE)
        yield path


@contextmanager
def without_rights_of_root() -> Iterator[None]:
    """Read files as somebody else than root, who may read all."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def rule_after_two_looks(reloading: ReloadingPolicy) -> str:
    """Look at the file twice; return the name of the only rule in effect then.

    A change takes effect when a second look finds it unchanged.
    """
    reloading.look()
    reloading.look()
    [only] = reloading.in_effect.rules
    return only.name


def test_file_becomes_readable(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A changed policy that may not be read yet is reported once, and is in effect as soon as its
    rights allow it.
    """
    caplog.set_level(logging.INFO)
    reloading = ReloadingPolicy(load(file), LOG)
    assert rule_after_two_looks(reloading) == "go"
    changed = file.with_name("changed.yaml")
    changed.write_text(HOLD)
    changed.chmod(0)
    changed.replace(file)
    with without_rights_of_root():
        assert [rule_after_two_looks(reloading) for _ in range(3)] == ["go"] * 3
        messages = [record.message for record in caplog.records]
        assert messages == [
            "approval policy file is missing or invalid: the last valid policy stays"
        ]
    caplog.clear()
    file.chmod(0o644)
    with without_rights_of_root():
        assert rule_after_two_looks(reloading) == "wait"
    assert [record.message for record in caplog.records] == ["approval policy reloaded"]


def test_edit_before_the_first_look(file: Path) -> None:
    """An edit between the start, which reads the policy, and the first look is found."""
    policy = load(file)
    file.write_text(HOLD)
    assert rule_after_two_looks(ReloadingPolicy(policy, LOG)) == "wait"


def test_file_that_is_written_again_as_it_was(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A deployment that writes the same policy again changes nothing, so no decision is logged or
    counted again.
    """
    caplog.set_level(logging.INFO)
    reloading = ReloadingPolicy(load(file), LOG)
    before = reloading.in_effect
    file.write_text(APPROVE)
    rule_after_two_looks(reloading)
    assert reloading.in_effect is before
    assert caplog.records == []


def test_file_that_the_first_look_finds_empty(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file that is empty for a moment, because it is being written, is no invalid policy."""
    caplog.set_level(logging.INFO)
    reloading = ReloadingPolicy(load(file), LOG)
    file.write_text("")
    reloading.look()
    file.write_text(APPROVE)
    assert rule_after_two_looks(reloading) == "go"
    assert caplog.records == []


def test_file_that_is_written_in_two_parts(file: Path) -> None:
    """A rule that still lacks its ``match``, and matches every event, is not in effect while the
    file is written.
    """
    file.write_text(HOLD)
    reloading = ReloadingPolicy(load(file), LOG)
    part = "rules:\n- name: short\n  action: approve\n"
    for written in (part, part + "  match: {event_type: Freeze}\n"):
        file.write_text(written)
        reloading.look()
        [in_effect] = reloading.in_effect.rules
        assert in_effect.name == "wait", "the file has changed since the look before"
    reloading.look()
    [in_effect] = reloading.in_effect.rules
    assert in_effect.match.event_type == frozenset({EventType.FREEZE})
