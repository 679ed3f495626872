"""Delivery of the journal's spans to an OpenTelemetry collector.

Which spans an event has is decided in ``core.spans``; OpenTelemetry is imported only when tracing is on.
"""
