"""Transitions, spans and approval requests on disk, and what waits while the disk does not work.

From the callers to the disk: ``journal`` is what the exporter calls, ``queue`` has what waits,
``shared`` hands it to the thread of ``writer``, ``file`` is the file of that thread, ``opening``
and ``lock`` open and lock it, ``store`` and ``inbox_tables`` have its rows, ``schema`` its tables.
Commands begin at ``access``.

Must not decide anything about events. Used by service, polling, approval, tracing, doctor and the
commands that read history.
"""
