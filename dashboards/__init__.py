"""The Grafana dashboards as code: what people look at when the exporters have something to say.

``python -m dashboards`` writes the JSON that is shipped; nothing here runs where the exporter runs.
"""
