"""What the checks of a file say, and what can be asked of a model."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from circletools.edit.edit import ModelEdit
from circletools.errors import ModelFormatError
from circletools.findings import Finding
from circletools.flatbuf.verify import walk
from circletools.model.model import Model, open_model
from circletools.model.verify import check_model


def verify(data: bytes) -> list[Finding]:
    with open_model(data) as model:
        walk(model.wire, model.schema)
        return check_model(model)


def refusal(data: bytes) -> ModelFormatError:
    """Return the error that the structure of a file gives."""
    with pytest.raises(ModelFormatError) as caught:
        verify(data)
    return caught.value


def is_sound(data: bytes) -> bool:
    try:
        with open_model(data) as model:
            walk(model.wire, model.schema)
    except ModelFormatError:
        return False
    return True


USES: dict[str, Callable[[Model], object]] = {
    "walk": lambda model: walk(model.wire, model.schema),
    "check": check_model,
    "versions": lambda model: (model.version, model.description),
    "codes": lambda model: model.operator_codes,
    "metadata": lambda model: [model.metadata_value(entry.name) for entry in model.metadata],
    "signatures": lambda model: model.signatures,
    "buffers": lambda model: [bytes(buffer.data) for buffer in model.buffers],
    "names": lambda model: [subgraph.name for subgraph in model.subgraphs],
    "slots": lambda model: [(subgraph.inputs, subgraph.outputs) for subgraph in model.subgraphs],
    "operators": lambda model: [list(subgraph.operators) for subgraph in model.subgraphs],
    "tensors": lambda model: [list(subgraph.tensors) for subgraph in model.subgraphs],
    "output names": lambda model: [model.output_names(subgraph.index) for subgraph in model.subgraphs],
    "columns": lambda model: (model.tensor_columns.names, model.operator_columns.first_outputs),
    "set": lambda model: changed(model, "set_metadata", "note", b"value"),
    "remove": lambda model: changed(model, "remove_metadata", "note"),
    "outputs": lambda model: changed(model, "set_outputs", 0, [0]),
    "like": lambda model: changed(model, "add_tensor_like", 0, 0, "like"),
}


def changed(model: Model, method: str, *arguments: object) -> bytes:
    edit = ModelEdit(model)
    getattr(edit, method)(*arguments)
    return edit.to_bytes()
