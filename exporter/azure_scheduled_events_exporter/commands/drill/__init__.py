"""The command ``drill``: tests the paging of a team and measures how long a page takes.

Either an alert is posted to Alertmanager directly, or a simulated event takes the whole path: simulator, exporter,
Prometheus, Alertmanager. A posted alert is labeled as a drill; the names of simulated VMs and their scale set say it.
Must not touch a real event.
"""
