"""The ids of a trace, which all VMs of an event compute alike, and which span is whose parent."""

import hashlib

import pytest

from azure_scheduled_events_exporter.core.spans import span_id, trace_id
from support.events.span_watcher import GUID, Watcher, scheduled


def sha256(text: str) -> str:
    """Return the hash in hexadecimal digits, as the contract writes it."""
    return hashlib.sha256(text.encode()).hexdigest()


# These have the length of a GUID, and int() takes the first two for hexadecimal numbers.
ALMOST_GUIDS = (
    "C7061BAC-AFDC-4513-B24B-AA5F13A161_3",
    "0XC061BA-AFDC-4513-B24B-AA5F13A16123",
    GUID[:-4] + "----",
)


class TestIds:
    """Every id follows from the event, the VM and the span's name."""

    def test_the_trace_id_of_a_guid(self) -> None:
        """It is the EventId without dashes, but never zeros, which OpenTelemetry refuses."""
        assert trace_id(GUID) == trace_id(GUID.lower()) == "c7061bacafdc4513b24baa5f13a16123"
        assert int(trace_id("00000000-0000-0000-0000-000000000000"), 16) != 0

    @pytest.mark.parametrize(
        "text",
        [
            "NO-ID-0123456789ABCDEF01234567",
            "x",
            "G7061BAC-AFDC-4513-B24B-AA5F13A16123",
            *ALMOST_GUIDS,
        ],
    )
    def test_the_trace_id_of_an_event_id_that_is_no_guid(self, text: str) -> None:
        """It is the first 16 bytes of the hash."""
        assert trace_id(text) == sha256(text.lower())[:32]

    @pytest.mark.parametrize(
        "name", ["scheduled_event", "detected", "scheduled", "approval", "started"]
    )
    def test_a_span_id_is_a_hash_of_event_vm_and_name(self, name: str) -> None:
        """A span's id is computed from event, VM and span name."""
        assert span_id(GUID, "vmss_0", name) == sha256(f"{GUID.lower()}/vmss_0/{name}")[:16]

    def test_two_vms_tell_one_trace(self) -> None:
        """The second VM's whole life hangs under the first VM's, and its phases under its own."""
        first = Watcher("vmss_0")
        second = Watcher("vmss_1")
        roots = []
        for vm in (first, second):
            vm.sees(scheduled(), at=0)
            spans = vm.sees(at=100)
            roots.append(spans["scheduled_event"])
            assert spans["scheduled"].parent_id == spans["scheduled_event"].span_id
        of_first, of_second = roots
        assert of_first.trace_id == of_second.trace_id
        assert of_first.parent_id == ""
        assert of_second.parent_id == of_first.span_id
        assert of_second.span_id != of_first.span_id

    def test_names_agree_whatever_their_spelling(self) -> None:
        """Whether IMDS writes a VM's name with an underscore in front, as its preview version did,
        or in another case than the VM itself: the trace is one.
        """
        event = scheduled(resources=("_VMSS_0", "_VMSS_1"))
        first = Watcher("vmss_0")
        second = Watcher("VmSs_1")
        detected = [vm.sees(event, at=0)["detected"] for vm in (first, second)]
        roots = [vm.sees(at=100)["scheduled_event"] for vm in (first, second)]
        of_first, of_second = roots
        assert of_first.parent_id == ""
        assert of_second.parent_id == of_first.span_id
        assert [span.parent_id for span in detected] == [span.span_id for span in roots]
        assert of_first.span_id == span_id(GUID, "VMSS_0", "scheduled_event")

    def test_without_resources_each_view_is_a_root(self) -> None:
        """The root span of an event that names no VM has no parent: there is no first VM whose span
        could be one.
        """
        vm = Watcher()
        vm.sees(scheduled(resources=()), at=0)
        assert vm.sees(at=100)["scheduled_event"].parent_id == ""
