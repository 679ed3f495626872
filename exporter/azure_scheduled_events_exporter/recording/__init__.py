"""Recordings of what the metadata service sent: the form of the file, and its redaction.

Pure: texts and times are arguments. Must not depend on the journal, which stores documents, or the
simulator, which plays them.
"""
