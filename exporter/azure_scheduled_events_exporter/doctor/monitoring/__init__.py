"""Checks of the servers behind the exporter: Prometheus, Alertmanager and Grafana, compared with what is shipped.

Must not read this VM's settings, except from the :class:`~..subject.Subject` that it gets as an argument.
"""
