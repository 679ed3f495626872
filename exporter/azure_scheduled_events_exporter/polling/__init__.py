"""The poll: fetch, observe, journal, log, approve, publish. Only ``poller`` decides the order of these steps.

``document_reader`` reads, ``state`` has what is known. Publishes an immutable ``snapshot``; must not depend on its
readers.
"""
