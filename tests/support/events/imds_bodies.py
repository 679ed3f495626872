"""Bodies of IMDS: the content of each captured one, and a builder for others."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime

from azure_scheduled_events_exporter.core.document import Document, ScheduledEvent
from azure_scheduled_events_exporter.core.document_parser import parse_document
from azure_scheduled_events_exporter.core.instance import Instance

SOME_ID = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"


def utc(*parts: int) -> float:
    """Return a date and time in UTC as seconds since the epoch."""
    year, month, day, *time = parts
    hour, minute, second = time or (0, 0, 0)
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()


HOST = "Host server is undergoing maintenance."
MIGRATION = (
    "Virtual machine is being paused because of a memory-preserving Live Migration operation."
)
WITHOUT_RESOURCE_TYPE = "central-logging_2017_underscore_partial_v2017-03-01"

# What each captured body says, written down by reading it: its name and incarnation, and below it
# each event's id, type, status, source, resources, NotBefore in UTC, duration and description.
_CAPTURED = f"""\
aks_3719_freeze_started_inc16_dur30 16
  465D3B0F-D7F2-4239-AC11-1B9800E73DBC|Freeze|Started|Platform|spot-node-34525998-vmss_6||30|{HOST}
aks_preempt_2024_v2019-08-01 1
  51941B56-8080-45AC-81AE-8BDA818F5958|Preempt|Scheduled|Platform|aks-workloads1-15413341-vmss_3|2024-03-16T19:52:09
azsamples_2018_two_reboots_v2017-08-01 192
  28512AF7-C957-4500-9BC4-842D6FB531E4|Reboot|Scheduled||sample_4|2018-01-24T21:20:44
  A626E37F-793E-44E1-89B5-99AE0B96044C|Reboot|Scheduled||sample_1|2018-01-24T21:20:44
azure-docs_39758_freeze_5min_notice 279
  XXX-XXX-XXX-XXX-XXX|Freeze|Scheduled||xxxx|2019-09-26T15:15:21
azure_vm-scheduled-events_2021_1_first 1
azure_vm-scheduled-events_2021_2_user_reboot 2
  4CAEA225-A741-474D-A72E-428C86FCD853|Reboot|Scheduled|User|flatcar-vm1|2021-07-22T04:50:17
azure_vm-scheduled-events_2021_3_cleared_inc4 4
central-logging_2017_underscore_partial_v2017-03-01 1
  762D06A2-8289-469B-AB27-4D26C9C745B3|Redeploy|Scheduled||_mysrv|2017-04-17T18:40:06
dgkanatsios_62_aks_availset_reboot_v2017-08-01 1
  8A506C35-679A-4F78-9D76-C16DBE65EE6F|Reboot|Scheduled||aks-nodepool1-34166363-1|2018-11-26T10:52:34
doc_zero_incarnation_empty 0
eviction-listener_preempt_event_only_weekday_wrong 1
  258F9A75-A5C9-41BD-B952-3EF1E36C7467|Preempt|Scheduled|Platform|eviction-test|2026-05-23T01:18:39
gotest_aks_freeze_started_inc208_v2019-08-01 208
  D3D9DFEC-1DCA-4B49-97AA-780E02F45DFE|Freeze|Started|Platform|aks-nodepool1-21922338-vmss_47|||{HOST}
msdocs_livemigration_1_empty 1
msdocs_livemigration_2_scheduled 2
  C7061BAC-AFDC-4513-B24B-AA5F13A16123|Freeze|Scheduled|Platform|WestNO_0,WestNO_1|2022-04-11T22:26:58|5|{MIGRATION}
msdocs_livemigration_3_started 3
  C7061BAC-AFDC-4513-B24B-AA5F13A16123|Freeze|Started|Platform|WestNO_0,WestNO_1||5|{MIGRATION}
msdocs_livemigration_4_empty 4
msdocs_spot_preempt_v2019-08-01 1
  A123BC45-1234-5678-AB90-ABCDEF123456|Preempt|Scheduled|Platform|myspotvm|2021-03-16T00:58:46
sechecker_reboot_inc10_2020 10
  CFA22193-3606-45E1-B7EA-976666B6629F|Reboot|Scheduled||VM|2020-07-16T15:48:46
