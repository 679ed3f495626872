"""HTTP clients with the requests library: credentials and certificates, deadlines, and why a request failed.

Must not know which server is asked, or what its answer means. Used by everything that sends
requests.
"""
