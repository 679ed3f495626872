"""Stories of events that exporters report differently, or in one scrape only."""

from dataclasses import replace

from support.monitoring.alert_scenarios import (
    FREEZE,
    REBOOT,
    REDEPLOY,
    SHORT_FREEZE,
    WITHOUT_NOTICE,
    Exporter,
    Seen,
    Story,
    one,
)
from support.monitoring.stories.expected_alerts import (
    DEGRADED,
    REBOOT_FIRES,
    REQUESTED,
    SCALE_SET_HIT,
    WHO,
    ZONE_HIT,
    only,
)
from support.monitoring.stories.fleets import DAY

_SECOND, _OTHER = Seen(event_id="E2", resources="db_0"), "db_0 (scale set db)"

REPORTS = (
    Story(
        "the source of an event is empty for one api-version",
        (
            Exporter(events=(Seen(source=""),)),
            Exporter("vmss_1", (Seen(source="User", scope="peer", announced=35),)),
        ),
        quiet=only(REQUESTED),
        steady={REQUESTED: (40, 900)},
    ),
    Story(
        "no exporter shows the source of an event",
        one(Seen(source="")),
        quiet={**only(REBOOT), REBOOT: (30,)},
        steady={REBOOT: (50, 900)},
    ),
    Story(
        "two exporters order Resources differently, and one VM leaves them",
        (
            Exporter(events=(Seen(resources="vmss_0,vmss_1", gone=300), Seen(announced=300, resources="vmss_0"))),
            Exporter(
                "vmss_1", (Seen(resources="vmss_1,vmss_0", scope="self", gone=305), Seen(announced=305, scope="peer"))
            ),
        ),
        quiet=only(REBOOT, SCALE_SET_HIT, ZONE_HIT),
        steady={REBOOT: (30, 900)},
    ),
    Story(
        "reporters in two scale sets",
        (Exporter(events=(Seen(),)), Exporter("db_0", (Seen(scope="peer"),), scale_set="db")),
        quiet=only(REBOOT),
        steady={REBOOT: (30, 900)},
    ),
    Story(
        "reporters in two scale sets, and their event is called off",
        (Exporter(events=(Seen(gone=400),)), Exporter("db_0", (Seen(scope="peer", gone=400),), scale_set="db")),
        quiet={**only(REBOOT), REBOOT: (20, *range(430, 1230, 30))},
        steady={REBOOT: (30, 390)},
    ),
    Story(
        "reporters in two scale sets, and an event of each set, which most of its exporters report",
        (
            Exporter(events=(Seen(), replace(_SECOND, scope="peer"))),
            Exporter("vmss_1", (Seen(scope="peer"),)),
            Exporter("db_0", (Seen(scope="peer"), _SECOND), scale_set="db", zone="2"),
            Exporter("db_1", (replace(_SECOND, scope="peer"),), scale_set="db", zone="2"),
        ),
        fires={
            (REBOOT, 60): (
                REBOOT_FIRES,
                replace(
                    REBOOT_FIRES,
                    labels={**REBOOT_FIRES.labels, "event_id": "E2"},
                    description=REBOOT_FIRES.description.replace(WHO, _OTHER).replace("E1", "E2"),
                    vms=_OTHER,
                ),
            )
        },
        quiet=only(REBOOT),
    ),
)

# An exporter that answers one scrape with its event and then no more: what it showed is recorded later than that.
_AFTERWARDS = tuple(range(65, 900, 5))

SHOWN_ONCE = (
    Story(
        "a Redeploy that is days ahead, shown in one scrape",
        (Exporter(events=(Seen("Redeploy", announced=65, not_before=3 * DAY),), down=((70, 3000),)),),
        quiet={REDEPLOY: _AFTERWARDS, WITHOUT_NOTICE: _AFTERWARDS},
        steady={DEGRADED: (65, 900)},
        every=5,
    ),
    Story(
        "a Reboot that was announced, shown in one scrape",
        (Exporter(events=(Seen(announced=65),), down=((70, 3000),)),),
        quiet={WITHOUT_NOTICE: _AFTERWARDS},
        steady={REBOOT: (65, 900)},
        every=5,
    ),
    Story(
        "a Reboot that a user requested, shown in one scrape",
        (Exporter(events=(Seen(announced=65, source="User"),), down=((70, 3000),)),),
        quiet={REBOOT: _AFTERWARDS, WITHOUT_NOTICE: _AFTERWARDS},
        steady={REQUESTED: (65, 900)},
        every=5,
    ),
    Story(
        "a short Freeze, shown in one scrape",
        (Exporter(events=(Seen("Freeze", announced=65, duration=5),), down=((70, 3000),)),),
        quiet={FREEZE: _AFTERWARDS},
        steady={SHORT_FREEZE: (65, 900)},
        every=5,
    ),
)
