"""Runs the demo of ``deploy/compose/`` without containers: the same programs, commands and files on 127.0.0.1."""
