"""The rules on vmagent, VictoriaMetrics and vmalert: each event is one notification and one resolve
there, too.
"""

from contextlib import ExitStack
from pathlib import Path

from end_to_end.monitoring.test_chain import Play, follow_events


def test_one_notification_an_event(tmp_path: Path) -> None:
    """No page too many, on the engine that reads recordings back from its store."""
    with ExitStack() as stack:
        follow_events(Play("victoria", tmp_path, stack))
