"""Split models by devices that are drawn, and verify every split in the runtime of its format.

    python -m tools.measure.splits FOLDER_OR_MODEL... --seed 1 --maps 2 [--list]

Two kinds of maps take turns: devices by operator code, and by blocks of neighbouring operators. The table counts what
became of the splits. Where a model is refused since operators share a variable, what the reason names is looked up
again in the model, operator by operator.
"""

import argparse
import importlib
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from circletools.affinity.partitioning import partitioned
from circletools.affinity.read import Affinity
from circletools.affinity.store import annotate
from circletools.affinity.tables import SubgraphAffinity
from circletools.affinity.units import make_units
from circletools.edit.edit import ModelEdit
from circletools.errors import CircleToolsError, EditError
from circletools.graph.build import graph_of
from circletools.model.model import Model, open_model
from circletools.parts.split import split
from circletools.parts.verify import verify_split
from circletools.storage.discover import models_below

_NAMES = {0: "one", 1: "two"}
_USED = re.compile(r"is used by operator (\d+) on (\w+) and by operator (\d+) on (\w+)")
_BETWEEN = re.compile(r"between the operators on (\w+) that use .* is operator (\d+) on (\w+)")
_EQUAL = {"LAYOUT_CHANGES_VALUES": "values depend on the file's layout", "SOURCE_NOT_RUN": "files alone"}
_SECONDS = 120.0


def drawn(model: Model, kind: str, random: Random) -> dict[int, list[int]]:
    """Return a device number for each operator, by subgraph."""
    found = {}
    for index, subgraph in enumerate(model.subgraphs):
        codes, count = subgraph.code_indices(), len(subgraph.operators)
        if kind == "codes":
            device = {code: random.randrange(2) for code in sorted(set(codes))}
            found[index] = [device[code] for code in codes]
        else:
            size, first = random.randint(1, max(1, count // 2)), random.randrange(2)
            found[index] = [(operator // size + first) % 2 for operator in range(count)]
    return found


def outcome(path: Path, kind: str, seed: int) -> str:
    """Return in words what became of a split."""
    with TemporaryDirectory() as name, open_model(path) as model:
        source, folder = Path(name) / path.name, Path(name) / "parts"
        numbers = drawn(model, kind, Random(f"{seed} {kind} {path.name}"))  # noqa: S311
        subgraphs = {}
        for index, row in numbers.items():
            if row:
                made = partitioned(make_units(graph_of(model, index)), row, "min")
                subgraphs[index] = SubgraphAffinity(*np.array([made.numbers, made.partition_of()], np.uint32))
                numbers[index] = list(made.numbers)
        with ModelEdit(model) as edit:
            annotate(edit, Affinity(_NAMES, subgraphs))
            edit.save(source)
        try:
            with open_model(source) as annotated:
                done = split(annotated, folder)
        except EditError as error:
            return f"refused, {truth(model, numbers[0], error.message)}: {error.message}"
        found = verify_split(folder, seed=seed, timeout_s=_SECONDS).findings
        codes = [finding for finding in found if finding.code != "NO_MANIFEST"]
        wrong = next((finding for finding in codes if finding.severity == "error"), None)
        if wrong is not None:
            return f"WRONG: {wrong.code}: {wrong.message}"
        for finding in codes:
            if finding.code in _EQUAL:
                return f"{_EQUAL[finding.code]}: {finding.message}"
        return "equal bits" if len(done.plan.parts) > 1 else "equal bits, one part"


def truth(model: Model, devices: Sequence[int], message: str) -> str:
    """Say whether operators are where the reason for a refusal says; what else it says is for the reader."""
    names = [_NAMES[device] for device in devices]
    if used := _USED.search(message):
        one, here, other, there = int(used[1]), used[2], int(used[3]), used[4]
        shared = _held(model, one) & _held(model, other)
        return "true" if shared and here != there and (names[one], names[other]) == (here, there) else "NOT TRUE"
    if between := _BETWEEN.search(message):
        return "true" if names[int(between[2])] == between[3] != between[1] else "NOT TRUE"
    return "to be read"


def _held(model: Model, operator: int) -> set[str]:
    """Return what an operator names: tensors that keep their values, and the options of who made its resources."""
    view = model.subgraphs[0]
    facts = graph_of(model, 0)
    found = set()
    for tensor in (*view.operators[operator].inputs, *view.operators[operator].outputs):
        if tensor >= 0 and facts.values.is_variable[tensor]:
            found.add(f"tensor {tensor}")
        elif tensor >= 0 and facts.is_handle[tensor] and facts.producer[tensor] >= 0:
            found.add(_named(model, int(facts.producer[tensor])))
    return found or {"what is called"}


def _named(model: Model, operator: int) -> str:
    """Return what an operator names, by the published object API."""
    schema: Any = importlib.import_module("ai_edge_litert.schema_py_generated")
    whole = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(bytes(model.source.memory), 0))
    return repr(vars(whole.subgraphs[0].operators[operator].builtinOptions))


def models_of(names: Sequence[str]) -> Iterator[Path]:
    """Yield the models that are named, and those in folders."""
    for name in names:
        yield from (Path(name) / below for below in models_below(name)) if Path(name).is_dir() else [Path(name)]


def main(arguments: Sequence[str]) -> int:
    """Print the table; the status is 1 where a split is wrong or a reason is not true."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--maps", type=int, default=2, help="how many maps for each model")
    parser.add_argument("--list", action="store_true", help="also a line for each split")
    given = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    for path in models_of(given.models):
        for number in range(given.maps):
            kind = ("codes", "blocks")[number % 2]
            try:
                found = outcome(path, kind, given.seed + number // 2)
            except CircleToolsError as error:
                found = f"not read: {error}"
            if given.list:
                sys.stdout.write(f"{path.name} {kind}: {found[:300]}\n")
                sys.stdout.flush()
            counts[found.partition(":")[0]] += 1
    for words, count in counts.most_common():
        sys.stdout.write(f"{count:6} {words}\n")
    return int(any("WRONG" in words or "NOT TRUE" in words for words in counts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
