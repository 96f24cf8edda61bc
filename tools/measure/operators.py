"""Ask LiteRT which versions of each operator it has, and how many inputs and outputs its kernels accept.

    python -m tools.measure.operators > schema/litert.json

Each operator is put into a separate model. Versions: whether LiteRT has a kernel for it. Counts and types: whether
the error on allocating tensors concerns these; the tensors do not suit most operators, so other errors are expected.
An operator that LiteRT lacks, or that crashes LiteRT, is left out.
"""

import importlib
import importlib.metadata
import json
import re
from collections.abc import Iterable
from itertools import product
from typing import Any

from circletools.flatbuf.schema import schema_document
from tests.kit.build import CODES, Build, Code
from tools.measure.isolation import CRASH, answers

_VERSIONS = 20
_INPUTS, _OUTPUTS = 27, 7
_COUNTS = re.compile(
    r"NumInputs|NumOutputs|inputs->size|outputs->size|num_inputs|num_outputs|expects \d+ or|Invalid tensor index"
)
_MISSING = "Didn't find op for builtin opcode"
_TYPE = re.compile(r"->type|type [!=]=|[Tt]ype \S+ (is )?not|[Uu]nsupported|not supported")
_BY_OPTIONS = {"LSTM", "WHILE", "SPLIT", "SPLIT_V", "UNPACK", "FULLY_CONNECTED", "DYNAMIC_UPDATE_SLICE"}
"""Operators whose options determine the number of inputs or outputs, or that LiteRT counts last."""
TYPES = {
    "f": "FLOAT32", "h": "FLOAT16", "i": "INT32", "l": "INT64", "u": "UINT8", "b": "INT8", "s": "INT16", "o": "BOOL",
    "t": "STRING",
}  # fmt: skip
_TYPED = 3  # with more required inputs, there are too many combinations to try
Case = tuple[str, int, int, str]


def answer(case: Case) -> str:
    """Return LiteRT's message about an operator: `case` holds name, version, number of inputs, and all types."""
    module = importlib.import_module("ai_edge_litert.interpreter")
    name, version, inputs, types = case
    build = Build()
    graph = build.graph()
    tensors = [graph.tensor(f"t{index}", (1, 2, 2, 1), TYPES[one]) for index, one in enumerate(types)]
    graph.operator(Code(name, version), tensors[:inputs], tensors[inputs:])
    graph.ends(tensors[:inputs], tensors[inputs:])
    resolver = module.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    try:
        interpreter = module.Interpreter(
            model_content=build.to_bytes(), num_threads=1, experimental_op_resolver_type=resolver
        )
        interpreter.allocate_tensors()
    except Exception as error:  # the binding raises errors of many classes
        return str(error)
    return "ok"


def ask(cases: list[Case]) -> list[str]:
    """Return LiteRT's message about each case."""
    return answers(cases, answer, lambda: importlib.import_module("ai_edge_litert.interpreter"), 2.0)


def _span(counts: Iterable[int], most: int) -> list[int | None] | None:
    """Return the minimum and maximum of these counts; the maximum is None if even the largest one is accepted."""
    found = sorted(counts)
    return [found[0], None if found[-1] == most else found[-1]] if found else None


def _types(table: dict[str, dict[str, Any]]) -> None:
    """Add the combinations of types that LiteRT accepts for the required inputs and the output of each operator."""
    cases = [
        (name, row["versions"][0], row["inputs"][0], "".join(types))
        for name, row in table.items()
        if row["inputs"] and row["outputs"] == [1, 1] and 0 < row["inputs"][0] < _TYPED
        for types in product(TYPES, repeat=row["inputs"][0] + 1)
    ]
    taken: dict[str, list[str]] = {}
    refused = set()
    for (name, _, _, types), words in zip(cases, ask(cases), strict=True):
        if words != CRASH and _TYPE.search(words) and "quantization" not in words:
            refused.add(name)
        else:
            taken.setdefault(name, []).append(types)
    for name in refused & taken.keys():
        table[name]["types"] = " ".join(taken[name])


def main() -> None:
    """Print the table."""
    names = [name for name in CODES if name not in ("CUSTOM", "DELEGATE")]
    cases = [(name, version, 1, "ff") for name in names for version in range(1, _VERSIONS + 1)]
    versions: dict[str, list[int]] = {}
    for (name, version, _, _), words in zip(cases, ask(cases), strict=True):
        if _MISSING not in words and words != CRASH:
            versions.setdefault(name, []).append(version)
    table: dict[str, dict[str, Any]] = {}
    for name, known in versions.items():
        pairs = list(product(range(_INPUTS + 1), range(_OUTPUTS + 1)))
        counted = [(name, known[0], inputs, "f" * (inputs + outputs)) for inputs, outputs in pairs]
        fits = [
            pair
            for pair, words in zip(pairs, ask(counted), strict=True)
            if words != CRASH and not _COUNTS.search(words)
        ]
        table[name] = {
            "versions": [known[0], known[-1]],
            "inputs": _span({one for one, _ in fits}, _INPUTS),
            "outputs": _span({one for _, one in fits}, _OUTPUTS),
        }
    kept = schema_document("litert")  # facts found by mutants, not by these questions
    for name in _BY_OPTIONS & table.keys():
        table[name].update({side: kept["operators"][name][side] for side in ("inputs", "outputs")})
    _types(table)
    for name, row in table.items():
        row.update({key: value for key, value in kept["operators"].get(name, {}).items() if key == "needs"})
    table |= {name: row for name, row in kept["operators"].items() if name.startswith("CUSTOM:")}
    release = importlib.metadata.version("ai-edge-litert")
    found = {
        "source": f"ai-edge-litert {release}",
        "operators": table,
        "custom": kept["custom"],
        "xnnpack": kept["xnnpack"],
    }
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
