"""Bodies of IMDS: the content of each captured one, and a builder for others."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from azure_scheduled_events_exporter.core.document import Document, ScheduledEvent, parse_document

SOME_ID = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"


def utc(*parts: int) -> float:
    """Return a date and time in UTC as seconds since the epoch."""
    year, month, day, *time = parts
    hour, minute, second = time or (0, 0, 0)
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()


LIVE_MIGRATION = {
    "event_id": SOME_ID,
    "event_type": "Freeze",
    "source": "Platform",
    "resources": ("WestNO_0", "WestNO_1"),
    "description": "Virtual machine is being paused because of a memory-preserving Live Migration operation.",
    "duration_seconds": 5.0,
}


def on_vm(*fields: Any, **more: Any) -> ScheduledEvent:  # noqa: ANN401 - handed on as they come
    """Return an event whose ResourceType is VirtualMachine, as in every captured body but one."""
    return replace(ScheduledEvent(*fields, **more), resource_type="VirtualMachine")


# What each captured body says, written down by reading it.
CAPTURED: dict[str, Document] = {
    "aks_3719_freeze_started_inc16_dur30.json": Document(
        16,
        (
            on_vm(
                "465D3B0F-D7F2-4239-AC11-1B9800E73DBC",
                "Freeze",
                "Started",
                "Platform",
                ("spot-node-34525998-vmss_6",),
                None,
                "Host server is undergoing maintenance.",
                30.0,
            ),
        ),
    ),
    "aks_preempt_2024_v2019-08-01.json": Document(
        1,
        (
            on_vm(
                "51941B56-8080-45AC-81AE-8BDA818F5958",
                "Preempt",
                "Scheduled",
                "Platform",
                ("aks-workloads1-15413341-vmss_3",),
                utc(2024, 3, 16, 19, 52, 9),
            ),
        ),
    ),
    "azsamples_2018_two_reboots_v2017-08-01.json": Document(
        192,
        (
            on_vm(
                "28512AF7-C957-4500-9BC4-842D6FB531E4",
                "Reboot",
                "Scheduled",
                resources=("sample_4",),
                not_before=utc(2018, 1, 24, 21, 20, 44),
            ),
            on_vm(
                "A626E37F-793E-44E1-89B5-99AE0B96044C",
                "Reboot",
                "Scheduled",
                resources=("sample_1",),
                not_before=utc(2018, 1, 24, 21, 20, 44),
            ),
        ),
    ),
    "azure-docs_39758_freeze_5min_notice.json": Document(
        279,
        (
            on_vm(
                "XXX-XXX-XXX-XXX-XXX",
                "Freeze",
                "Scheduled",
                resources=("xxxx",),
                not_before=utc(2019, 9, 26, 15, 15, 21),
            ),
        ),
    ),
    "azure_vm-scheduled-events_2021_1_first.json": Document(1),
    "azure_vm-scheduled-events_2021_2_user_reboot.json": Document(
        2,
        (
            on_vm(
                "4CAEA225-A741-474D-A72E-428C86FCD853",
                "Reboot",
                "Scheduled",
                "User",
                ("flatcar-vm1",),
                utc(2021, 7, 22, 4, 50, 17),
            ),
        ),
    ),
    "azure_vm-scheduled-events_2021_3_cleared_inc4.json": Document(4),
    "central-logging_2017_underscore_partial_v2017-03-01.json": Document(
        1,
        (
            ScheduledEvent(
                "762D06A2-8289-469B-AB27-4D26C9C745B3",
                "Redeploy",
                "Scheduled",
                resources=("_mysrv",),
                not_before=utc(2017, 4, 17, 18, 40, 6),
            ),
        ),
    ),
    "dgkanatsios_62_aks_availset_reboot_v2017-08-01.json": Document(
        1,
        (
            on_vm(
                "8A506C35-679A-4F78-9D76-C16DBE65EE6F",
                "Reboot",
                "Scheduled",
                resources=("aks-nodepool1-34166363-1",),
                not_before=utc(2018, 11, 26, 10, 52, 34),
            ),
        ),
    ),
    "doc_zero_incarnation_empty.json": Document(0),
    "eviction-listener_preempt_event_only_weekday_wrong.json": Document(
        1,
        (
            on_vm(
                "258F9A75-A5C9-41BD-B952-3EF1E36C7467",
                "Preempt",
                "Scheduled",
                "Platform",
                ("eviction-test",),
                utc(2026, 5, 23, 1, 18, 39),
            ),
        ),
    ),
    "gotest_aks_freeze_started_inc208_v2019-08-01.json": Document(
        208,
        (
            on_vm(
                "D3D9DFEC-1DCA-4B49-97AA-780E02F45DFE",
                "Freeze",
                "Started",
                "Platform",
                ("aks-nodepool1-21922338-vmss_47",),
                None,
                "Host server is undergoing maintenance.",
            ),
        ),
    ),
    "msdocs_livemigration_1_empty.json": Document(1),
    "msdocs_livemigration_2_scheduled.json": Document(
        2,
        (on_vm(**LIVE_MIGRATION, status="Scheduled", not_before=utc(2022, 4, 11, 22, 26, 58)),),
    ),
    "msdocs_livemigration_3_started.json": Document(3, (on_vm(**LIVE_MIGRATION, status="Started"),)),
    "msdocs_livemigration_4_empty.json": Document(4),
    "msdocs_spot_preempt_v2019-08-01.json": Document(
        1,
        (
            on_vm(
                "A123BC45-1234-5678-AB90-ABCDEF123456",
                "Preempt",
                "Scheduled",
                "Platform",
                ("myspotvm",),
                utc(2021, 3, 16, 0, 58, 46),
            ),
        ),
    ),
    "sechecker_reboot_inc10_2020.json": Document(
        10,
        (
            on_vm(
                "CFA22193-3606-45E1-B7EA-976666B6629F",
                "Reboot",
                "Scheduled",
                resources=("VM",),
                not_before=utc(2020, 7, 16, 15, 48, 46),
            ),
        ),
    ),
    "synthetic_webdevops_events.json": Document(
        5,
        (
            on_vm(
                "102D9444-D2CD-49C7-8624-8643E7171291",
                "Reboot",
                "Scheduled",
                not_before=utc(2019, 9, 19, 18, 29, 47),
            ),
            on_vm(
                "302D9444-D2CD-49C7-8624-8643E7171291",
                "Reboot",
                "Scheduled",
                resources=("FrontEnd_IN_0", "BackEnd_IN_0"),
                not_before=utc(2019, 9, 19, 18, 29, 47),
            ),
            on_vm(
                "602D9444-D2CD-49C7-8624-8643E7171293",
                "Reboot",
                "Started",
                resources=("FrontEnd_IN_0", "BackEnd_IN_0"),
            ),
        ),
    ),
}


def body(*entries: object, **top: object) -> bytes:
    """Return a document with these entries of Events."""
    return json.dumps({"DocumentIncarnation": 1, "Events": entries, **top}).encode()


def entry(**fields: object) -> dict[str, object]:
    """Return an ordinary entry of Events, with ``fields`` changed; a field that is ``...`` is left out."""
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
