"""The poll: fetch, observe, journal, log, approve, publish.

``poller`` and ``state`` decide their order. ``document_reader`` reads, ``state`` has what is known.
Publishes an immutable ``snapshot``; must not depend on its readers.
"""
