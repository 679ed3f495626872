"""The poll: fetch, observe, journal, log, approve, publish. Only ``poller`` decides the order of these steps.

Publishes an immutable ``snapshot``; must not depend on its readers.
"""
