"""The poll: fetch, observe, journal, log, approve, publish.

``poller`` has the order of these steps. ``document_reader`` fetches. ``state`` has what is known,
and writes it to the journal. What is published is a ``snapshot``; must not depend on its readers.
"""
