"""HTTP/1.1 with TLS and users: uvicorn, and the limits that it lacks.

Must not depend on events, metrics or pages: paths and handlers are arguments.
"""
