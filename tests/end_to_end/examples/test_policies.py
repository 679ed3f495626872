"""The example policies and roles of deploy/examples: shown or linked by docs/approvals.md, valid,
careful.
"""

import re
import subprocess
from pathlib import Path

import kubernetes_validate  # type: ignore[import-untyped]  # ships no types
import pytest
import yaml

from azure_scheduled_events_exporter.approval.policy import Action
from azure_scheduled_events_exporter.approval.policy_file import load
from support.paths import ROOT
from support.programs import COMMAND, PATIENCE, environment

EXAMPLES = ROOT / "deploy" / "examples"
PAGE = ROOT / "docs" / "approvals.md"
SHOWN = "stateless-web-tier"
LINKED = ("database-primary", "spot-batch-workers", "primary-and-secondary")
POLICIES = (SHOWN, *LINKED)


def test_policies_of_the_page() -> None:
    """The page shows an example policy as its file has it, and links the others; all are valid."""
    folder = EXAMPLES / "policies"
    page = PAGE.read_text()
    blocks_of_yaml = re.findall(r"(?ms)^```yaml\n(.*?)^```$", page)
    assert blocks_of_yaml == [(folder / f"{SHOWN}.yaml").read_text()]
    assert [name for name in LINKED if f"policies/{name}.yaml)" not in page] == []
    assert {path.stem for path in folder.iterdir()} == set(POLICIES)
    assert all(load(folder / f"{name}.yaml").rules for name in POLICIES)


def test_keys_of_the_page(tmp_path: Path) -> None:
    """The tables of the page have every key of a rule and of its match, and no other key."""
    path = tmp_path / "policy.yaml"
    known = set()
    # An unknown key at the top, in a rule and in a match: each error lists the keys that exist.
    for text in (
        "rules: []\nx: 1",
        "rules: [{action: hold, x: 1}]",
        "rules: [{action: hold, match: {x: 1}}]",
    ):
        path.write_text(text)
        done = subprocess.run(
            [COMMAND, "check-config", "--approval.policy", str(path)],
            check=False,
            capture_output=True,
            text=True,
            env=environment(),
            timeout=PATIENCE,
        )
        assert done.returncode == 2
        known |= set(done.stderr.strip().rpartition("known here: ")[2].split(", "))
    section = PAGE.read_text().partition("## The policy file")[2]
    before_other_tables = section.partition("**Several VMs.**")[0]
    named = set(re.findall(r"^\| `(\w+)` \|", before_other_tables, re.MULTILINE))
    only_key_at_the_top = "rules"
    assert named == known - {only_key_at_the_top}


def test_example_policies_approve_no_preempt() -> None:
    """No example policy approves a Preempt, with which Azure takes a Spot VM back."""
    for name in POLICIES:
        for rule in load(EXAMPLES / "policies" / f"{name}.yaml").rules:
            is_of_users = rule.match.event_source == frozenset({"User"})
            is_of_other_types = rule.match.event_type and "Preempt" not in rule.match.event_type
            if is_of_users or is_of_other_types:  # no user requests a Preempt
                continue
            # This is the first rule that matches a Preempt, so it decides.
            assert rule.action is Action.HOLD, (name, rule.name)
            break


@pytest.mark.parametrize("name", POLICIES)
def test_example_policies_know_the_types_that_they_approve(name: str) -> None:
    """Each rule of an example that approves names its types: one that Azure may add is not
    approved.
    """
    for rule in load(EXAMPLES / "policies" / f"{name}.yaml").rules:
        assert rule.action is Action.HOLD or rule.match.event_type is not None, rule.name


def test_rights_to_drain() -> None:
    """Kubernetes takes the role of kubectl-drain, which allows to drain and to uncordon and nothing
    else.
    """
    objects = list(yaml.safe_load_all((EXAMPLES / "kubectl-drain-rbac.yaml").read_text()))
    for each in objects:
        kubernetes_validate.validate(each, "1.31", strict=True)
    [role] = [each for each in objects if each["kind"] == "ClusterRole"]
    assert {
        (name, verb)
        for rule in role["rules"]
        for name in rule["resources"]
        for verb in rule["verbs"]
    } == {
        ("nodes", "get"),
        ("nodes", "patch"),
        ("pods", "get"),
        ("pods", "list"),
        ("pods/eviction", "create"),
        ("daemonsets", "get"),
    }
