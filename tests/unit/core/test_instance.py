"""Who this VM is, by an answer of the instance metadata."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from azure_scheduled_events_exporter.core.instance import Instance, parse_instance
from azure_scheduled_events_exporter.errors import ExporterError
from support.events.imds_bodies import INSTANCES
from support.paths import PAYLOADS


def test_every_captured_answer_is_in_the_table() -> None:
    """A captured answer that is added is read by a test, too."""
    assert {path.name for path in PAYLOADS.glob("instance_*")} == set(INSTANCES)


@pytest.mark.parametrize("name", INSTANCES)
def test_captured_answer(name: str) -> None:
    """A VM is known by compute.name, not by its host name, with every label that the answer has."""
    assert parse_instance((PAYLOADS / name).read_bytes()) == INSTANCES[name]


def test_name_alone() -> None:
    """Only the name is required: other missing values are empty."""
    assert parse_instance(b'{"compute": {"name": "vm_0"}}') == Instance("vm_0")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "is no JSON"),
        (b"Throttle Result: Too Many Requests", "is no JSON"),
        (b"\xff\xfe\xfd", "is no JSON"),
        (b"[" * 100_000, "is no JSON"),
        (b"[]", "has no 'compute'"),
        (b'{"error": "Bad request"}', "has no 'compute'"),
        (b'{"compute": null}', "has no 'compute'"),
        (b'{"compute": []}', "has no 'compute'"),
        (b'{"compute": {}}', "has no 'compute.name'"),
        (b'{"compute": {"name": ""}}', "has no 'compute.name'"),
        (b'{"compute": {"name": null}}', "has no 'compute.name'"),
        (b'{"compute": {"name": ["vm"]}}', "has no 'compute.name'"),
    ],
)
def test_answer_that_says_not_who(body: bytes, message: str) -> None:
    """An answer without a name is an error that names the missing key."""
    with pytest.raises(ExporterError, match=message):
        parse_instance(body)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
KEYS = [
    "name",
    "vmId",
    "vmScaleSetName",
    "location",
    "zone",
    "platformFaultDomain",
    "priority",
    "osProfile",
]


@settings(deadline=None)
@given(st.binary() | st.fixed_dictionaries({}, optional=dict.fromkeys(KEYS, ANYTHING)))
def test_any_answer(compute: bytes | dict[str, object]) -> None:
    """Any answer is refused in one line or read, and what is read has valid label values."""
    body = compute if isinstance(compute, bytes) else json.dumps({"compute": compute}).encode()
    try:
        identity = parse_instance(body)
    except ExporterError as error:
        message = str(error)
        assert message.isprintable()
        return
    assert identity.vm_name
    for text in (
        identity.vm_name,
        identity.vm_id,
        identity.zone,
        identity.priority,
        identity.host_name,
    ):
        text.encode()
        assert "\x00" not in text
