"""What the tests of outputs share: small models with outputs of every kind, and what a fix must leave behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from circletools.check import check
from circletools.edit.edit import ModelEdit
from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.model.model import open_model
from circletools.origin.embed import follow
from circletools.outputs.analysis import choose_subgraphs
from circletools.outputs.fixing import fix_outputs
from tests.kit.build import Build, Graph
from tests.kit.oracles import Outcome, is_deterministic, run_litert, run_onert, same_behavior
from tests.kit.presence import have, need
from tests.kit.support import published_names, read, with_root

_COPY_OPERATORS = {"TRANSPOSE", "RESHAPE", "CONCATENATION"}

Table = dict[str, Any]

both_formats = pytest.mark.parametrize("kind", ["tflite", "circle"])


def with_outputs(outputs: Callable[[Graph], list[int]]) -> bytes:
    """Return a model with one input, one operator and these outputs."""
    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    graph.compute("NEG", [x], "negative")
    graph.ends([x], outputs(graph))
    return build.to_bytes("circle")


# --- fixing -------------------------------------------------------------------------------------------------


def fixed(data: bytes, subgraph: str = "entry", **options: Any) -> bytes:
    """Return the model as `fix-outputs` writes it; `options` are those of `fix_outputs`."""
    return fixed_with_changes(data, subgraph, **options)[0]


def fixed_with_changes(data: bytes, subgraph: str = "entry", **options: Any) -> tuple[bytes, tuple[str, ...]]:
    """Return the model as `fix-outputs` writes it, and the reported changes."""
    with open_model(data) as model:
        edit: ModelEdit = ModelEdit(model)
        follow(edit)
        result = fix_outputs(edit, choose_subgraphs(model_graph(model), subgraph), **options)
        return edit.to_bytes(), result.changes


def findings_of(data: bytes, *programs: str) -> list[Finding]:
    """Return all findings about a model that these programs should run."""
    with open_model(data) as model:
        return check(model, for_=programs)


def telling(data: bytes) -> list[Finding]:
    """Return the findings that make `check` fail, but those about taps, which a fix leaves unless it is asked."""
    return [one for one in findings_of(data) if one.severity != "info" and one.code != "OUTPUT_TAP"]


# --- what a fix must leave behind ---------------------------------------------------------------------------


def entries_of(model: Table) -> list[int]:
    """Return the subgraphs that a user calls."""
    named = {signature["subgraphIndex"] for signature in model["signatureDefs"] or ()}
    return [index for index in range(len(model["subgraphs"])) if index == 0 or index in named]


def aliased_slots(
    model: Table, subgraph: int, *, keep_constants: bool = False, detach_taps: bool = False, copies: bool = True
) -> list[tuple[str, int]]:
    """Return kind and slot of each output to copy: by the rules, from what an independent reader sees.

    With `copies`, detaching also copies the first of equal outputs, which the copies of the others would read; where
    a user sees what IF or WHILE computed, that is done without being asked. So are outputs of a Circle model whose
    last reader precedes a copy, but preceded no other operator.
    """
    graph = model["subgraphs"][subgraph]
    inputs = list(graph["inputs"] if graph["inputs"] is not None else ())
    outputs = list(graph["outputs"] if graph["outputs"] is not None else ())
    computed = {tensor for operator in graph["operators"] or () for tensor in vector(operator["outputs"])}
    read_by = {tensor for operator in graph["operators"] or () for tensor in vector(operator["inputs"])}
    loose = {
        tensor
        for operator in graph["operators"] or ()
        if subgraph in entries_of(model) and code_name(model, operator) in ("IF", "WHILE")
        for tensor in vector(operator["outputs"])
    }
    repeated = {tensor for tensor in outputs if copies and outputs.count(tensor) > 1}
    tapped = read_by | repeated if detach_taps else repeated & loose
    found: dict[int, str] = {}
    for slot, tensor in enumerate(outputs):
        sourceless = tensor not in computed and tensor not in inputs and not graph["tensors"][tensor]["isVariable"]
        constant = sourceless and holds_data(model, graph["tensors"][tensor])
        if sourceless and not constant:
            continue  # nothing to copy
        if constant and not keep_constants:
            found[slot] = "CONSTANT_OUTPUT"
        elif tensor in inputs:
            found[slot] = "INPUT_ALIASED_OUTPUT"
        elif tensor in outputs[:slot]:
            found[slot] = "DUPLICATE_OUTPUT"
        elif tensor in tapped and not constant:
            found[slot] = "OUTPUT_TAP"
    steps = [(vector(one["inputs"]), vector(one["outputs"])) for one in graph["operators"] or ()]
    count = -1
    while subgraph == 0 and copies and "externalBuffers" not in model and count < len(found):  # a Circle model
        count = len(found)
        unsafe = _outlived([*steps, *(([outputs[slot]], list[int]()) for slot in found)]) - _outlived(steps)
        for slot, tensor in enumerate(outputs):
            if tensor in unsafe & computed:
                found.setdefault(slot, "OUTPUT_TAP")
    return [(found[slot], slot) for slot in sorted(found)]


def _outlived(steps: list[tuple[list[int], list[int]]]) -> set[int]:
    """Return the tensors that an operator reads, but not each one that may run last; steps are inputs and outputs."""
    read_by = {tensor for inputs, _ in steps for tensor in inputs}
    last = [set(inputs) for inputs, outputs in steps if not read_by.intersection(outputs)]
    return read_by - read_by.intersection(*last)


def vector(value: Any) -> list[int]:
    """Return a vector as a list; an absent one is empty."""
    return [] if value is None else list(value)


def holds_data(model: Table, tensor: Table) -> bool:
    """Say whether a tensor has data in the file, or needs none."""
    buffer = model["buffers"][tensor["buffer"]] if model["buffers"] else {"data": None, "offset": 0}
    return bool(buffer["data"] or buffer["offset"] not in (0, 1) or 0 in vector(tensor["shape"]))


def assert_fixed(
    before: bytes,
    after: bytes,
    subgraphs: Iterable[int] | None = None,
    *,
    keep_constants: bool = False,
    detach_taps: bool = False,
    metadata: bool = True,
) -> None:
    """Hold a fix to all its rules, with a reader that nobody here wrote. `metadata`: it must not change either."""
    old, new = read(before), read(after)
    chosen = set(entries_of(old) if subgraphs is None else subgraphs)
    for field in ("version", "description", *(("metadata", "metadataBuffer") if metadata else ())):
        assert new[field] == old[field], field
    for field in ("operatorCodes", "buffers") if metadata else ("operatorCodes",):
        assert (new[field] or [])[: len(old[field] or ())] == (old[field] or []), field
    assert len(new["subgraphs"]) == len(old["subgraphs"])
    for index in range(len(old["subgraphs"])):
        slots = (
            aliased_slots(old, index, keep_constants=keep_constants, detach_taps=detach_taps)
            if index in chosen
            else []
        )
        _assert_subgraph(old, new, index, [slot for _, slot in slots])
    _assert_signatures(old, new)
    codes = [(code_number(code), code["version"], code["customCode"]) for code in new["operatorCodes"] or ()]
    added = codes[len(old["operatorCodes"] or ()) :]
    assert len(set(added)) == len(added)
    assert not set(added) & set(codes[: len(codes) - len(added)])


def _assert_subgraph(old: Table, new: Table, index: int, slots: list[int]) -> None:
    """Copies stand at the end, a star around what they copy; all else is as it was."""
    was, now = old["subgraphs"][index], new["subgraphs"][index]
    if not slots:
        assert now == was
        return
    changed = ("tensors", "operators", "outputs")
    assert {key: value for key, value in now.items() if key not in changed} == {
        key: value for key, value in was.items() if key not in changed
    }
    for field in ("tensors", "operators"):
        assert (now[field] or [])[: len(was[field] or ())] == (was[field] or []), field
    outputs, expected = vector(now["outputs"]), vector(was["outputs"])
    added = now["operators"][len(was["operators"] or ()) :]
    shapes = {
        tensor: vector(operator["inputs"])
        for operator in added
        if code_name(new, operator) == "SHAPE"
        for tensor in vector(operator["outputs"])
    }
    copies, read = [operator for operator in added if code_name(new, operator) != "SHAPE"], set[int]()
    assert len(copies) == len(slots) == len(added) - len(shapes)
    for slot, copy in zip(slots, copies, strict=True):
        source, (target,) = expected[slot], vector(copy["outputs"])
        assert vector(copy["inputs"])[0] == source
        name = code_name(new, copy)
        assert name in _COPY_OPERATORS
        operands = vector(copy["inputs"])[1:]
        if name == "CONCATENATION":
            assert operands == []
        elif operands[0] in shapes:  # a scalar, or the rank is unknown
            read.add(operands[0])
            assert (name, shapes[operands[0]]) == ("RESHAPE", [source])
            assert not vector(was["tensors"][source]["shape"])
        else:
            _assert_operand(new, now, name, source, *operands)
        expected[slot] = target
        _assert_like(was["tensors"][source], now["tensors"][target])
        assert target >= len(was["tensors"])
    assert read == shapes.keys()
    assert outputs == expected
    copied = set(outputs) & {vector(copy["outputs"])[0] for copy in copies}
    assert len(copied) == len(slots)
    assert len(set(outputs) - copied) == len(outputs) - len(slots)
    old_names = {tensor["name"] for tensor in was["tensors"]}
    names = [tensor["name"] for tensor in now["tensors"][len(was["tensors"]) :]]
    assert len({*names}) == len(names)
    assert not old_names & {*names}


def code_name(model: Table, operator: Table) -> str:
    """Return the name of an operator's code; those that only Circle has are negative, and have none here."""
    number = code_number(model["operatorCodes"][operator["opcodeIndex"]])
    return str(published_names("BuiltinOperator").get(number, number))


