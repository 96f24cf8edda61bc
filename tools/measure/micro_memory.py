"""Measure the structures that TensorFlow Lite Micro keeps in its arena's tail (circletools/cost/micro.json).

    python -m tools.measure.micro_memory

Each operator in the templates of the capability tables is put into one model once, and into another nine times; an
eighth of the difference, without tensors, nodes and shape-dependent data, is the memory of its kernel. One form is
measured for each operator code and output type.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import circletools as ct
from circletools.cost.micro import Slots, ends_bytes, more_bytes
from circletools.graph.build import graph_of
from tests.kit.build import Build, Code
from tools.measure.capabilities import all_templates
from tools.measure.capability.single import Probe, Writer
from tools.measure.isolation import CRASH, answers

TABLE = Path(__file__).parents[2] / "circletools" / "cost" / "micro.json"
COPIES = 9
MOST = 3
"""The maximum number of forms of an operator code and output type that are tried until one is accepted."""
TENSOR, NODE, END, AFFINE = 24, 64, 64, 24
"""sizeof TfLiteEvalTensor, NodeAndRegistration, TfLiteTensor, TfLiteAffineQuantization; pointers have 64 bits."""


def main() -> None:
    """Measure and write the table."""
    _runtime()  # imported here, so that forked processes need not import it
    probes = list(chosen())
    models = [repeated(probe, count) for probe in probes for count in (1, COPIES)]
    single, several = (int(one) for one in answers([empty(1), empty(COPIES)], tail, dict, 10))
    tails = [int(one) if one.isdigit() else None for one in answers(models, tail, dict, 10)]
    found: dict[str, dict[str, int]] = defaultdict(dict)
    rests = []
    for probe, once, often in zip(probes, tails[::2], tails[1::2], strict=True):
        if once is not None and often is not None:
            graph = graph_of(ct.open(probe.model), 0)
            each = (often - once) / (COPIES - 1) - TENSOR * len(probe.outputs) - NODE
            size = each - more_bytes(probe.code, Slots(graph, 0))
            found[probe.code].setdefault(probe.outputs[0].element, round(size))
            if not graph.values.tables.child("quantization", graph.values.model.schema)[1].size:
                rests.append(once - TENSOR * len(graph.values) - NODE - ends_bytes(graph) - each)
    table: dict[str, Any] = {
        "model": Counter(rests).most_common(1)[0][0],
        "subgraph": (several - single) / (COPIES - 1),
    }
    table = {name: round(size) for name, size in table.items()}
    table |= {"tensor": TENSOR, "node": NODE, "end": END, "affine": AFFINE}
    operators = {code: condensed(rows) for code, rows in sorted(found.items())}
    TABLE.write_text(json.dumps(table | {"operators": operators}, indent=1) + "\n")


def condensed(rows: Mapping[str, int]) -> int | dict[str, int]:
    """Return the bytes for most output types, and for the types that differ."""
    most = Counter(rows.values()).most_common(1)[0][0]
    others = {kind: size for kind, size in rows.items() if size != most}
    return {"*": most} | others if others else most


def chosen() -> Iterator[Probe]:
    """Yield the forms to measure."""
    for template in all_templates():
        asked: Counter[str] = Counter()
        for bases in template.bases_of():
            kind = bases[-1].outputs[0].element
            asked[kind] += 1
            if asked[kind] <= MOST:
                yield bases[-1]


def empty(count: int) -> bytes:
    """Return a model with empty subgraphs."""
    build = Build()
    for _ in range(count):
        build.graph()
    return build.to_bytes()


def repeated(probe: Probe, count: int) -> bytes:
    """Return a model that computes the same form `count` times from the same inputs."""
    writer = Writer()
    inputs = [writer.operand(operand) for operand in probe.inputs]
    ends: list[int] = []
    for _ in range(count):
        outputs = [writer.operand(operand) for operand in probe.outputs]
        ends = ends or outputs
        writer.operator(Code(probe.code, probe.version), inputs, outputs, (probe.table, probe.options))
    computed = [index for index, operand in zip(inputs, probe.inputs, strict=True) if operand.kind == "computed"]
    return writer.ends(computed, ends)


def _runtime() -> Any:
    # Imported here, because no process may load two runtimes.
    return importlib.import_module("tflite_micro.python.tflite_micro.runtime")


def tail(model: bytes) -> str:
    """Return the bytes of the arena's tail, as the recording allocator prints them."""
    with tempfile.TemporaryFile() as file:
        saved = [os.dup(1), os.dup(2)]
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            _runtime().Interpreter.from_bytes(model, arena_size=1 << 18).print_allocations()
        except RuntimeError:
            return "refused"
        finally:
            for number, old in enumerate(saved, 1):
                os.dup2(old, number)
                os.close(old)
        file.seek(0)
        found = re.search(rb"tail (\d+) bytes", file.read())
    return found[1].decode() if found else CRASH


if __name__ == "__main__":
    main()
