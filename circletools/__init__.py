"""Read, annotate and repair TFLite and Circle models without a compiler.

    import circletools as ct

    with ct.open("in.circle") as model:
        for operator in model.subgraphs[0].operators:
            print(operator.index, operator.code.name)

The names in `__all__`, and those in `__all__` of the modules among them, are what programs can rely on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from circletools.errors import (
    CircleToolsError,
    EditError,
    InvalidInputError,
    ModelFormatError,
    OutputError,
    TableFormatError,
    UsageError,
)
from circletools.findings import Finding, Severity
from circletools.lazy import face

if TYPE_CHECKING:
    from circletools import origin as origins
    from circletools import render as render
    from circletools import storage as files
    from circletools.check import check
    from circletools.edit.compact import compact
    from circletools.edit.edit import ModelEdit, edit
    from circletools.edit.results import RewriteResult
    from circletools.edit.strip import strip_metadata
    from circletools.model.model import Model
    from circletools.model.model import open_model as open  # noqa: A004  (`ct.open`, as in gzip and zipfile)
    from circletools.model.model import open_model as open_model
    from circletools.model.rows import Subgraph
    from circletools.model.verify import check_model as verify
    from circletools.model.views import Buffer, Metadata, Operator, OperatorCode, Signature, Tensor

__all__ = [
    "Buffer",
    "CircleToolsError",
    "EditError",
    "Finding",
    "InvalidInputError",
    "Metadata",
    "Model",
    "ModelEdit",
    "ModelFormatError",
    "Operator",
    "OperatorCode",
    "OutputError",
    "RewriteResult",
    "Severity",
    "Signature",
    "Subgraph",
    "TableFormatError",
    "Tensor",
    "UsageError",
    "__version__",
    "check",
    "compact",
    "edit",
    "files",
    "open",
    "open_model",
    "origins",
    "render",
    "strip_metadata",
    "verify",
]

__version__ = "0.1.0"

_PLACES = {
    "Buffer": "circletools.model.views",
    "Metadata": "circletools.model.views",
    "Model": "circletools.model.model",
    "ModelEdit": "circletools.edit.edit",
    "Operator": "circletools.model.views",
    "OperatorCode": "circletools.model.views",
    "RewriteResult": "circletools.edit.results",
    "Signature": "circletools.model.views",
    "Subgraph": "circletools.model.rows",
    "Tensor": "circletools.model.views",
    "check": "circletools.check",
    "compact": "circletools.edit.compact",
    "edit": "circletools.edit.edit",
    "files": "circletools.storage:",
    "open": "circletools.model.model:open_model",
    "open_model": "circletools.model.model",
    "origins": "circletools.origin:",
    "render": "circletools.render:",
    "strip_metadata": "circletools.edit.strip",
    "verify": "circletools.model.verify:check_model",
}
__getattr__, __dir__ = face(__name__, _PLACES)
