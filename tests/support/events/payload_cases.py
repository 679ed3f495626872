"""Every body that IMDS or its documentation gave, and what an exporter must show of it."""

from dataclasses import dataclass

LIVE_MIGRATION = "Virtual machine is being paused because of a memory-preserving Live Migration operation."
MAINTENANCE = "Host server is undergoing maintenance."


@dataclass(frozen=True)
class Event:
    """What must be shown of one event; ``not_before`` in UTC, None when it must be absent, as for ``duration``."""

    event_id: str
    event_type: str
    status: str
    scope: str
    resources: str
    count: int = 1
    source: str = ""
    description: str = ""
    not_before: tuple[int, int, int, int, int, int] | None = None
    duration: float | None = None


@dataclass(frozen=True)
class Case:
    """How a file is served, by which VM it is read, and what must come of it."""

    file: str
    name: str  # --instance.name
    incarnation: float | None
    events: tuple[Event, ...] = ()
    api_version: str = "2020-07-01"
    status: int = 200
    outcome: str = "ok"


def live_migration(status: str, scope: str) -> Event:
    """Return the event of Microsoft's example responses."""
    return Event(
        "C7061BAC-AFDC-4513-B24B-AA5F13A16123",
        "Freeze",
        status,
        scope,
        "WestNO_0,WestNO_1",
        count=2,
        source="Platform",
        description=LIVE_MIGRATION,
        not_before=(2022, 4, 11, 22, 26, 58) if status == "Scheduled" else None,
        duration=5,
    )


