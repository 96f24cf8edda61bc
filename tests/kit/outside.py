"""Models with data outside the flatbuffer."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from flatbuffers import flexbuffers

from circletools.model.external import external_data
from circletools.model.model import open_model
from tests.kit.build import Build, Code

START = 1 << 13  # of the data outside, behind the flatbuffer
PLACES: Mapping[str, tuple[int, int]] = {
    "a": (0, 33), "idle": (64, 200), "b": (272, 5), "options": (320, 90), "program": (512 - 8, 64),
    "c": (416, 15), "d": (576, 1),
}  # fmt: skip
"""By name: the position of data of each kind after START, and its size."""


def program(offset: int | None, size: int | None, **more: object) -> bytes:
    """Return custom options that name a compiled program, as LiteRT writes them."""
    fields = {"bytecode_offset": offset, "bytecode_size": size, **more}
    builder = flexbuffers.Builder(force_min_bit_width=flexbuffers.BitWidth.W64)
    with builder.Map():
        for name, value in sorted(fields.items()):
            if value is not None:
                builder.Key(name)
                builder.Add(value)
    return bytes(builder.Finish())


def outside(places: Mapping[str, tuple[int, int]]) -> bytes:
    """Return a model with data outside: constants by name, `options` and `program` of an operator each."""
    build = Build()
    build.graph("first").operator("ABS", [], [])
    graph = build.graph("second")
    for name, (start, size) in places.items():
        offset = START + start
        if name == "options":
            operator = graph.operator(Code("CUSTOM", 1, "large"), [], [])
            operator.large_custom_options_offset, operator.large_custom_options_size = offset, size
        elif name == "program":
            graph.operator(Code("CUSTOM", 1, "dispatch"), [], []).custom_options = program(offset, size, name=7)
        else:
            graph.operator("NEG", [graph.tensor(name, buffer=build.buffer(offset=offset, size=size))], [])
    data = build.to_bytes("circle")
    assert len(data) < START
    return data.ljust(START, b"\0") + content(max(offset + size for offset, size in places.values()))


def content(count: int) -> bytes:
    return np.random.default_rng(7).bytes(count)


def ranges(data: bytes) -> list[tuple[str, int, int, int]]:
    with open_model(data) as model:
        return [
            (found.kind, *row)
            for found in external_data(model)
            for row in zip(found.rows.tolist(), found.offsets.tolist(), found.sizes.tolist(), strict=True)
        ]
