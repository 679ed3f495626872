"""Which event a pause of this VM belongs to."""

from dataclasses import replace

import pytest

from azure_scheduled_events_exporter.core.document import ScheduledEvent
from azure_scheduled_events_exporter.core.measurement import record_pause
from azure_scheduled_events_exporter.core.pause import Pause
from support.events.lives import SCHEDULED, STARTED, Watch, at


class TestPause:
    """A pause of this VM belongs to the events that were Started during it."""

    def test_the_longest_counts(self) -> None:
        """From the last document before the start to the first after the end, the longest pause is
        the event's.
        """
        watch = Watch()
        watch.sees(at(0), SCHEDULED, pause=Pause(99.0))  # long before the start
        watch.sees(at(901), STARTED, pause=Pause(0.3))
        assert watch.life.observed_pause == 0.3
        watch.known = record_pause(watch.known, Pause(4.0))
        watch.known = record_pause(watch.known, Pause(1.0))
        watch.sees(at(1500), pause=Pause(2.0))
        assert watch.life.observed_pause == 4.0

    def test_when_the_longest_ended(self) -> None:
        """The end that is kept is that of the longest pause."""
        watch = Watch()
        watch.sees(at(0), SCHEDULED)
        watch.sees(at(901), STARTED, pause=Pause(0.3, ended=at(900)))
        assert watch.life.pause_ended == at(900)
        watch.known = record_pause(watch.known, Pause(4.0, ended=at(950)))
        watch.known = record_pause(watch.known, Pause(1.0, ended=at(990)))
        watch.sees(at(1500), pause=Pause(2.0, ended=at(1499)))
        assert watch.life.pause_ended == at(950)

    def test_the_last_moment_counts(self) -> None:
        """A pause that ends as the event leaves is its own."""
        watch = Watch()
        watch.sees(at(0), SCHEDULED)
        watch.sees(at(901), STARTED, pause=Pause(0.0))
        assert watch.sees(at(910), pause=Pause(6.0)) == ["completed"]
        assert watch.life.observed_pause == 6.0

    @pytest.mark.parametrize(
        ("pause", "watched", "measured"),
        [
            pytest.param(None, True, None, id="nobody measured"),
            pytest.param(Pause(2.0), False, None, id="the start went unwatched"),
            pytest.param(Pause(2.0), True, 2.0, id="watched"),
            pytest.param(Pause(60.0, is_boot=True), False, 60.0, id="a boot"),
        ],
    )
    def test_an_unwatched_start(
        self, pause: Pause | None, watched: bool, measured: float | None
    ) -> None:
        """An event has no measured pause if nobody measured at its start, or if the start went
        unwatched: the pause may have been then, so a later one is not taken for it either. A boot
        is measured all the same, as it takes longer than whatever was missed.
        """
        watch = Watch()
        watch.sees(at(0), SCHEDULED)
        watch.sees(at(901), STARTED, watched=watched, pause=pause)
        assert watch.life.observed_pause == measured
        watch.known = record_pause(watch.known, Pause(1.0))  # shorter than those above
        assert watch.known.current[STARTED.event_id].observed_pause == measured

    def test_a_boot_outweighs_what_went_unseen(self) -> None:
        """A boot while an event was Started is its pause, also if the start was not observed."""
        watch = Watch()
        watch.sees(at(0), STARTED, watched=False, pause=Pause(0.0))
        assert watch.sees(
            at(90, boot="boot-2"), watched=False, pause=Pause(80.0, is_boot=True)
        ) == ["completed"]
        assert watch.life.observed_pause == 80.0

    def test_proven_by_a_boot(self) -> None:
        """A Reboot whose start was not seen is measured by the boot; a Freeze is not proven, and so
        not measured.
        """
        for event_type, measured in (("Reboot", 80.0), ("Freeze", None)):
            watch = Watch()
            watch.sees(at(0), replace(SCHEDULED, event_type=event_type))
            boot = Pause(80.0, is_boot=True)
            watch.sees(
                at(990, boot="boot-2"), watched=False, booted_at=at(960, boot="boot-2"), pause=boot
            )
            assert watch.life.observed_pause == measured, event_type

    @pytest.mark.parametrize(
        "shown_last", [[replace(STARTED, event_type="Reboot")], []], ids=["Started", "gone"]
    )
    def test_a_reboot_before_an_outdated_document(self, shown_last: list[ScheduledEvent]) -> None:
        """After the reboot, IMDS may still show the event as Scheduled for a moment. A pause that
        follows is not the event's: the reboot was its pause, and nobody has measured that here.
        """
        watch = Watch()
        scheduled = replace(SCHEDULED, event_type="Reboot")
        watch.sees(at(0), scheduled)
        booted_at = at(960, boot="boot-2")
        watch.sees(at(990, boot="boot-2"), scheduled, watched=False, booted_at=booted_at)
        last_moment = at(991, boot="boot-2")
        watch.sees(last_moment, *shown_last, booted_at=booted_at, pause=Pause(0.02))
        assert watch.life.observed_pause is None

    @pytest.mark.parametrize("vm_name", ["vm_9", None])
    def test_only_events_of_this_vm(self, vm_name: str | None) -> None:
        """Pauses of this VM do not count for events of another VM or of unknown scope."""
        watch = Watch(vm_name)
        watch.sees(at(0), SCHEDULED)
        watch.sees(at(901), STARTED, pause=Pause(5.0))
        watch.known = record_pause(watch.known, Pause(5.0, is_boot=True))
        watch.sees(at(990), pause=Pause(5.0))
        assert watch.life.observed_pause is None

    def test_nothing_new_is_the_same(self) -> None:
        """If a pause changes no event, the same object is returned, so nothing is written."""
        watch = Watch()
        watch.sees(at(0), SCHEDULED)
        assert record_pause(watch.known, Pause(5.0)) is watch.known, "no event is Started"
        watch.sees(at(901), STARTED, pause=Pause(5.0))
        assert record_pause(watch.known, Pause(0.05)) is watch.known, "so short a pause is noise"
        assert record_pause(watch.known, None) is watch.known, "nothing was measured"

    def test_the_longest_is_kept_and_each_is_counted(self) -> None:
        """An event can pause a VM more than once: each pause of 0.1 s or more counts, and shorter
        ones are noise.
        """
        watch = Watch()
        watch.sees(at(0), SCHEDULED)
        watch.sees(at(901), STARTED, pause=Pause(5.0))
        watch.known = record_pause(watch.known, Pause(0.05))
        watch.known = record_pause(watch.known, Pause(2.0))
        watch.sees(at(1500), pause=Pause(0.0))
        assert (watch.life.observed_pause, watch.life.pauses) == (5.0, 2)

    def test_an_event_that_returned(self) -> None:
        """An event that returns after its end is still measured."""
        watch = Watch()
        watch.sees(at(0), STARTED, pause=Pause(1.0))
        watch.sees(at(600), pause=Pause(0.0))
        watch.sees(at(700), STARTED)
        watch.known = record_pause(watch.known, Pause(9.0))
        assert watch.known.current[STARTED.event_id].observed_pause == 9.0
