"""The rows of a journal, in SQL over one connection.

``schema`` makes the tables, ``store`` reads and writes those of the exporter, and ``inbox_tables``
those that commands write too. ``removal`` keeps all of them from growing. Must not know where the
file is, or what follows from a failure (``journal.disk``), or know a thread (``journal.thread``).
"""
