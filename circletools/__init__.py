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
    from circletools.check import check
    from circletools.edit.edit import ModelEdit
    from circletools.edit.edit import ModelEdit as edit  # noqa: N813  (opening an edit reads as a verb)
    from circletools.model.model import Model
    from circletools.model.model import open_model as open  # noqa: A004  (`ct.open`, as in gzip and zipfile)
    from circletools.model.model import open_model as open_model

__all__ = [
    "CircleToolsError",
    "EditError",
    "Finding",
    "InvalidInputError",
    "Model",
    "ModelEdit",
    "ModelFormatError",
    "OutputError",
    "Severity",
    "TableFormatError",
    "UsageError",
    "__version__",
    "check",
    "edit",
    "open",
    "open_model",
    "origins",
    "render",
]

__version__ = "0.1.0"

_PLACES = {
    "Model": "circletools.model.model",
    "ModelEdit": "circletools.edit.edit",
    "check": "circletools.check",
    "edit": "circletools.edit.edit:ModelEdit",
    "open": "circletools.model.model:open_model",
    "open_model": "circletools.model.model",
    "origins": "circletools.origin:",
    "render": "circletools.render:",
}
__getattr__, __dir__ = face(__name__, _PLACES)
