"""What a journal holds, as values in memory and as the text of a row.

``entries`` are what is written, ``remembered`` is what is known after them, ``inbox`` is what other
processes have written, ``look`` is what the exporter's other threads see of the file, and ``codec``
turns values into text. Data only: must not know SQL, a file or a thread.
"""
