"""Stories of exporters that do not work or are not scraped, and the alerts that say so, with their complete texts."""

from collections.abc import Iterator, Mapping

from support.monitoring.alert_scenarios import (
    DOWN,
    MANY,
    UNREACHABLE,
    Exporter,
    Firing,
    Story,
    Value,
    constant,
    counting,
)
from support.monitoring.stories.expected_alerts import AGAIN, NEVER_READY, NO_EXPORTERS, THROTTLED, only, watcher


class _Another(Exporter):
    """A program that answers scrapes, but not with the exporter's metrics."""

    def series(self) -> Iterator[tuple[str, Mapping[str, str], Value]]:
        """Yield what Prometheus adds to any target."""
        yield from (each for each in super().series() if each[0] == "up")


FIRING_EXPORTERS = (
    Story(
        "an approval is refused",
        (Exporter(more={"approval_requests_total rejected": lambda now: now >= 60}),),
        fires={
            ("AzureScheduledEventApprovalRefused", 90): (
                Firing(
                    watcher(),
                    "The metadata service refused an approval.",
                    "IMDS refused an approval from vmss_0:10169, or did not answer it. "
                    "A policy asks again; without an approval the event starts at its NotBefore or later.",
                    "exporter",
                ),
            )
        },
    ),
    Story(
        "an exporter is down",
        (Exporter(down=((60, 2000),)),),
        fires={
            (DOWN, 390): (
                Firing(
                    watcher(),
                    "An exporter does not answer, and no event explains it.",
                    "For 5m, most scrapes of vmss_0:10169 have failed, or got no metrics of the exporter. "
                    "Events that only this VM would report are not seen.",
                    "exporter",
                ),
            )
        },
        quiet={DOWN: (300, 340)},
    ),
    Story(
        "IMDS does not answer",
        (
            Exporter(
                more={
                    "up": lambda now: now < 60,
                    "last_success_timestamp_seconds": lambda now: min(max(now, 1), 60),
                    "polls_total timeout": counting(60, 2000),
                }
            ),
        ),
        fires={
            (UNREACHABLE, 240): (
                Firing(
                    watcher(),
                    "The metadata service does not answer an exporter.",
                    "vmss_0:10169 gets no answer from IMDS: new events are not seen, "
                    "and the last known ones stay shown.",
                    "exporter",
                ),
            )
        },
        quiet={
            UNREACHABLE: (90, 160),
            "AzureScheduledEventDocumentInvalid": MANY[:20],
            "AzureScheduledEventClockOff": MANY,
        },
    ),
    Story(
        "other clients eat up what IMDS answers",
        (Exporter(more={"polls_total throttled": counting(0, 5000, 0.5)}),),
        fires={
            ("AzureScheduledEventThrottled", 900): (
                Firing(
                    watcher(),
                    "The metadata service throttles an exporter.",
                    "33.33% of the polls of vmss_0:10169 are throttled: "
                    "the clients of IMDS on this VM send more than 5 requests a second together.",
                    "exporter",
                ),
            )
        },
    ),
    Story(
        "something else answers in the place of IMDS",
        (
            Exporter(
                more={
                    "up": lambda now: now < 60,
                    "polls_total invalid_document": counting(60, 2000),
                }
            ),
        ),
        fires={
            ("AzureScheduledEventDocumentInvalid", 240): (
                Firing(
                    watcher(),
                    "An exporter cannot read the answer of the metadata service.",
                    "vmss_0:10169 cannot read the answer of IMDS, or a part of it: events in that part are not seen.",
                    "exporter",
                ),
            )
        },
    ),
    Story(
        "an exporter never gets a first answer",
        (Exporter(fresh=((0, 5000),)),),
        fires={
            ("AzureScheduledEventNeverReady", 630): (
                Firing(
                    watcher(),
                    "An exporter has not had one valid answer since it started.",
                    "vmss_0:10169 has never had a valid answer from IMDS: no event of this VM is seen.",
                    "exporter",
                ),
            )
        },
        quiet={"AzureScheduledEventNeverReady": (0, 300, 580), UNREACHABLE: MANY[:20]},
    ),
    Story(
        "the disk under the journal fails",
        (Exporter(more={"journal_errors_total": lambda now: now >= 60}),),
        fires={
            ("AzureScheduledEventJournalNotOnDisk", 390): (
                Firing(
                    watcher(),
                    "An exporter cannot write its journal.",
                    "vmss_0:10169 keeps its journal in memory because the disk fails: "
                    "a restart loses the history of events and the spans that wait.",
                    "exporter",
                ),
            )
        },
    ),
    Story(
        "Alertmanager does not accept what the exporter pushes",
        (Exporter(more={"alertmanager_up": lambda now: now < 60}),),
        fires={
            ("AzureScheduledEventAlertsNotPushed", 390): (
                Firing(
                    watcher(),
                    "Alertmanager does not accept alerts of an exporter.",
                    "vmss_0:10169 cannot push alerts to at least one of its Alertmanagers: "
                    "what that one does not get pages only by scrapes and rules.",
                    "exporter",
                ),
            )
        },
    ),
    Story(
        "the collector takes no spans",
        (Exporter(more={"spans_queued": lambda now: 250 if now >= 60 else 20}),),
        fires={
            ("AzureScheduledEventSpansPilingUp", 990): (
                Firing(
                    watcher(),
                    "Trace spans wait for a collector that does not take them.",
                    "250 spans wait on vmss_0:10169: traces are late. Nothing is lost while the journal is on disk.",
                    "exporter",
                ),
            )
        },
        quiet={"AzureScheduledEventSpansPilingUp": (900,)},
    ),
    Story(
        "a VM's clock is two minutes behind",
        (Exporter(more={"last_success_timestamp_seconds": lambda now: now - 120}),),
        fires={
            ("AzureScheduledEventClockOff", 450): (
                Firing(
                    watcher(),
                    "The clock of a VM differs from that of Prometheus.",
                    "The clock of vmss_0:10169 is 2m 0s off: countdowns and moments of events are wrong by as much.",
                    "exporter",
                ),
            )
        },
    ),
)

