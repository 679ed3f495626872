"""Runs the demo of ``deploy/compose/`` without containers, on 127.0.0.1."""
