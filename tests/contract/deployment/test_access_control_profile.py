"""The rules for Azure's Guest Proxy Agent: valid for Azure and the agent, and what they allow.

A template deploys them as a profile in Azure, for many VMs. A local file has them for one VM.
"""

import json
from typing import Any

import jsonschema
import pytest

from azure_scheduled_events_exporter.imds.guest_proxy_agent import (
    EVENTS_PATH,
    INSTANCE_PATH,
    NAMELESS,
)
from support.paths import ROOT

FOLDER = ROOT / "deploy" / "metadata-security-protocol"
TEMPLATE = json.loads((FOLDER / "in-vm-access-control-profile.json").read_text())
LOCAL = json.loads((FOLDER / "IMDS_Rules.json").read_text())
EXPORTER = "azure-scheduled-events-exporter"
KIND = "Microsoft.Compute/galleries/inVMAccessControlProfiles"


def closed(required: str, optional: str = "") -> dict[str, Any]:
    """Return the schema of an object that has these keys, and no others."""
    keys = [*required.split(), *optional.split()]
    properties = {key: {"type": "string"} for key in keys}
    return {
        "type": "object",
        "required": required.split(),
        "properties": properties,
        "additionalProperties": False,
    }


def having(schema: dict[str, Any], **properties: object) -> dict[str, Any]:
    """Return ``schema`` with other types for some properties."""
    return {**schema, "properties": {**schema["properties"], **properties}}


NAMES = {"type": "array", "items": {"type": "string"}}
# Microsoft.Compute@2024-03-03, as published in Azure/bicep-types-az and azure-rest-api-specs.
RULES = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "privileges": {
            "type": "array",
            "items": having(closed("name path", "queryParameters"), queryParameters={}),
        },
        "roles": {"type": "array", "items": having(closed("name privileges"), privileges=NAMES)},
        "identities": {
            "type": "array",
            "items": closed("name", "userName groupName exePath processName"),
        },
        "roleAssignments": {
            "type": "array",
            "items": having(closed("role identities"), identities=NAMES),
        },
    },
}
PROFILE = having(
    closed("osType applicableHostEndpoint", "description"),
    osType={"enum": ["Linux", "Windows"]},
    applicableHostEndpoint={"enum": ["IMDS", "WireServer"]},
)
VERSION = having(
    closed("mode defaultAccess", "rules targetLocations excludeFromLatest"),
    rules=RULES,
    excludeFromLatest={"type": "boolean"},
)


def properties_of(kind: str) -> dict[str, Any]:
    """Return the properties of the template's one resource of this type."""
    (found,) = [each for each in TEMPLATE["resources"] if each["type"] == kind]
    assert found["apiVersion"] == "2024-03-03"
    assert found["location"]
    properties: dict[str, Any] = found["properties"]
    return properties


def test_schema() -> None:
    """Profile, version and local rules have the form that Azure and the agent read."""
    jsonschema.validate(properties_of(KIND), PROFILE)
    jsonschema.validate(properties_of(f"{KIND}/versions"), VERSION)
    jsonschema.validate(LOCAL, having(closed("id rules"), rules=RULES))


def test_local_rules_are_those_of_the_template() -> None:
    """The file for one VM has the rules that the template makes by default. Of its parameters, only
    the gallery has no default: only whoever deploys it knows that.
    """
    parameters = TEMPLATE["parameters"]
    assert LOCAL["rules"] == rules_for(parameters["exporterUserName"]["defaultValue"])
    required = [name for name, each in parameters.items() if "defaultValue" not in each]
    assert required == ["galleryName"]


def rules_for(user: str) -> dict[str, Any]:
    """Return the template's rules, deployed with this exporterUserName."""
    text = json.dumps(properties_of(f"{KIND}/versions")["rules"])
    rules: dict[str, Any] = json.loads(text.replace("[parameters('exporterUserName')]", user))
    return rules


def test_default_of_the_profile_stays() -> None:
    """The local file has no ``defaultAccess``: the agent would put it above the Deny of the VM's
    profile.
    """
    assert "defaultAccess" not in LOCAL


def allows(rules: dict[str, Any], user: str, path: str) -> bool:
    """Decide as the agent does: a path that a privilege names is for its identities alone, and any
    other path is for everybody.
    """
    named = {each["name"] for each in rules["privileges"] if path.startswith(each["path"])}
    roles = {each["name"] for each in rules["roles"] if named & {*each["privileges"]}}
    assigned = {
        identity
        for each in rules["roleAssignments"]
        if each["role"] in roles
        for identity in each["identities"]
    }
    users = {each["userName"] for each in rules["identities"] if each["name"] in assigned}
    return not named or user in users


@pytest.mark.parametrize(
    ("user", "path", "is_allowed"),
    [
        (EXPORTER, EVENTS_PATH, True),
        (NAMELESS, EVENTS_PATH, False),
        ("root", EVENTS_PATH, True),
        ("www-data", EVENTS_PATH, False),
        ("www-data", INSTANCE_PATH, True),
        (EXPORTER, INSTANCE_PATH, True),
    ],
)
def test_who_may(user: str, path: str, *, is_allowed: bool) -> None:
    """The exporter's user and root, who runs the commands ``hook`` and ``approve``, may use
    Scheduled Events, and nobody else may. Everybody may use other paths.
    """
    assert allows(LOCAL["rules"], user, path) is is_allowed


def test_an_exporter_without_an_account() -> None:
    """Programs whose uid has no name may use Scheduled Events if the template is deployed for
    NAMELESS, which is not its default.
    """
    assert TEMPLATE["parameters"]["exporterUserName"]["defaultValue"] == EXPORTER
    assert allows(rules_for(NAMELESS), NAMELESS, EVENTS_PATH)