def code_number(code: Table) -> int:
    """Return an operator code, which older files have in another field."""
    return int(max(code["builtinCode"], code["deprecatedBuiltinCode"]))


def _assert_like(source: Table, copy: Table) -> None:
    for field in ("shape", "shapeSignature", "type", "quantization", "hasRank"):
        assert copy[field] == source[field], field
    assert copy["buffer"] == 0
    assert not copy["isVariable"]
    assert copy["name"].startswith((source["name"] or b"") + b"_permute")


def _assert_operand(model: Table, graph: Table, code: str, source: int, operand: int) -> None:
    tensor, copied = graph["tensors"][operand], graph["tensors"][source]
    rank = len(vector(copied["shape"]))
    wanted = list(range(rank))
    if code == "RESHAPE":
        wanted = vector(copied["shapeSignature"]) or vector(copied["shape"])
        if wanted and min(wanted) > 0:
            wanted[0] = -1
    assert published_names("TensorType")[tensor["type"]] == "INT32"
    assert vector(tensor["shape"]) == [rank]
    data = model["buffers"][tensor["buffer"]]["data"]
    assert np.frombuffer(bytes(data or b""), "<i4").tolist() == wanted


def _assert_signatures(old: Table, new: Table) -> None:
    """The k-th name of a tensor represents its k-th slot, before and after."""
    assert len(new["signatureDefs"] or ()) == len(old["signatureDefs"] or ())
    for was, now in zip(old["signatureDefs"] or (), new["signatureDefs"] or (), strict=True):
        outputs = [vector(model["subgraphs"][was["subgraphIndex"]]["outputs"]) for model in (old, new)]
        expected, counts = [], dict[int, int]()
        for entry in was["outputs"] or ():
            tensor = entry["tensorIndex"]
            places = [slot for slot, output in enumerate(outputs[0]) if output == tensor]
            if places:
                place = places[min(counts.get(tensor, 0), len(places) - 1)]
                counts[tensor] = counts.get(tensor, 0) + 1
                tensor = outputs[1][place]
            expected.append({**entry, "tensorIndex": tensor})
        assert now == {**was, "outputs": None if was["outputs"] is None else expected}


