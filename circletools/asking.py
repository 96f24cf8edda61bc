"""Ask installed programs about a model: provide its file, and find the operators that their answers name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from circletools import runtimes
from circletools.graph.graph import ModelGraph
from circletools.model.model import Model

__all__ = ["as_file", "operators_of"]


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
