"""Which events to approve, when, and the requests to IMDS.

Three ask for approvals: the policy, operators and hooks. ``scheduler`` says what is due of all
three, and ``sender`` sends it. ``policy``, ``operator_requests`` and ``by_hook`` are pure. Must not
write events to the journal: ``polling.poller`` does, before a request and after it.
"""