synthetic_webdevops_events 5
  102D9444-D2CD-49C7-8624-8643E7171291|Reboot|Scheduled|||2019-09-19T18:29:47
  302D9444-D2CD-49C7-8624-8643E7171291|Reboot|Scheduled||FrontEnd_IN_0,BackEnd_IN_0|2019-09-19T18:29:47
  602D9444-D2CD-49C7-8624-8643E7171293|Reboot|Started||FrontEnd_IN_0,BackEnd_IN_0
"""


def _captured() -> Iterator[tuple[str, Document]]:
    for block in re.split(r"\n(?! )", _CAPTURED.strip()):
        head, *lines = block.split("\n")
        name, incarnation = head.split()
        resource_type = "" if name == WITHOUT_RESOURCE_TYPE else "VirtualMachine"
        yield (
            f"{name}.json",
            Document(
                int(incarnation), tuple(_event(line.strip(), resource_type) for line in lines)
            ),
        )


def _event(line: str, resource_type: str) -> ScheduledEvent:
    """Return the event of a line; what it lacks at its end is empty."""
    event_id, kind, status, source, names, time, seconds, description = (line + 7 * "|").split("|")[
        :8
    ]
    resources = tuple(filter(None, names.split(",")))
    not_before = datetime.fromisoformat(f"{time}+00:00").timestamp() if time else None
    duration = float(seconds) if seconds else None
    facts = (event_id, kind, status, source, resources, not_before, description, duration)
    return ScheduledEvent(*facts, resource_type=resource_type)


CAPTURED = dict(_captured())

# What each captured answer about a VM says.
INSTANCES = {
    "instance_aks_vmss_uniform_v2021-02-01.json": Instance(
        vm_name="aks-nodepool1-22790412-vmss_0",
        vm_id="d89dcaf9-bd2e-45f9-8435-a778a750d9ba",
        scale_set="aks-nodepool1-22790412-vmss",
        location="SwedenCentral",
        zone="",
        fault_domain="0",
        resource_group="MC_rg_aks_swedencentral",
        subscription_id="redacts-1111-1111-1111-111111111111",
        vm_size="Standard_B2ms",
        priority="",
        resource_id=(
            "/subscriptions/redacts-1111-1111-1111-111111111111/resourceGroups/MC_rg_aks_swedencentral/providers/"
            "Microsoft.Compute/virtualMachineScaleSets/aks-nodepool1-22790412-vmss/virtualMachines/0"
        ),
        host_name="aks-nodepool1-22790412-vmss000000",
    ),
    "instance_teamcity_msdocs_v2023-07-01.json": Instance(
        vm_name="examplevmname",
        vm_id="02aab8a4-74ef-476e-8182-f6d2ba4166a6",
        scale_set="crpteste9vflji9",
        location="westus",
        zone="",
        fault_domain="36",
        resource_group="macikgo-test-may-23",
        subscription_id="xxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxx",
        vm_size="Standard_A3",
        priority="Regular",
        resource_id=(
            "/subscriptions/xxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxx/resourceGroups/macikgo-test-may-23/providers/"
            "Microsoft.Compute/virtualMachines/examplevmname"
        ),
        host_name="examplevmname",
    ),
}


def body(*entries: object, **top: object) -> bytes:
    """Return a document with these entries of Events."""
    return json.dumps({"DocumentIncarnation": 1, "Events": entries, **top}).encode()


def entry(**fields: object) -> dict[str, object]:
    """Return an ordinary entry of Events, with ``fields`` changed; a field that is ``...`` is left
    out.
    """
    usual = {
        "EventId": SOME_ID,
        "EventStatus": "Scheduled",
        "EventType": "Reboot",
        "ResourceType": "VirtualMachine",
        "Resources": ["vm_0"],
        "NotBefore": "Mon, 11 Apr 2022 22:26:58 GMT",
        "Description": "",
        "EventSource": "Platform",
        "DurationInSeconds": -1,
    }
    return {key: value for key, value in {**usual, **fields}.items() if value is not ...}


def only(**fields: object) -> ScheduledEvent:
    """Return what the one event of a document is read as."""
    (event,) = parse_document(body(entry(**fields))).events
    return event
