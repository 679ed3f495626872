"""The command ``drill``: tests the paging of a team and measures how long a page takes.

Either an alert is posted to Alertmanager directly, or a simulated event takes the whole path: simulator, exporter,
Prometheus, Alertmanager. Alerts, VM names and the scale set are labelled as a drill. Must not touch a real event.
"""

from .command import add_arguments, alert_of, run

__all__ = ["add_arguments", "alert_of", "run"]
