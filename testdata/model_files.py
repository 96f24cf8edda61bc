"""What the generator scripts of this folder share: writing models, or checking the committed ones.

This is no script. Each generator calls `main` with its folder and a table of functions, each of which
returns the bytes of one model. Each function runs in a process of its own: converters number what they
make, so that a model would otherwise depend on the models made before it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
SIZE_LIMIT = 100_000

Make = Callable[[], bytes]
Models = dict[str, Make]


def main(description: str | None, folder: str, suffix: str, models: Models) -> int:
    """Write every model (or those named on the command line); `--check` only compares with the files."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="models to make, without the suffix (default: all)")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file would change")
    parser.add_argument("--out", type=Path, default=HERE / folder, help="folder to write to")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(models))
    if unknown:
        parser.error(f"unknown model: {', '.join(unknown)} (known: {', '.join(models)})")
    options.out.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in options.names or models:
        path = options.out / (name + suffix)
        child = multiprocessing.get_context("fork").Process(target=_put, args=(path, models[name], options.check))
        child.start()
        child.join()
        if child.exitcode:
            failed.append(path.name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _put(path: Path, make: Make, check: bool) -> None:
    data = make()
    if len(data) > SIZE_LIMIT:
        raise ValueError(f"{path.name} has {len(data)} bytes, more than {SIZE_LIMIT}")
    same = path.exists() and path.read_bytes() == data
    if not (same or check):
        path.write_bytes(data)
    state = "unchanged" if same else "DIFFERS" if check else "written"
    print(f"{len(data):7d}  {state:9s}  {path.name}", flush=True)
    if check and not same:
        sys.exit(1)
