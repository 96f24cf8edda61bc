"""Ask installed programs about a model: its file, its inputs, and the operators that their answers name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from circletools import runtimes
from circletools.errors import InvalidInputError
from circletools.graph.graph import Graph, ModelGraph
from circletools.model.arrays import DTYPES
from circletools.model.model import Model
from circletools.runtimes.inputs import read_inputs
from circletools.runtimes.protocol import Array
from circletools.runtimes.worker import Worker
from circletools.storage.files import open_source

__all__ = ["as_file", "file_inputs", "operators_of", "run_excuse"]


@contextmanager
def as_file(model: Model) -> Iterator[Path]:
    """Provide the model as a file with the suffix of its format, since some programs require that suffix."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / f"model.{model.format}"
        if model.source.path is not None:
            path.symlink_to(model.source.path.resolve())
        else:
            path.write_bytes(model.source.octets)
        yield path


def operators_of(model: ModelGraph) -> list[runtimes.Operators]:
    """Return the operators of each subgraph, for looking up the operators that a program names."""
    return [(graph.operators.code_names, graph.operators.result_names) for graph in model.graphs]


def run_excuse(model: Model, worker: Worker, is_random: bool) -> str:
    """Return words for the error of a profiler that does not run a model that its program may load."""
    opens = [-1 in graph.tensors[at].open_shape for graph in model.subgraphs[:1] for at in graph.outputs if at >= 0]
    if worker.runtime == "litert" and any(opens):
        return " (LiteRT may fail to profile models with outputs of unknown sizes; set sizes with `set-shape` first)"
    with as_file(model) as path:
        return worker.excuse(path) if is_random else ""


def file_inputs(files: Sequence[str], graph: Graph) -> list[list[Array]]:
    """Return the inputs of a graph from files, one for each run.

    An `.npz` file holds arrays named after signatures, tensors or positions; another file, the bytes of the only
    input. Raises InvalidInputError for a file that cannot be read or lacks an input.
    """
    values, runs = graph.values, list[list[Array]]()
    signature = next((one for one in graph.model.signatures if one.subgraph == graph.index), None)
    named = {tensor: name for name, tensor in (signature.inputs if signature else ())}
    for file in files:
        arrays = read_inputs(file) if file.endswith(".npz") else {"0": _read_only(file, graph)}
        run: list[Array] = []
        for place, tensor in enumerate(graph.inputs.tolist()):
            keys = (named.get(tensor, ""), values.name(tensor), str(place), f"arr_{place}")
            key = next((one for one in keys if one in arrays), None)
            if key is None:
                raise InvalidInputError(f"no array for input {place}", location=file, hint=f"name it {keys[1]!r}")
            array, kind = arrays[key], np.dtype(DTYPES.get(values.types[tensor], "O"))
            is_number = {array.dtype.kind, kind.kind} <= {*"iufb"}
            if is_number and (array.dtype.kind == "f") != (kind.kind == "f"):
                message = f"array {key!r} has the type {array.dtype}, but the input {kind}"
                hint = "convert it: a quantized number q stands for (q - zero_point) * scale"
                raise InvalidInputError(message, location=file, hint=hint)
            run.append(array.astype(kind) if is_number else array)
        runs.append(run)
    return runs


def _read_only(file: str, graph: Graph) -> Array:
    """Return the bytes of a file as a model's only input."""
    try:
        (only,) = graph.inputs.tolist()
        kind, shape = DTYPES.get(graph.values.types[only], "O"), graph.values.shapes.row(only)
        with closing(open_source(file)) as source:
            return np.frombuffer(source.octets, kind).reshape(shape).copy()  # only bytes that fit are read
    except ValueError as error:
        raise InvalidInputError(f"cannot read the inputs: {error}", location=file) from error
