"""What a killed exporter leaves to the next one, and who may write a journal."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.simulator import Simulator
from support.programs import COMMAND, Exporter, environment

Start = Callable[..., Exporter]


class TestLock:
    """One journal, one writer, over real processes."""

    def test_a_second_exporter_is_refused(self, start_exporter: Start, tmp_path: Path) -> None:
        """A second exporter on the same journal ends with one line that says what to do; the first continues."""
        with Simulator() as simulator:
            journal = str(tmp_path / "state")
            first = start_exporter(simulator.url, "--journal.path", journal)
            listen = ["--web.listen-address", "127.0.0.1:0"]
            second = subprocess.run(
                [COMMAND, "run", "--imds.endpoint", simulator.url, *listen, "--journal.path", journal],
                capture_output=True,
                text=True,
                env=environment(),
                timeout=60,
                check=False,
            )
            assert second.returncode == 1
            (line,) = second.stderr.splitlines()
            assert "another exporter, or 'approve', writes the journal" in line
            assert journal in line
            assert "--journal.path" in line
            assert first.scrape().value("journal_up") == 1


def test_a_disk_that_comes_late(start_exporter: Start, tmp_path: Path) -> None:
    """An exporter whose journal cannot be written runs, reports this, and returns to the disk when it works."""
    (tmp_path / "state").write_text("in the way")
    with Simulator() as simulator:
        simulator.set_document(
            [{"EventId": "A", "EventStatus": "Started", "EventType": "Freeze", "Resources": ["vmss_0"]}]
        )
        path = tmp_path / "state" / "deep" / "journal.sqlite"
        exporter = start_exporter(simulator.url, "--poll.interval", "300ms", "--journal.path", str(path))
        exporter.shows("the event", lambda scrape: scrape.transitions() == {"detected": 1, "started": 1})
        scrape = exporter.scrape()
        assert scrape.value("journal_up") == 0
        assert scrape.value("journal_errors_total") == pytest.approx(1, abs=1)
        (tmp_path / "state").unlink()
        exporter.shows("the disk taken", lambda scrape: scrape.value("journal_up") == 1)
        assert exporter.scrape().transitions() == {"detected": 1, "started": 1}
        exporter.kill()
        again = start_exporter(simulator.url, "--journal.path", str(path))
        assert again.scrape().transitions() == {"detected": 1, "started": 1}
