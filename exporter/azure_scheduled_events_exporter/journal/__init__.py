"""Transitions, spans and approval requests on disk, and what waits while the disk does not work.

Must not decide anything about events. Used by service, polling, approval, tracing, doctor and the
commands that read
history.
"""