def assert_every_output_is_its_own(data: bytes, subgraphs: Iterable[int] | None = None) -> None:
    """Each output is a distinct tensor, computed by an operator, and no input."""
    model = read(data)
    for index in entries_of(model) if subgraphs is None else subgraphs:
        graph = model["subgraphs"][index]
        outputs = vector(graph["outputs"])
        computed = {tensor for operator in graph["operators"] or () for tensor in vector(operator["outputs"])}
        assert len(set(outputs)) == len(outputs)
        assert set(outputs) <= computed
        assert not set(outputs) & set(vector(graph["inputs"]))


# --- running ------------------------------------------------------------------------------------------------


def run_onert_allocating(model: Path) -> tuple[bytes, ...] | int:
    """Return the outputs as onert's own Python interface has them, which lets the runtime allocate them.

    The inputs are those of `run_onert`. A process that dies gives its status.
    """
    need("onert")
    command = [sys.executable, "-c", _ALLOCATING, str(model)]
    environment = os.environ | {"PYTHONPATH": with_root()}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    lines = [line.removeprefix("output ") for line in done.stdout.splitlines() if line.startswith("output ")]
    return done.returncode or tuple(map(bytes.fromhex, lines))


_ALLOCATING = """
import sys
import numpy as np
import onert
from tests.kit.oracles.inputs import make_input
session = onert.infer.session(sys.argv[1])
inputs = [
    make_input(0, position, np.dtype(getattr(info.dtype, 'dtype', info.dtype)), tuple(info.dims[: info.rank]))
    for position, info in enumerate(session.get_inputs_tensorinfo())
]
for value in session.infer(inputs):
    print("output", np.ascontiguousarray(value).tobytes().hex())
"""

