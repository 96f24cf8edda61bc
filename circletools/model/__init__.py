"""The two formats as one vocabulary: Model, Subgraph, Operator, Tensor, Buffer, Metadata, Signature."""

from circletools.model.model import Model, open_model
from circletools.model.rows import Subgraph
from circletools.model.views import Buffer, Metadata, Operator, OperatorCode, Signature, Tensor

__all__ = [
    "Buffer",
    "Metadata",
    "Model",
    "Operator",
    "OperatorCode",
    "Signature",
    "Subgraph",
    "Tensor",
    "open_model",
]
