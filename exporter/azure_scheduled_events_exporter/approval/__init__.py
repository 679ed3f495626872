"""Which events to approve, when, and the requests to IMDS.

``policy`` and ``operator_requests`` are pure. Must not write events to the journal:
``polling.poller`` does, before a request and after it.
"""
