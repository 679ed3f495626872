"""The files of a journal: where they are, whose they are, and how they are locked and opened.

``file`` is the database as its exporter uses it. It takes the ``lock``, opens the database
(``opening``), and renames one that cannot be used (``set_aside``). ``location`` finds it,
``folder_owner`` keeps root from writing to the files of others, ``failures`` tells damage from a
disk that may recover, and ``documents`` are the bodies of IMDS beside the database.

Must not read or write rows (``journal.tables``), or know the queue and the thread
(``journal.thread``).
"""
