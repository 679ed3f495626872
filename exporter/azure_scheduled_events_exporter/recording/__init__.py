"""Recordings of what the metadata service sent: a file to play in the simulator, and its redaction.

Pure: texts and times are handed in. It does not know the journal that keeps the documents, nor the simulator that
plays them.
"""
