"""Origins from a saved exported program (.pt2).

The exporter that made the model converts the program again, with recording. The origins of the result are then
tracked to the model, which may have been changed since it was made.
"""

from __future__ import annotations

import os

from circletools.errors import InvalidInputError
from circletools.graph.build import model_graph
from circletools.model.model import Model, open_model
from circletools.origin.exporters.patching import imported
from circletools.origin.exporters.recording import record
from circletools.origin.read import Origins
from circletools.origin.tracking.tracker import track_from


def from_exported_program(model: Model, path: str | os.PathLike[str]) -> Origins:
    """Return the origins of a model that was made from a program saved by `torch.export.save`.

    TICO converts the program for a Circle model, litert-torch for a TFLite model. Raises UsageError if that exporter
    is not installed, InvalidInputError if the program cannot be read or converted. Loading it can execute its code.
    """
    exporter = "tico" if model.format == "circle" else "litert_torch"
    torch, converter = (imported(name, "an exported program") for name in ("torch", exporter))
    try:
        program = torch.export.load(os.fspath(path))
        with record() as log:
            if exporter == "tico":
                converter.convert_from_exported_program(program)
            else:
                args, kwargs = program.example_inputs
                converter.convert(program.module(), args, kwargs)
    except Exception as error:
        message = f"{exporter} cannot convert it: {str(error).strip() or type(error).__name__}"
        raise InvalidInputError(message, location=os.fspath(path)) from error
    with open_model(log.conversions[-1].model) as made:
        return track_from(model_graph(made), log.origins, model_graph(model)).origins
