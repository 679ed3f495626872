"""HTTP/1.1 with deadlines, TLS and basic authentication, on h11 and asyncio.

Must not depend on events, metrics or pages: paths and handlers are arguments. Used by ``service``; others may use the
listen address and the web configuration's check.
"""
