"""Which events to approve, when, and the requests to IMDS.

``policy`` and ``answer`` are pure. Must not write events to the journal: ``polling.poller`` does, before a request and
after it.
"""
