"""Writes the body of ``/metadata/instance`` for a simulated VM, from which clients learn its name.

Pure: no clock, no network. All simple values are strings, as in IMDS.
"""

import re
from typing import Final

from .document import guid
from .scenario import VirtualMachine

_MEMBER: Final = re.compile(r"(?P<scale_set>.+)_(?P<number>\d+)")
"""The name of a VM in a scale set: ``web_3`` is the VM with the number 3 of ``web``."""


def instance(vm: VirtualMachine, *, is_partial: bool = False) -> dict[str, object]:
    """Return the answer for ``vm``.

    With ``is_partial``, the answer is that of an IMDS which knows nothing but the VM's name: in
    ``compute``, all other strings are empty, and lists and objects are absent; ``network`` is
    empty.
    """
    compute = _compute(vm)
    if not is_partial:
        return {"compute": compute, "network": {"interface": []}}
    partial: dict[str, object] = {}
    for key, value in compute.items():
        if isinstance(value, str):
            partial[key] = ""
    partial["name"] = vm.name
    return {"compute": partial, "network": {}}


def _compute(vm: VirtualMachine) -> dict[str, object]:
    """Return the part ``compute`` of the answer."""
    eviction_policy = ""
    if vm.priority == "Spot":
        eviction_policy = "Delete"
    placement_group = ""
    if vm.scale_set:
        placement_group = guid(vm.scale_set)
    return {
        "azEnvironment": "AzurePublicCloud",
        "evictionPolicy": eviction_policy,
        "isHostCompatibilityLayerVm": "false",
        "location": vm.location,
        "name": vm.name,
        "osProfile": {
            "adminUsername": "azureuser",
            "computerName": _computer_name(vm),
            "disablePasswordAuthentication": "true",
        },
        "osType": "Linux",
        "placementGroupId": placement_group,
        "platformFaultDomain": vm.fault_domain,
        "platformUpdateDomain": vm.fault_domain,  # any: a scenario does not say it
        "priority": vm.priority,
        "provider": "Microsoft.Compute",
        "resourceGroupName": vm.resource_group,
        "resourceId": _resource_id(vm),
        "subscriptionId": vm.subscription_id,
        "tags": "simulated:true",
        "tagsList": [{"name": "simulated", "value": "true"}],
        "vmId": vm.vm_id or guid(vm.name),
        "vmScaleSetName": vm.scale_set,
        "vmSize": vm.size,
        "zone": vm.zone,
    }


def _computer_name(vm: VirtualMachine) -> str:
    """Return the host name, as in Azure: ``issue_0`` of a scale set has ``issue000000``.

    Any name that ends in ``_`` and digits counts as that of a VM in a scale set, because most VMs
    of scenarios are named so and have no ``scale_set``.
    """
    member = _MEMBER.fullmatch(vm.name)
    if member is None:
        return vm.name
    return f"{member['scale_set']}{int(member['number']):06d}"


def _resource_id(vm: VirtualMachine) -> str:
    """Return the id that Azure Resource Manager has for the VM."""
    resource = f"virtualMachines/{vm.name}"
    if vm.scale_set:
        number = vm.name
        if member := _MEMBER.fullmatch(vm.name):
            number = member["number"]
        resource = f"virtualMachineScaleSets/{vm.scale_set}/virtualMachines/{number}"
    group = f"/subscriptions/{vm.subscription_id}/resourceGroups/{vm.resource_group}"
    return f"{group}/providers/Microsoft.Compute/{resource}"
