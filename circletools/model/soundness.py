"""Whether a model can be loaded and executed: its graph, tensors, operators and signatures."""

from __future__ import annotations

from collections.abc import Iterator

from circletools.findings import Finding
from circletools.model.graph_findings import graph_findings
from circletools.model.model import Model
from circletools.model.name_findings import name_findings, unused_findings
from circletools.model.operator_findings import operator_findings
from circletools.model.signature_findings import signature_findings
from circletools.model.tensor_findings import tensor_findings
from circletools.model.uses import ModelUses
from circletools.model.windows import window_findings


def soundness_findings(model: Model) -> Iterator[Finding]:
    """Yield what keeps runtimes from loading or executing the model; its indices lead somewhere (`leads_nowhere`)."""
    uses = ModelUses(model)
    yield from graph_findings(model, uses)
    yield from tensor_findings(model, uses)
    yield from operator_findings(model, uses)
    yield from window_findings(model)
    yield from signature_findings(model)
    yield from name_findings(model)
    yield from unused_findings(model)
