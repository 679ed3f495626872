"""The command line: one module for each command.

``cli`` has the table of commands. A command that needs several modules is a package (``approve``,
``hook``, ``drill``). ``settings``, ``table``, ``waiting`` and ``interruption`` are what several
commands share, and ``follow`` is a part of ``events``.

Parses, calls, prints; must not decide anything about events.
"""
