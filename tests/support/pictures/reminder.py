"""``python -m support.pictures.reminder`` names the pictures that are older than what they show.

``make check`` runs it. It draws nothing, needs no browser, and never fails.
"""

import sys

from support.pictures.catalog import outdated


def main() -> int:
    """Write a line for each picture that is too old."""
    for name in outdated():
        sys.stderr.write(f"docs/images/{name}.png is older than what it shows: run make pictures\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
