"""Checks of the servers behind the exporter: Prometheus, Alertmanager and Grafana, compared with what is shipped.

It does not know this VM's settings beyond the :class:`~..subject.Subject` that is handed in.
"""
