"""What is generated from the table of alerts, for people to import; ``python -m alerts`` writes it.

The table itself is ``azure_scheduled_events_exporter.alerts``.
"""
