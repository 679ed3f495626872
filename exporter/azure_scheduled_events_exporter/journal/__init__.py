"""Transitions, requests and spans on disk, and what to do when the disk fails.

Decides nothing about events; used by polling, approval, tracing and the commands that read history.
"""
