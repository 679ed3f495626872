"""What the table of alerts is written as, a module for each format.

Must not decide when an alert fires.
"""
