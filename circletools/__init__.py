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
    from circletools import outputs as outputs
    from circletools import render as render
    from circletools import storage as files
    from circletools.check import check
    from circletools.diff.difference import compare_models as diff
    from circletools.edit.compact import compact as compact
    from circletools.edit.edit import ModelEdit
    from circletools.edit.result import RewriteResult as RewriteResult
    from circletools.editing import edit
    from circletools.inspection import inspect_model as inspect
    from circletools.model.model import Model
    from circletools.model.model import open_model as open  # noqa: A004  (`ct.open`, as in gzip and zipfile)
    from circletools.model.model import open_model as open_model
    from circletools.model.verify import check_model as verify
    from circletools.origin.tracking.tracker import track as track_origins
    from circletools.split.verification import verify_split as verify_split
    from circletools.split.write import split as split
    from circletools.stripping import strip_metadata as strip_metadata

__all__ = [
    "CircleToolsError",
    "EditError",
    "Finding",
    "InvalidInputError",
    "Model",
    "ModelEdit",
    "ModelFormatError",
    "OutputError",
    "RewriteResult",
    "Severity",
    "TableFormatError",
    "UsageError",
    "__version__",
    "check",
    "compact",
    "diff",
    "edit",
    "files",
    "inspect",
    "open",
    "open_model",
    "origins",
    "outputs",
    "render",
    "split",
    "strip_metadata",
    "track_origins",
    "verify",
    "verify_split",
]

__version__ = "0.1.0"

_PLACES = {
    "Model": "circletools.model.model",
    "ModelEdit": "circletools.edit.edit",
    "RewriteResult": "circletools.edit.result",
    "check": "circletools.check",
    "compact": "circletools.edit.compact",
    "diff": "circletools.diff.difference:compare_models",
    "edit": "circletools.editing",
    "inspect": "circletools.inspection:inspect_model",
    "files": "circletools.storage:",
    "open": "circletools.model.model:open_model",
    "open_model": "circletools.model.model",
    "origins": "circletools.origin:",
    "outputs": "circletools.outputs:",
    "render": "circletools.render:",
    "split": "circletools.split.write",
    "strip_metadata": "circletools.stripping",
    "track_origins": "circletools.origin.tracking.tracker:track",
    "verify": "circletools.model.verify:check_model",
    "verify_split": "circletools.split.verification",
}
__getattr__, __dir__ = face(__name__, _PLACES)
