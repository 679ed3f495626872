"""Which events to approve, and when to send the request.

``policy`` is pure. Must not talk to IMDS: the poller sends what is due.
"""
