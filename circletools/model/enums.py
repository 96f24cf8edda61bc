"""The enum types of fields, by field name."""

from __future__ import annotations

from circletools.flatbuf.roles import load_roles

OPTION_ENUMS = {
    "fused_activation_function": "ActivationFunctionType",
    "padding": "Padding",
    "weights_format": "FullyConnectedOptionsWeightsFormat",
    "kernel_type": "LSTMKernelType",
}
"""The enum types of option fields, except fields whose name is that of another enum in the format."""


def enum_of(path: str) -> str:
    """Return the enum type of a field, such as `subgraphs[0].tensors[1].type`; empty if it has none."""
    owner, _, field = path.rpartition(".")
    if field == "type" and "tensors[" not in owner.rpartition(".")[2]:  # options use this name for another enum
        return ""
    if any(name == field and role.kind == "tensor_type" for (_, name), role in load_roles().items()):
        return "TensorType"
    return OPTION_ENUMS.get(field, "")


def enum_of_field(table: str, field: str) -> str:
    """Return the enum type of a field of an options table; empty if none is known."""
    role = load_roles().get((table, field))
    return "TensorType" if role is not None and role.kind == "tensor_type" else OPTION_ENUMS.get(field, "")
