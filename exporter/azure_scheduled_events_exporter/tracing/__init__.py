"""Delivery of the journal's spans to an OpenTelemetry collector.

Must not decide which spans an event has (``core.spans`` does). OpenTelemetry is imported only when
tracing is on.
"""