CASES = (
    Case("msdocs_livemigration_1_empty.json", "WestNO_0", 1),
    Case("msdocs_livemigration_2_scheduled.json", "WestNO_0", 2, (live_migration("Scheduled", "self"),)),
    Case("msdocs_livemigration_3_started.json", "flatcar-vm1", 3, (live_migration("Started", "peer"),)),
    Case("msdocs_livemigration_4_empty.json", "WestNO_0", 4),
    Case("doc_zero_incarnation_empty.json", "WestNO_0", 0),
    Case("azure_vm-scheduled-events_2021_1_first.json", "WestNO_0", 1),
    Case(
        "azure_vm-scheduled-events_2021_2_user_reboot.json",
        "flatcar-vm1",
        2,
        (
            Event(
                "4CAEA225-A741-474D-A72E-428C86FCD853",
                "Reboot",
                "Scheduled",
                "self",
                "flatcar-vm1",
                source="User",
                not_before=(2021, 7, 22, 4, 50, 17),
            ),
        ),
    ),
    Case("azure_vm-scheduled-events_2021_3_cleared_inc4.json", "flatcar-vm1", 4),
    Case(
        "aks_3719_freeze_started_inc16_dur30.json",
        "spot-node-34525998-vmss_6",
        16,
        (
            Event(
                "465D3B0F-D7F2-4239-AC11-1B9800E73DBC",
                "Freeze",
                "Started",
                "self",
                "spot-node-34525998-vmss_6",
                source="Platform",
                description=MAINTENANCE,
                duration=30,
            ),
        ),
    ),
    Case(
        "eviction-listener_preempt_event_only_weekday_wrong.json",
        "spot-node-34525998-vmss_6",
        1,
        (
            Event(
                "258F9A75-A5C9-41BD-B952-3EF1E36C7467",
                "Preempt",
                "Scheduled",
                "peer",
                "eviction-test",
                source="Platform",
                not_before=(2026, 5, 23, 1, 18, 39),
            ),
        ),
    ),
    Case(
        "synthetic_webdevops_events.json",
        "FrontEnd_IN_0",
        5,
        (
            Event(
                "102D9444-D2CD-49C7-8624-8643E7171291",
                "Reboot",
                "Scheduled",
                "peer",
                "",
                count=0,
                not_before=(2019, 9, 19, 18, 29, 47),
            ),
            Event(
                "302D9444-D2CD-49C7-8624-8643E7171291",
                "Reboot",
                "Scheduled",
                "self",
                "FrontEnd_IN_0,BackEnd_IN_0",
                count=2,
                not_before=(2019, 9, 19, 18, 29, 47),
            ),
            Event(
                "602D9444-D2CD-49C7-8624-8643E7171293",
                "Reboot",
                "Started",
                "self",
                "FrontEnd_IN_0,BackEnd_IN_0",
                count=2,
            ),
        ),
    ),
    # A single event is no document: what was known stays.
    Case("msdocs_maintenance_page_2026_iso8601_event_only.json", "WestNO_0", None, outcome="invalid_document"),
    Case("error_400_api_version_msdocs.json", "WestNO_0", None, status=400, outcome="http_error"),
    Case("error_400_missing_metadata_header.json", "WestNO_0", None, status=400, outcome="http_error"),
    Case("error_429_body.txt", "WestNO_0", None, status=429, outcome="throttled"),
    Case(
        "gotest_aks_freeze_started_inc208_v2019-08-01.json",
        "myspotvm",
        208,
        (
            Event(
                "D3D9DFEC-1DCA-4B49-97AA-780E02F45DFE",
                "Freeze",
                "Started",
                "peer",
                "aks-nodepool1-21922338-vmss_47",
                source="Platform",
                description=MAINTENANCE,
            ),
        ),
        api_version="2019-08-01",
    ),
    Case(
        "aks_preempt_2024_v2019-08-01.json",
        "myspotvm",
        1,
        (
            Event(
                "51941B56-8080-45AC-81AE-8BDA818F5958",
                "Preempt",
                "Scheduled",
                "peer",
                "aks-workloads1-15413341-vmss_3",
                source="Platform",
                not_before=(2024, 3, 16, 19, 52, 9),
            ),
        ),
        api_version="2019-08-01",
    ),
    Case(
        "msdocs_spot_preempt_v2019-08-01.json",
        "myspotvm",
        1,
        (
            Event(
                "A123BC45-1234-5678-AB90-ABCDEF123456",
                "Preempt",
                "Scheduled",
                "self",
                "myspotvm",
                source="Platform",
                not_before=(2021, 3, 16, 0, 58, 46),
            ),
        ),
        api_version="2019-08-01",
    ),
    Case(
        "azsamples_2018_two_reboots_v2017-08-01.json",
        "sample_1",
        192,
        (
            Event(
                "28512AF7-C957-4500-9BC4-842D6FB531E4",
                "Reboot",
                "Scheduled",
                "peer",
                "sample_4",
                not_before=(2018, 1, 24, 21, 20, 44),
            ),
            Event(
                "A626E37F-793E-44E1-89B5-99AE0B96044C",
                "Reboot",
                "Scheduled",
                "self",
                "sample_1",
                not_before=(2018, 1, 24, 21, 20, 44),
            ),
        ),
        api_version="2017-08-01",
    ),
    Case(
        "dgkanatsios_62_aks_availset_reboot_v2017-08-01.json",
        "sample_1",
        1,
        (
            Event(
                "8A506C35-679A-4F78-9D76-C16DBE65EE6F",
                "Reboot",
                "Scheduled",
                "peer",
                "aks-nodepool1-34166363-1",
                not_before=(2018, 11, 26, 10, 52, 34),
            ),
        ),
        api_version="2017-08-01",
    ),
    Case(
        "azure-docs_39758_freeze_5min_notice.json",
        "xxxx",
        279,
        (
            Event(
                "xxx-xxx-xxx-xxx-xxx".upper(),
                "Freeze",
                "Scheduled",
                "self",
                "xxxx",
                not_before=(2019, 9, 26, 15, 15, 21),
            ),
        ),
        api_version="2017-11-01",
    ),
    Case(
        "sechecker_reboot_inc10_2020.json",
        "VM",
        10,
        (
            Event(
                "CFA22193-3606-45E1-B7EA-976666B6629F",
                "Reboot",
                "Scheduled",
                "self",
                "VM",
                not_before=(2020, 7, 16, 15, 48, 46),
            ),
        ),
        api_version="2019-01-01",
    ),
    Case(
        "central-logging_2017_underscore_partial_v2017-03-01.json",
        "mysrv",
        1,
        (
            Event(
                "762D06A2-8289-469B-AB27-4D26C9C745B3",
                "Redeploy",
                "Scheduled",
                "self",
                "_mysrv",
                not_before=(2017, 4, 17, 18, 40, 6),
            ),
        ),
        api_version="2017-03-01",
    ),
)
