"""What waits for the disk, and the thread that writes it.

Entries wait in ``queue``. ``shared`` protects it by a lock, and hands the entries to the thread of
``writer``, which alone touches the file. Must not know what an entry means for an event
(``journal.journal``), or know SQL (``journal.tables``).
"""
