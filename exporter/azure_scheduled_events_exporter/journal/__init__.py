"""Transitions, spans and approval requests on disk, and what waits while the disk does not work.

The exporter calls ``journal``, and commands open a journal with ``access``. Commands also use
single functions of the packages below, such as where the file is. From the callers to the disk:

- ``thread``: what waits for the disk, and the thread that writes it.
- ``disk``: the file: where it is, its lock, how it is opened, when it is renamed.
- ``tables``: the rows of the file, in SQL.
- ``content``: what the rows hold, as values and as text.

Must not decide anything about events. Used by service, polling, approval, tracing, doctor and the
commands that read history.
"""
