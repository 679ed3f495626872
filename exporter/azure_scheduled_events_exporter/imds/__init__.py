"""The client of the Azure Instance Metadata Service: its address, one request at a time, within its rate limit.

Must not decide what an answer means for an event. Used by ``service``, ``doctor`` and the commands;
polling and approval get a client as an argument.
"""
