"""Transitions, requests and spans on disk, and what to do when the disk fails.

Must not decide anything about events. Used by service, polling, approval, tracing, doctor and the
commands that read history.
"""
