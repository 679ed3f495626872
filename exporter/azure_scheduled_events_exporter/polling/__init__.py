"""The poll: fetch, observe, journal, log, approve, publish. ``poller`` is the only module that sequences effects.

Publishes an immutable ``snapshot``; knows nothing of who reads it.
"""