EXPORTERS = (
    Story(
        "IMDS throttles, and the exporter slows down",
        (
            Exporter(
                more={
                    "polls_total throttled": counting(0, 5000, 0.05),
                    "polls_total ok": constant(0),
                    "up": constant(0),
                }
            ),
        ),
        quiet={THROTTLED: (60, 200)},
        steady={THROTTLED: (400, 1200)},
    ),
    Story(
        "polls time out, and few are throttled",
        (
            Exporter(
                more={
                    "polls_total throttled": counting(0, 5000, 0.05),
                    "polls_total timeout": counting(0, 5000, 0.9),
                    "polls_total ok": constant(0),
                }
            ),
        ),
        quiet={THROTTLED: (*range(60, 1200, 60),)},
    ),
    Story(
        "IMDS throttles a few polls while others are answered",
        (Exporter(more={"polls_total throttled": counting(0, 100, 0.05)}),),
        quiet=only(),
    ),
    Story(
        "an exporter crashes in a loop, and never gets an answer",
        (Exporter(down=tuple((begin, begin + 50) for begin in range(0, 7000, 75)), fresh=((0, 7000),)),),
        quiet={DOWN: (60, 200)},
        steady={DOWN: (360, 3000), NEVER_READY: (1000, 3000)},
    ),
    Story(
        "an exporter crashes in a loop of 300 s and 15 s",
        (Exporter(down=tuple((begin, begin + 300) for begin in range(100, 7000, 315))),),
        quiet={DOWN: (60, 200, 390)},
        steady={DOWN: (420, 3000)},
    ),
    Story(
        "a rollout restarts an exporter three times",
        (Exporter(down=((300, 310), (400, 410), (500, 520)), fresh=((310, 320), (410, 420), (520, 530))),),
        quiet=only(),
    ),
    Story(
        "an exporter is restarted while IMDS does not answer: the alert stays, and is NeverReady at last",
        (
            Exporter(
                more={
                    "up": lambda now: now < 60,
                    "last_success_timestamp_seconds": lambda now: min(max(now, 1), 60) if now < 400 else 0,
                    "polls_total timeout": counting(60, 5000),
                }
            ),
        ),
        quiet={NEVER_READY: (400, 700, 900)},
        steady={UNREACHABLE: (240, 940), NEVER_READY: (1330, 3000)},
    ),
    Story(
        "all targets are gone from discovery",
        (Exporter(gone=600),),
        fires={
            (NO_EXPORTERS, 960): (
                Firing(
                    watcher("job", "instance"),
                    "No exporter is scraped.",
                    "Prometheus has no targets: no event of any VM is seen.",
                    "exporter",
                ),
            )
        },
        quiet={**only(NO_EXPORTERS, until=3000), NO_EXPORTERS: (0, 300, 600, 890)},
        steady={NO_EXPORTERS: (960, 2970)},
    ),
    Story(
        "one of two targets is gone from discovery",
        (Exporter(gone=600), Exporter("vmss_1")),
        quiet=only(until=3000),
    ),
    Story(
        "all targets of one of two jobs are gone from discovery",
        (Exporter(), *(Exporter(f"db_{number}", job=AGAIN, born=60, gone=600) for number in range(2))),
        fires={
            (NO_EXPORTERS, 930): (
                Firing(
                    watcher("instance", job=AGAIN),
                    "No exporter is scraped.",
                    f"Prometheus has no targets in job {AGAIN}: no event of its VMs is seen.",
                    "exporter",
                ),
            )
        },
        quiet={**only(NO_EXPORTERS), NO_EXPORTERS: tuple(range(0, 900, 30))},
        steady={NO_EXPORTERS: (930, 1200)},
    ),
    Story(
        "all targets of one of two jobs have been gone for more than an hour: its alert resolves",
        (Exporter(), Exporter("db_0", job=AGAIN, gone=600)),
        quiet={NO_EXPORTERS: (4260, 4500)},
        steady={NO_EXPORTERS: (930, 4140)},
    ),
    Story(
        "a job keeps one of its three targets when a scale set is scaled in, beside another job",
        (
            Exporter(),
            Exporter("db_0", job=AGAIN),
            *(Exporter(f"db_{number}", job=AGAIN, gone=600) for number in (1, 2)),
        ),
        quiet=only(),
    ),
    Story(
        "all targets of one of two jobs are gone for four minutes",
        (Exporter(), Exporter("db_0", job=AGAIN, gone=600), Exporter("db_0", job=AGAIN, born=840)),
        quiet={NO_EXPORTERS: MANY},
    ),
    Story(
        "all targets have been gone for more than an hour: one alert, not one more for each job",
        (Exporter(gone=600),),
        steady={NO_EXPORTERS: (930, 4500)},
    ),
    Story(
        "another program answers scrapes on the exporter's port",
        (
            Exporter(gone=300),
            _Another(born=300),
        ),
        quiet={DOWN: (300, 570)},
        steady={DOWN: (630, 1500)},
    ),
)
