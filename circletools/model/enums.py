"""The enums that fields hold, by the names of the fields."""

from __future__ import annotations

from circletools.flatbuf.roles import load_roles

OPTION_ENUMS = {
    "fused_activation_function": "ActivationFunctionType",
    "padding": "Padding",
    "weights_format": "FullyConnectedOptionsWeightsFormat",
    "kernel_type": "LSTMKernelType",
}
"""The enums of fields of options; fields whose name has another enum in the format are left out."""


def enum_of(path: str) -> str:
    """Return the enum that a field holds, as in `subgraphs[0].tensors[1].type`; empty where it holds none."""
    owner, _, field = path.rpartition(".")
    if field == "type" and "tensors[" not in owner.rpartition(".")[2]:  # which options have for another enum
        return ""
    if any(name == field and role.kind == "tensor_type" for (_, name), role in load_roles().items()):
        return "TensorType"
    return OPTION_ENUMS.get(field, "")


def enum_of_field(table: str, field: str) -> str:
    """Return the enum that a field of a table of options holds; empty where none is known."""
    role = load_roles().get((table, field))
    return "TensorType" if role is not None and role.kind == "tensor_type" else OPTION_ENUMS.get(field, "")
