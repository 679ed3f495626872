"""What a body of IMDS says, and what it means for the life of an event.

Pure: no module here knows a clock, disk, network, log or metric library. Every other package may use
it; it imports none of them.
"""
