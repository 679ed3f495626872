"""Transitions, requests and spans on disk, and what to do when the disk fails.

Must not decide anything about events. Used by polling, approval, tracing and the commands that read history.
"""
