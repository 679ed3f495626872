"""The wire to the Azure Instance Metadata Service: where it is, one request at a time, never over its limit.

Knows nothing of what an answer means for an event.
"""
