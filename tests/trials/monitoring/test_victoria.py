"""The rules on vmagent, VictoriaMetrics and vmalert: each event is one notification and one resolve
there, too.
"""

from contextlib import ExitStack
from pathlib import Path

from end_to_end.monitoring.test_chain import FAST, Play, follow_events
from support.monitoring.notification_text import complaints
from support.monitoring.stand_in import StandIn
from support.monitoring.victoria import VictoriaStack


def test_one_notification_an_event(tmp_path: Path) -> None:
    """No page too many, on the engine that reads recordings back from its store."""
    with ExitStack() as stack:
        follow_events(Play("victoria", tmp_path, stack))


def test_first_notification_is_whole(tmp_path: Path) -> None:
    """The first text that vmalert fills in has VMs, resource group, time and links, as with
    Prometheus.
    """
    with StandIn("web_0") as vm:
        vm.show("R Reboot announced")
        with VictoriaStack(tmp_path, FAST, [vm.target]) as chain:
            chain.receiver.wait_for([("AzureScheduledEventReboot", "critical", "firing")], 90)
            (alert,) = (
                each for webhook in chain.receiver.webhooks() for each in webhook.body["alerts"]
            )
    assert complaints(alert, {"web_0"}) == []
    assert alert["annotations"]["summary"] == (
        "Azure reboots web_0 (resource group rg) at 2030-03-17 17:46:40 UTC."
    )