RUNTIME_OF = {"tflite": "litert", "circle": "onert"}
"""The runtime of a format, which decides what copies exactly."""


def runtimes_of(kind: str) -> dict[str, Callable[[Path], Outcome]]:
    """LiteRT knows one of the formats, onert knows both; the test is skipped where nothing is there for a format."""
    if kind == "circle":
        need("onert")
    both: dict[str, Callable[[Path], Outcome]] = {"onert": run_onert} if have("onert") else {}
    return both | ({"litert": run_litert} if kind == "tflite" else {})


def outcomes(data: bytes, folder: Path, kind: str, name: str = "model") -> dict[str, Outcome]:
    """Return how a model does in each runtime of its format."""
    path = folder / f"{name}.{kind}"
    path.write_bytes(data)
    return {runtime: run(path) for runtime, run in runtimes_of(kind).items()}


def assert_same_in_runtimes(before: bytes, after: bytes, folder: Path, kind: str) -> dict[str, Outcome]:
    """Hold two files to the same behavior; return that of the second.

    onert refuses some models for the very outputs that were mended, so there a refusal may become another or none.
    It transposes few types; where LiteRT takes only a transposition of a TFLite model, a note says so.
    """
    was, now = outcomes(before, folder, kind, "before"), outcomes(after, folder, kind, "after")
    different = {
        runtime: difference
        for runtime, outcome in was.items()
        if (difference := same_behavior(outcome, now[runtime], names=False)) is not None
        and not (runtime == "onert" and outcome.stage != "ok" and now[runtime].stage not in {"crash", "timeout"})
        and not (runtime != RUNTIME_OF[kind] and "Transpose: unsupported data type" in now[runtime].message)
        and is_deterministic(folder / f"before.{kind}", runtime)
    }
    assert not different, different
    return now


def plain(
    kind: str, element: str, shape: tuple[int, ...] = (2, 3), signature: tuple[int, ...] | None = None
) -> bytes:
    build = Build()
    graph = build.graph()
    passed_through(graph, graph.tensor("x", shape, element, shape_signature=signature))
    return build.to_bytes(kind)


def passed_through(graph: Graph, *tensors: int) -> None:
    """Have the inputs come out again, the first one twice."""
    graph.ends(tensors, [*tensors, tensors[0]])
