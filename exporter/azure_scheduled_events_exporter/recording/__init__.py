"""Recordings of what the metadata service sent: a file to play in the simulator, and its redaction.

Pure: texts and times are arguments. Must not depend on the journal, which stores documents, or the
simulator, which plays them.
"""
