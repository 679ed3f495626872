"""HTTP/1.1 with deadlines, TLS and users, on h11 and asyncio.

Knows paths and handlers, nothing of events.
"""
