"""What the tests of splits share: annotated models, and what parts must be, as the published object API sees them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from circletools.affinity.partitioning import partitioned
from circletools.affinity.solvers.groups import make_units
from circletools.affinity.solvers.partitions import Mode
from circletools.affinity.store import annotate
from circletools.affinity.tables import Affinity, SubgraphAffinity
from circletools.check import check
from circletools.graph.build import graph_of, model_graph
from circletools.graph.resources import Resources, State
from circletools.model.model import Model, open_model
from circletools.model.verify import is_dangling
from circletools.model.views import text
from circletools.parts.compare import check_files, open_split
from circletools.parts.split import Split, split
from tests.kit.support import edited, read

DEVICES = ("npu", "cpu", "dsp")
Assign = Callable[[int, int], int]
"""From subgraph and operator index to a device number."""


def alternating(_subgraph: int, operator: int) -> int:
    """Give every other operator to the second device."""
    return operator % 2


def by_code(model: Model) -> Assign:
    """Return an assignment that gives each operator code to one device."""
    return lambda subgraph, operator: model.subgraphs[subgraph].code_indices()[operator] % 2


def with_devices(data: bytes, assign: Assign | None = None, mode: Mode = "min") -> bytes:
    """Return the model annotated; by default, by operator code. Raises EditError if `mode` cannot plan this."""
    with open_model(data) as model:
        chosen = assign or by_code(model)
        subgraphs = {}
        for index, subgraph in enumerate(model.subgraphs):
            devices = [chosen(index, operator) for operator in range(len(subgraph.operators))]
            made = partitioned(make_units(graph_of(model, index)), devices, mode)
            if devices:
                subgraphs[index] = SubgraphAffinity(*np.array([made.numbers, made.partition_of()], np.uint32))
    return edited(data, lambda edit: annotate(edit, Affinity(dict(enumerate(DEVICES)), subgraphs)))


def split_to(data: bytes, folder: Path, kind: str, *, subgraph: int = 0) -> Split:
    """Write the model beside `folder`, and split it there."""
    source = folder.parent / f"model.{kind}"
    source.write_bytes(data)
    with open_model(source) as model:
        return split(model, folder, subgraph=subgraph)


def state_of(model: Model, subgraph: int = 0) -> State:
    """Return what the operators of a subgraph share."""
    return Resources(model_graph(model)).state(subgraph)


def in_threes(_subgraph: int, operator: int) -> int:
    """Give every other three operators to the second device."""
    return operator // 3 % 2


def by_list(devices: Sequence[int]) -> Assign:
    """Return an assignment of the operators of the main subgraph."""
    return lambda _subgraph, operator: devices[operator]


def kind_of(data: bytes) -> str:
    """Return the ending for a model."""
    return {b"TFL3": "tflite", b"CIR0": "circle"}[data[4:8]]


def files_of(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def assert_operators_are_the_sources(data: bytes, folder: Path, done: Split) -> None:
    """Check each operator of each part, field by field, with all that it names, against the source's."""
    source = read(data)
    seen: list[int] = []
    for planned, piece in zip(done.plan.parts, done.connections.parts, strict=True):
        part = read((folder / piece.file).read_bytes())
        operators = part["subgraphs"][0]["operators"]
        assert len(operators) == len(planned.operators)
        for index, operator in zip(planned.operators, operators, strict=True):
            theirs = source["subgraphs"][done.plan.subgraph]["operators"][index]
            assert spelled(part, 0, operator, {}) == spelled(source, done.plan.subgraph, theirs, done.plan.renamed)
        seen += planned.operators
        graph = part["subgraphs"][0]
        for table, names in (("inputs", piece.inputs), ("outputs", piece.outputs)):
            assert [text(graph["tensors"][tensor]["name"]) for tensor in vector(graph[table])] == list(names)
        assert part["version"] == source["version"]
        assert part["description"] == source["description"]
    with open_model(data) as model:
        constants = graph_of(model, done.plan.subgraph).dag.constants
    once = [operator for operator in seen if operator not in constants] + sorted(set(seen).intersection(constants))
    assert sorted(once) == list(range(len(source["subgraphs"][done.plan.subgraph]["operators"])))


def assert_parts_are_the_source(data: bytes, folder: Path, done: Split) -> None:
    """Check a whole split: its operators, its files against each other, and every part by itself."""
    assert_operators_are_the_sources(data, folder, done)
    assert check_files(open_split(folder)) == []
    for piece in done.connections.parts:
        with open_model(folder / piece.file) as part:
            found = check(part)
            assert [
                one
                for one in found
                if one.code.startswith(("STALE", "PARTIAL")) or one.severity == "error" or is_dangling(one)
            ] == []


def spelled(model: dict[str, Any], subgraph: int, operator: dict[str, Any], renamed: Mapping[int, bytes]) -> Any:
    """Return an operator with everything that it names by a number spelled out."""
    tensors = model["subgraphs"][subgraph]["tensors"]

    def tensor(index: int) -> Any:
        if index == -1:
            return None
        found = tensors[index]
        buffer = model["buffers"][found["buffer"]]
        content = (buffer["data"] or b"", buffer["offset"], buffer["size"])
        name, quantization = renamed.get(index, found["name"]), found["quantization"]
        return {**found, "buffer": content, "name": name, "quantization": quantized(quantization)}

    def quantized(value: Any) -> Any:
        """Spell out the scales of blocks, which are tensors of their own."""
        if value is None or value["details"] is None:
            return value
        names = [name for name in ("scales", "zeroPoints") if name in value["details"]]
        return {**value, "details": {**value["details"], **{name: tensor(value["details"][name]) for name in names}}}

    def options(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {
            name: called(field) if "ubgraphInd" in name or name in ("subgraph", "calledComputations") else field
            for name, field in value.items()
        }

    def called(index: Any) -> Any:
        return [callee(model, one) for one in vector(index)] if not isinstance(index, int) else callee(model, index)

    return {
        **operator,
        "opcodeIndex": model["operatorCodes"][operator["opcodeIndex"]],
        **{
            name: [tensor(index) for index in vector(operator[name])]
            for name in ("inputs", "outputs", "intermediates")
        },
        "builtinOptions": options(operator["builtinOptions"]),
        "builtinOptions2": options(operator["builtinOptions2"]),
    }


def callee(model: dict[str, Any], index: int) -> Any:
    """Return a subgraph that is called, spelled out."""
    if index < 0:
        return index
    graph = model["subgraphs"][index]
    return {
        **graph,
        "tensors": [
            {**tensor, "buffer": model["buffers"][tensor["buffer"]]["data"] or b""} for tensor in graph["tensors"]
        ],
        "operators": [spelled(model, index, operator, {}) for operator in graph["operators"] or ()],
    }


def vector(value: Any) -> Sequence[int]:
    """Return a vector of numbers that may be absent."""
    return [] if value is None else list(value)


def split_file(path: Path, folder: Path, *, force: bool = False) -> Split:
    with open_model(path) as model:
        return split(model, folder, force=True) if force else split(model, folder)
