"""Run models with aliased outputs before and after `fix-outputs`, with each copy operator.

    python -m tools.measure.copying.context FOLDER... [--double] [--programs onert,litert,vela]

The models are those of `testdata/generate_modules.py`, or any others; with `--double`, all outputs are listed twice,
followed by the first input. For each program and copy operator (`auto` is the choice of `fix-outputs`), the table
counts the models that the program accepted before, and still accepts afterwards with the same output bytes. The
models that fail this test follow, with the program's message.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from circletools import runtimes
from circletools.edit.edit import ModelEdit
from circletools.errors import CircleToolsError
from circletools.model.model import open_model
from circletools.outputs.copyops import CopyChoice
from circletools.outputs.fixing import FixOptions, behavior, copy_outputs

CHOICES: tuple[CopyChoice, ...] = ("auto", "reshape", "transpose", "concatenation")


def prepared(path: Path, target: Path, double: bool) -> bool:
    """Copy a model, with doubled outputs if requested; return whether there is anything to fix."""
    with open_model(path) as model, ModelEdit(model) as edit:
        if double:
            graph = model.subgraphs[0]
            outputs, inputs = graph.outputs.tolist(), graph.inputs.tolist()
            edit.set_outputs(0, [*outputs, *outputs, *inputs[:1]])
        edit.save(target)
    with open_model(target) as model, ModelEdit(model) as edit:
        return bool(copy_outputs(edit, FixOptions()).changes)


def trials(before: Path, after: Path, worker: runtimes.Worker) -> Iterator[tuple[CopyChoice, str]]:
    """Yield, for each copy operator, the program's objection to the result; nothing if it refused the original."""
    failure, was = behavior(worker, before)
    for choice in CHOICES if not failure else ():
        try:
            with open_model(before) as model, ModelEdit(model) as edit:
                copy_outputs(edit, FixOptions(copy_operator=choice))
                edit.save(after)
        except CircleToolsError as error:
            yield choice, f"not written: {error}"
            continue
        reason, now = behavior(worker, after)
        yield choice, reason or ("the outputs differ" if was != now else "")


def main() -> None:
    """Print the table and the failures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--double", action="store_true")
    parser.add_argument("--programs", default="onert,litert")
    options = parser.parse_args()
    paths = sorted(
        path for folder in options.folders for path in folder.rglob("*") if path.suffix in (".tflite", ".circle")
    )
    with TemporaryDirectory() as name:
        for program in options.programs.split(","):
            taken: Counter[str] = Counter()
            same: Counter[str] = Counter()
            wrong = []
            with runtimes.Worker(program) as worker:
                for path in paths:
                    before, after = (Path(name) / f"{which}{path.suffix}" for which in ("before", "after"))
                    if prepared(path, before, options.double):
                        for choice, words in trials(before, after, worker):
                            taken[choice] += 1
                            same[choice] += not words
                            wrong += [f"{path.name}, {choice}: {' '.join(words.split())[:150]}"] if words else []
            print(program, ", ".join(f"{choice} {same[choice]} of {taken[choice]}" for choice in CHOICES))
            print(*wrong, sep="\n")


if __name__ == "__main__":
    main()
