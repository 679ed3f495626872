"""Which events to approve, when, and the requests to IMDS.

``policy`` is pure. Must not write events to the journal: ``polling.poller`` does, before a request and after it.
"""
