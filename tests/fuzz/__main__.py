"""``scripts/fuzz``: all targets, or some, for so many seconds together; what fails is shown and kept."""

import argparse
import sys
from pathlib import Path

from fuzz import campaign, registry
from support.paths import ROOT


def main() -> int:
    """Run the targets of the command line; return 1 if any promise was broken."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(registry.NAMES)} (default: all)")
    parser.add_argument("--seconds", type=float, default=300, help="all targets together (default 300)")
    parser.add_argument("--seed", type=int, default=1, help="of all chance (default 1)")
    parser.add_argument("--folder", type=Path, default=ROOT / ".fuzz", help="for inputs found (default .fuzz)")
    parser.add_argument(
        "--repeat", type=Path, metavar="FILE", help="try this one input on one TARGET, and nothing else"
    )
    arguments = parser.parse_args()
    names = arguments.targets or list(registry.NAMES)
    for name in names:
        if name not in registry.NAMES:
            parser.error(f"{name!r} is no target: they are {', '.join(registry.NAMES)}")
    if arguments.repeat:
        if len(arguments.targets) != 1:
            parser.error("--repeat needs one TARGET to try the file on")
        registry.target(names[0]).check(arguments.repeat.read_bytes())
        print(f"{names[0]}: the promise holds")  # noqa: T201 - what a command prints is what it is for
        return 0
    ok = True
    for name in names:
        result = campaign.fuzz(name, arguments.seconds / len(names), arguments.seed, arguments.folder)
        print(result, flush=True)  # noqa: T201 - the same
        ok = ok and result.ok
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
