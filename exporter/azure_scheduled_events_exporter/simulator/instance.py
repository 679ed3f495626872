"""Writes the body of ``/metadata/instance`` for a simulated VM. Pure.

All simple values are strings, as in IMDS.
"""

import re
from typing import Final

from .document import guid
from .scenario import VirtualMachine

_MEMBER: Final = re.compile(r"(?P<scale_set>.+)_(?P<number>\d+)")


def instance(vm: VirtualMachine, *, is_partial: bool = False) -> dict[str, object]:
    """Return the answer for ``vm``; with ``is_partial`` only its name, as in a fault of IMDS."""
    compute = _compute(vm)
    if is_partial:
        names = (key for key, value in compute.items() if isinstance(value, str))
        return {"compute": {**dict.fromkeys(names, ""), "name": vm.name}, "network": {}}
    return {"compute": compute, "network": {"interface": []}}


def _compute(vm: VirtualMachine) -> dict[str, object]:
    """Return the part ``compute`` of the answer."""
    member = _MEMBER.fullmatch(vm.name)
    computer_name = vm.name
    # As in Azure, where ``issue_0`` of a scale set has the host name ``issue000000``. Any name that
    # ends in a number counts as that of a member, because most VMs here are named without a set.
    if member:
        computer_name = f"{member['scale_set']}{int(member['number']):06d}"
    resource = f"virtualMachines/{vm.name}"
    if vm.scale_set:
        number = member["number"] if member else vm.name
        resource = f"virtualMachineScaleSets/{vm.scale_set}/virtualMachines/{number}"
    group = f"/subscriptions/{vm.subscription_id}/resourceGroups/{vm.resource_group}"
    return {
        "azEnvironment": "AzurePublicCloud",
        "evictionPolicy": "Delete" if vm.priority == "Spot" else "",
        "isHostCompatibilityLayerVm": "false",
        "location": vm.location,
        "name": vm.name,
        "osProfile": {
            "adminUsername": "azureuser",
            "computerName": computer_name,
            "disablePasswordAuthentication": "true",
        },
        "osType": "Linux",
        "placementGroupId": guid(vm.scale_set) if vm.scale_set else "",
        "platformFaultDomain": vm.fault_domain,
        "platformUpdateDomain": vm.fault_domain,
        "priority": vm.priority,
        "provider": "Microsoft.Compute",
        "resourceGroupName": vm.resource_group,
        "resourceId": f"{group}/providers/Microsoft.Compute/{resource}",
        "subscriptionId": vm.subscription_id,
        "tags": "simulated:true",
        "tagsList": [{"name": "simulated", "value": "true"}],
        "vmId": vm.vm_id or guid(vm.name),
        "vmScaleSetName": vm.scale_set,
        "vmSize": vm.size,
        "zone": vm.zone,
    }
