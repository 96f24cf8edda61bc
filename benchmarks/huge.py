"""Run all commands on models beyond 2 GiB; measure time and memory outside the mapping, and check the contents.

`python -m benchmarks.huge [--cache FOLDER] [--only TEXT]`

Every output is compared with the initial model by independent readers: the published accessors (`tflite`,
`circle-schema`) locate external data, whose bytes are compared, and LiteRT runs the TFLite models.
"""

import argparse
import importlib
import mmap
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.huge_models import HUGE_BYTES, huge, lookups
from benchmarks.process import ROOT, Run, run

TARGET_MB = 100
COLUMNS = ("model", "command", "s", "private MB", "file bytes", "contents", "met?")
_AFFINITY = ("--devices", "npu,cpu", "--set", "op:GATHER=npu", "--default", "cpu")
_STEPS = (
    ("embed-origins", ()),
    ("annotate-affinity", _AFFINITY),
    ("fix-outputs", ()),
    ("check", ("--structure-only",)),
    ("inspect", ()),
    ("dump-origins", ()),
    ("metadata remove", ("--origins", "--affinity")),
    ("compact", ()),
)
_READING = {"check", "inspect", "dump-origins"}
_COMPARED_AT_ONCE = 1 << 24


@dataclass(frozen=True)
class Row:
    """A command on a model. `contents` describes the differences from the initial model."""

    model: str
    command: str
    run: Run
    size: int
    contents: str

    def met(self) -> bool:
        """Return whether the command succeeded within the memory limit."""
        return not self.run.failure and self.contents == "same" and self.peak_mb() <= TARGET_MB

    def peak_mb(self) -> float:
        """Return the highest private memory in MB."""
        return self.run.peak_kb * 1024 / 1e6

    def cells(self) -> tuple[str, ...]:
        """Return the row as text."""
        seconds = self.run.failure or f"{self.run.cpu:.2f}"
        met = "yes" if self.met() else "NO"
        return self.model, self.command, seconds, f"{self.peak_mb():.0f}", f"{self.size:,}", self.contents, met


class _Mapped:
    """A memory-mapped file."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self.bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __enter__(self) -> mmap.mmap:
        return self.bytes

    def __exit__(self, *_: object) -> None:
        self.bytes.close()


def external(data: mmap.mmap) -> Iterator[tuple[str, int, int]]:
    """Yield the name, position and size of all external data, according to the published accessors."""
    circle = data[4:8] == b"CIR0"
    published = importlib.import_module("circle_schema").circle.Model if circle else importlib.import_module("tflite")
    model: Any = published.Model.GetRootAs(data, 0)
    for index in range(model.BuffersLength()):
        if model.Buffers(index).Offset() > 1:
            yield f"buffers[{index}]", model.Buffers(index).Offset(), model.Buffers(index).Size()
    graph = model.Subgraphs(0)
    for index in range(graph.OperatorsLength()):
        operator = graph.Operators(index)
        if operator.LargeCustomOptionsOffset() > 1:
            place = operator.LargeCustomOptionsOffset(), operator.LargeCustomOptionsSize()
            yield f"operators[{index}]", *place


def compared(before: Path, after: Path) -> str:
    """Return `same`, or the first difference between the external data of two files."""
    with _Mapped(before) as old, _Mapped(after) as new:
        first, second = list(external(old)), list(external(new))
        if not first or [(name, size) for name, _, size in first] != [(name, size) for name, _, size in second]:
            return "other ranges"
        for (name, one, size), (_, two, _) in zip(first, second, strict=True):
            for start in range(0, size, _COMPARED_AT_ONCE):
                end = min(start + _COMPARED_AT_ONCE, size)
                if old[one + start : one + end] != new[two + start : two + end]:
                    return f"{name} differs"
    return "same"


def litert(path: Path, size_bytes: int) -> list[bytes]:
    """Run a model in LiteRT, in a separate process; return its outputs, of which edits preserve the first five."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.huge", "--run", path, "--bytes", str(size_bytes)],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    return [bytes.fromhex(line) for line in done.stdout.decode().split()]


def _run_in_litert(path: Path, size_bytes: int) -> None:
    import numpy as np  # noqa: PLC0415
    from ai_edge_litert.interpreter import Interpreter  # noqa: PLC0415

    interpreter = Interpreter(model_path=str(path), num_threads=1)
    interpreter.allocate_tensors()
    ids, sound = interpreter.get_input_details()
    interpreter.set_tensor(ids["index"], lookups(size_bytes))
    interpreter.set_tensor(sound["index"], np.linspace(0, 1, 20, dtype=np.float32).reshape(20, 1))
    interpreter.invoke()
    for detail in interpreter.get_output_details():
        print(interpreter.get_tensor(detail["index"]).tobytes().hex())


def measure(folder: Path, size_bytes: int, *, circle: bool, sparse: bool) -> Iterator[Row]:
    """Make a model and run all commands on it; the output of one command is the input of the next."""
    tool = Path(sysconfig.get_path("scripts")) / "circletool"
    suffix = ".circle" if circle else ".tflite"
    title = f"{suffix[1:]}, {'sparse' if sparse else 'full'}"
    first = folder / f"first{suffix}"
    huge(first, size_bytes, circle=circle, sparse=sparse)
    values = [] if circle else litert(first, size_bytes)
    source = first
    for command, options in _STEPS:
        reads = command in _READING
        output = source if reads else folder / f"{command}{suffix}"
        os.sync()  # so that this command does not wait for the writes of others
        done = run([str(tool), command, str(source), *([] if reads else [str(output)]), *options])
        contents = "none" if done.failure else compared(first, output)
        if contents == "same" and values and litert(output, size_bytes) != values:
            contents = "LiteRT's values differ"
        yield Row(title, command, done, output.stat().st_size, contents)
        if source not in (output, first):
            source.unlink()
        source = output
    for path in {source, first}:
        path.unlink()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the results, and return 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="benchmarks.huge", description=__doc__)
    parser.add_argument("--bytes", dest="size", type=int, default=HUGE_BYTES)
    parser.add_argument("--cache", type=Path, help="where to work; an empty folder on a disk unless given")
    parser.add_argument("--only", default="", help="models whose title has this text")
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.run is not None:
        _run_in_litert(options.run, options.size)
        return 0
    with tempfile.TemporaryDirectory(dir=options.cache) as name:
        free = shutil.disk_usage(name).free
        if free < 4 * options.size:
            print(f"{name}: {free:,} bytes are free, {4 * options.size:,} are needed", file=sys.stderr)
            return 2
        rows = []
        print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
        for circle in (False, True):
            for sparse in (True, False):
                if options.only in f"{'circle' if circle else 'tflite'}, {'sparse' if sparse else 'full'}":
                    for row in measure(Path(name), options.size, circle=circle, sparse=sparse):
                        print("| " + " | ".join(row.cells()) + " |", flush=True)
                        rows.append(row)
    return 0 if rows and all(row.met() for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
