"""Writes the body of ``/metadata/instance`` for a simulated VM: all simple values are strings, as in IMDS. Pure."""

import re
from typing import Final

from .document import guid
from .scenario import VirtualMachine

_MEMBER: Final = re.compile(r"(?P<scale_set>.+)_(?P<number>\d+)")


def computer_name(name: str) -> str:
    """Return the host name Azure gives a VM: ``issue_0`` of a scale set is ``issue000000``."""
    member = _MEMBER.fullmatch(name)
    return f"{member['scale_set']}{int(member['number']):06d}" if member else name


def instance(vm: VirtualMachine) -> dict[str, object]:
    """Return the answer to ``/metadata/instance`` for ``vm``."""
    return {"compute": _compute(vm), "network": {"interface": []}}


def partial_instance(vm: VirtualMachine) -> dict[str, object]:
    """Return the answer while a data provider of IMDS fails: of ``vm``, only its name."""
    names = (key for key, value in _compute(vm).items() if isinstance(value, str))
    return {"compute": {**dict.fromkeys(names, ""), "name": vm.name}, "network": {}}


def _compute(vm: VirtualMachine) -> dict[str, object]:
    return {
        "azEnvironment": "AzurePublicCloud",
        "evictionPolicy": "Delete" if vm.priority == "Spot" else "",
        "isHostCompatibilityLayerVm": "false",
        "location": vm.location,
        "name": vm.name,
        "osProfile": {
            "adminUsername": "azureuser",
            "computerName": computer_name(vm.name),
            "disablePasswordAuthentication": "true",
        },
        "osType": "Linux",
        "placementGroupId": guid(vm.scale_set) if vm.scale_set else "",
        "platformFaultDomain": vm.fault_domain,
        "platformUpdateDomain": vm.fault_domain,
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


def _resource_id(vm: VirtualMachine) -> str:
    group = f"/subscriptions/{vm.subscription_id}/resourceGroups/{vm.resource_group}/providers/Microsoft.Compute"
    if not vm.scale_set:
        return f"{group}/virtualMachines/{vm.name}"
    member = _MEMBER.fullmatch(vm.name)
    number = member["number"] if member else vm.name
    return f"{group}/virtualMachineScaleSets/{vm.scale_set}/virtualMachines/{number}"
