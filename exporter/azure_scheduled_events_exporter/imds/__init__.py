"""The client of Azure's Instance Metadata Service: address, requests, rate limit, refusals.

Must not decide what an answer means for an event. Used by ``service``, ``doctor`` and the commands;
polling and approval get a client as an argument.
"""
