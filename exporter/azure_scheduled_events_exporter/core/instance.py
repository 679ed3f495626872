"""Parses an answer of ``/metadata/instance``: this VM's name, ids, place and size.

Pure; ``imds.client`` fetches it.

Source: https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service
"""

import json
from dataclasses import dataclass

from azure_scheduled_events_exporter.errors import ExporterError

from .document_parser import clean_text


@dataclass(frozen=True, slots=True)
class Instance:
    """This VM as the metadata service describes it; ``""`` for a value that is missing.

    Attributes:
        vm_name: ``compute.name``: the name that Resources use, which may differ from the host name.
        vm_id: the VM's unique id; resource_id: its Azure Resource Manager id.
        scale_set: name of the scale set that it belongs to.
        host_name: ``osProfile.computerName``.
    """

    vm_name: str
    vm_id: str = ""
    scale_set: str = ""
    location: str = ""
    zone: str = ""
    fault_domain: str = ""
    resource_group: str = ""
    subscription_id: str = ""
    vm_size: str = ""
    priority: str = ""
    resource_id: str = ""
    host_name: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether it has what IMDS knows of every VM.

        While one of its own providers fails, IMDS sends less.
        """
        return all((self.vm_id, self.location, self.resource_group, self.subscription_id))


_FIELDS = {
    "vm_name": "name",
    "vm_id": "vmId",
    "scale_set": "vmScaleSetName",
    "location": "location",
    "zone": "zone",
    "fault_domain": "platformFaultDomain",
    "resource_group": "resourceGroupName",
    "subscription_id": "subscriptionId",
    "vm_size": "vmSize",
    "priority": "priority",
    "resource_id": "resourceId",
}


def parse_instance(body: bytes) -> Instance:
    """Return this VM's identity, parsed from the body of a 200.

    Raises:
        ExporterError: not JSON, or without ``compute.name``, which is needed to recognize this VM's
            events.
    """
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        raise ExporterError(
            "IMDS answered /metadata/instance with something that is no JSON"
        ) from None
    compute = content.get("compute") if isinstance(content, dict) else None
    if not isinstance(compute, dict):
        raise ExporterError("IMDS' answer to /metadata/instance has no 'compute'")
    profile = compute.get("osProfile")
    values = {field: clean_text(compute.get(key)) for field, key in _FIELDS.items()}
    if not values["vm_name"]:
        raise ExporterError("IMDS' answer to /metadata/instance has no 'compute.name'")
    host_name = clean_text(profile.get("computerName")) if isinstance(profile, dict) else ""
    return Instance(**values, host_name=host_name)
