"""Builds the single-file archive and the .deb of a version, for amd64 and arm64.

Both hold the pinned libraries as their projects publish them. The same wheel and requirements make
the same bytes, whichever Python and processor build them.
"""
