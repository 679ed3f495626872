"""Pushes alerts to Alertmanager without waiting for a scrape.

``alert`` decides which alert an event raises, from its kind and the table of alerts; ``outbox``
what is due; ``push`` delivers it in threads, through ``client``. Must not poll, decide about the
life of an event or its kind, or ask Alertmanager anything (only a drill does, through ``client``).
"""
