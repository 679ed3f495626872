"""The command drill tests the whole way of a page, Prometheus included."""

from pathlib import Path

from deploy.stack.free_port import free_port
from support.monitoring.paging import Stack
from support.programs import COMMAND, PATIENCE, Program, eventually

WITHOUT_NOTICE = ("AzureScheduledEventWithoutNotice", "critical", "firing")


def test_the_whole_way(tmp_path: Path) -> None:
    """A simulated failure of a host goes through exporter, Prometheus and Alertmanager to the
    pager. The drill succeeds and says so, and Prometheus learns that its events have ended.
    """
    address = f"127.0.0.1:{free_port()}"
    with Stack(tmp_path, {}, [address]) as stack:
        arguments = [
            *(COMMAND, "drill", "--alertmanager", stack.alertmanager.url, "--timeout", "60s"),
            *("--exporter.listen-address", address, "--wait", "6s", "--after", "20s"),
        ]
        with Program(arguments, tmp_path / "drill.log", PYTHONUNBUFFERED="1") as drill:
            assert drill.process.wait(2 * PATIENCE) == 0, drill.log
        first_page, *_ = stack.receiver.notified("/pager")
        assert first_page == WITHOUT_NOTICE
        query = stack.prometheus.query
        eventually(
            lambda: query("sum_over_time(up[20s]) == 0"),
            "every scrape of the last 20 s has failed, as the drill's exporter has ended",
        )
        # An alert resolves three minutes after the end of its event. It must not depend on the
        # exporter, so Prometheus has recorded the end of the event of each alert.
        alerts = 'ALERTS{event_id!=""}'
        assert query(alerts)
        assert query(f"{alerts} unless on (event_id) azure_scheduled_events:event_ended") == []
    assert "Reboot of DRILL-vmss_0 has begun without notice" in drill.log
