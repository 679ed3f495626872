"""Where the repository, the tests, their data and the installed tools lie."""

from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
DATA = TESTS / "data"
GUARD = TESTS / "support" / "guard"
"""Holds a sitecustomize that refuses connections to the metadata address, for PYTHONPATH of
programs under test.
"""
PAYLOADS = DATA / "payloads"
TOOLS = ROOT / ".tools" / "usr" / "bin"
