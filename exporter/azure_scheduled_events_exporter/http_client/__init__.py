"""HTTP clients with requests: credentials, certificates, deadlines, why a request failed.

Must not know which server is asked, or what its answer means. Used by everything that sends
requests.
"""
