"""Check whether a model can be loaded and executed: its graph, tensors, operators and signatures."""

from __future__ import annotations

from collections.abc import Iterator

from circletools.findings import Finding
from circletools.model.model import Model
from circletools.model.verify import check_indices
from circletools.soundness.graph_findings import graph_findings
from circletools.soundness.name_findings import name_findings, unused_findings
from circletools.soundness.operator_findings import operator_findings
from circletools.soundness.signature_findings import signature_findings
from circletools.soundness.tensor_findings import tensor_findings
from circletools.soundness.whole import Whole
from circletools.soundness.windows import window_findings


def broken_graphs(model: Model) -> list[Finding]:
    """Return only those findings of `check` that are about the graphs of a model.

    These concern every out-of-range index or, if there is none, producers, readers and operator order. Raises
    ModelFormatError if the structure is broken where indices are stored.
    """
    return check_indices(model, as_read=True) or list(graph_findings(model, Whole(model)))


def operation_findings(model: Model) -> Iterator[Finding]:
    """Yield findings about graphs, tensors and operators; only their indices must be in range."""
    whole = Whole(model)
    yield from graph_findings(model, whole)
    yield from tensor_findings(model, whole)
    yield from operator_findings(model, whole)


def soundness_findings(model: Model) -> Iterator[Finding]:
    """Yield findings that keep runtimes from loading or executing the model, which must have no dangling indices."""
    yield from operation_findings(model)
    yield from window_findings(model)
    yield from signature_findings(model)
    yield from name_findings(model)
    yield from unused_findings(model)
