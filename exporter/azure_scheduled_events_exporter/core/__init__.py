"""Parses the documents of IMDS and derives the transitions of each event.

Pure: no module here uses a clock, disk, network, log or metric library. Every other package may
import this one, and this one imports none of them.
"""
