"""Parses an answer of ``/metadata/instance``: this VM's name, ids, place and size.

Pure; ``imds.client`` fetches it.

Source: https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service
"""

import json
from dataclasses import dataclass

from azure_scheduled_events_exporter.errors import ExporterError

from .safe_text import clean_text


@dataclass(frozen=True, slots=True)
class Instance:
    """This VM as the metadata service describes it; ``""`` for a value that is missing.

    Attributes:
        vm_name: ``compute.name``: the name that Resources use, which may differ from the host name.
        vm_id: the VM's unique id, a GUID.
        scale_set: name of the scale set that it belongs to.
        location: the Azure region, such as ``westeurope``.
        zone: the availability zone, such as ``1``.
        fault_domain: the platform fault domain, a number.
        resource_group: the name of its resource group.
        subscription_id: the subscription, a GUID.
        vm_size: such as ``Standard_D2s_v5``.
        priority: ``Spot`` for a Spot VM.
        resource_id: its Azure Resource Manager id, a path.
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
        """Whether it has each value that IMDS knows of every VM.

        IMDS leaves out values while an Azure service behind it fails.
        """
        return all((self.vm_id, self.location, self.resource_group, self.subscription_id))


_KEYS = {
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
"""The key below ``compute`` for each field of :class:`Instance`, without ``host_name``."""


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
    compute = None
    if isinstance(content, dict):
        compute = content.get("compute")
    if not isinstance(compute, dict):
        raise ExporterError("IMDS' answer to /metadata/instance has no 'compute'")
    values = {field: clean_text(compute.get(key)) for field, key in _KEYS.items()}
    if not values["vm_name"]:
        raise ExporterError("IMDS' answer to /metadata/instance has no 'compute.name'")
    profile = compute.get("osProfile")
    if isinstance(profile, dict):
        values["host_name"] = clean_text(profile.get("computerName"))
    return Instance(**values)
