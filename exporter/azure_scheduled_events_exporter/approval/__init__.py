"""Which events to approve, and when to send the request.

``policy`` is pure. Nothing here talks to IMDS: the poller sends what is due.
"""
