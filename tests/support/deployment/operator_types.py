"""The Prometheus operator's own types as JSON Schemas."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

from support.paths import DATA, ROOT

_SOURCES = DATA / "operator_types"
_COMMANDS = (
    ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"),
    (
        *("node_modules/.bin/ts-json-schema-generator", "--path", "types.ts"),
        *("--tsconfig", "tsconfig.json", "--no-type-check", "-o", "schema.json"),
    ),
)


def validator(kind: str) -> jsonschema.Draft7Validator:
    """Return what validates objects of ``kind``, and knows no further keys.

    The operator's types in TypeScript have an I before the kind.
    """
    return jsonschema.Draft7Validator({**_schemas(), "$ref": f"#/definitions/I{kind}"})


@cache
def _schemas() -> dict[str, Any]:
    """Return the schemas of ``types.ts``; they are kept below .tools/."""
    sources = b"".join(path.read_bytes() for path in sorted(_SOURCES.iterdir()))
    name = f"operator-types-{hashlib.sha256(sources).hexdigest()[:16]}.json"
    kept = ROOT / ".tools" / name
    if not kept.exists():
        _generate(kept)
    schemas: dict[str, Any] = json.loads(kept.read_text())
    return schemas


def _generate(kept: Path) -> None:
    # Node.js and npm are among the pinned development requirements.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "types"
        shutil.copytree(_SOURCES, folder)
        for command in _COMMANDS:
            done = subprocess.run(
                command,
                cwd=folder,
                env=os.environ | {"PATH": path},
                capture_output=True,
                text=True,
                check=False,
                timeout=150,
            )
            assert done.returncode == 0, done.stderr
        kept.parent.mkdir(exist_ok=True)
        new = kept.with_suffix(f".{os.getpid()}")  # another process may do the same
        shutil.copyfile(folder / "schema.json", new)
        new.replace(kept)
