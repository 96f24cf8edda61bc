"""The enums of fields."""

from __future__ import annotations

import pytest

from circletools.model.options import OPTION_ENUMS, enum_of

OPTIONS = "subgraphs[0].operators[2].builtin_options"


@pytest.mark.parametrize(
    ("path", "enum"),
    [
        ("subgraphs[0].tensors[1].type", "TensorType"),
        ("subgraphs[0].tensors[1].variant_tensors[0].type", "TensorType"),
        (f"{OPTIONS}.in_data_type", "TensorType"),
        (f"{OPTIONS}.type", ""),  # LSHProjectionOptions
        (f"{OPTIONS}.padding", "Padding"),
        (f"{OPTIONS}.stride_w", ""),
        ("subgraphs[0].tensors[1].buffer", ""),
        ("type", ""),
        ("", ""),
    ],
)
def test_the_enum_of_a_path(path: str, enum: str) -> None:
    assert enum_of(path) == enum
    assert len(OPTION_ENUMS) == 4
