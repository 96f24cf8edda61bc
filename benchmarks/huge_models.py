"""Models beyond 2 GiB: a small flatbuffer, and behind it large constants and a large custom option.

`python -m benchmarks.huge_models OUT [--circle] [--sparse] [--bytes N]`

Four tables are looked up by GATHER, which reads the named rows only, so that a runtime needs no memory for the rest.
The options of an AudioSpectrogram operator are filled up in front: a FlexBuffers value is read from its end. The
last table is listed as an output twice. LiteRT runs the TFLite model.

The structure is written by the published classes (ai-edge-litert, circle-schema), the constants are pseudo-random; in
a sparse file most of them are holes.
"""

import argparse
import importlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from flatbuffers import flexbuffers

from benchmarks.models import replacing

HUGE_BYTES = 2_500_000_000
TABLES, ROW_BYTES, LOOKUPS = 4, 512, 8
SOUND_SHAPE = (20, 1)
_OPTIONS_SHARE = 10  # one part in so many is the custom option
_CHUNK = 1 << 24
_ALIGNMENT = 64
_FLOAT32, _INT32, _INT8 = 0, 2, 9
_GATHER, _MUL, _CUSTOM = 36, 18, 32
_GATHER_OPTIONS, _MUL_OPTIONS = 23, 21


@dataclass(frozen=True)
class Extent:
    """One range behind the flatbuffer; the last `end` bytes of it are as given."""

    size: int
    end: bytes = b""


def rows(size_bytes: int) -> int:
    """Return how many rows each table of a model of about `size_bytes` bytes has."""
    return size_bytes // _OPTIONS_SHARE * (_OPTIONS_SHARE - 1) // TABLES // ROW_BYTES


def huge(path: Path, size_bytes: int = HUGE_BYTES, *, circle: bool = False, sparse: bool = False) -> None:
    """Write a model of about `size_bytes` bytes; a `sparse` one has data only around what it looks up."""
    options = bytes(flexbuffers.Dumps({"window_size": 8, "stride": 4, "magnitude_squared": False}))
    factors = np.linspace(-1, 1, SOUND_SHAPE[0], dtype="<f4").tobytes()
    extents = [Extent(rows(size_bytes) * ROW_BYTES)] * TABLES
    extents += [Extent(len(factors), factors), Extent(size_bytes // _OPTIONS_SHARE // 8 * 8 + len(options), options)]
    structure = _structure([16] * len(extents), extents, circle)  # as long as with the right places
    places, end = [], len(structure)
    for extent in extents:
        end = -(-end // _ALIGNMENT) * _ALIGNMENT
        places.append(end)
        end += extent.size
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(_structure(places, extents, circle))
        for place, extent in zip(places, extents, strict=True):
            for start, data in _contents(place, extent, sparse):
                file.seek(start)
                file.write(data)
            file.seek(place + extent.size - len(extent.end))
            file.write(extent.end)


def lookups(size_bytes: int) -> Any:
    """Return the rows to look up: at both ends of each table, and between."""
    return np.linspace(0, rows(size_bytes) - 1, LOOKUPS, dtype=np.int32)


def _contents(place: int, extent: Extent, sparse: bool) -> Iterator[tuple[int, bytes]]:
    random = np.random.Generator(np.random.SFC64(place))
    if not sparse:
        for start in range(0, extent.size, _CHUNK):
            yield place + start, random.bytes(min(_CHUNK, extent.size - start))
        return
    for start in np.linspace(0, max(extent.size - ROW_BYTES, 0), LOOKUPS, dtype=np.int64).tolist():
        first = start // ROW_BYTES * ROW_BYTES
        yield place + first, random.bytes(min(ROW_BYTES, extent.size - first))


class _Classes:
    """The published classes of one of the formats."""

    def __init__(self, circle: bool) -> None:
        self.circle = circle
        published = importlib.import_module("circle_schema" if circle else "ai_edge_litert.schema_py_generated")
        self.module = published.circle if circle else published

    def make(self, table: str, **fields: Any) -> Any:
        """Make an object of the object API."""
        home = getattr(self.module, table) if self.circle else self.module
        made = getattr(home, f"{table}T")()
        for name, value in fields.items():
            assert hasattr(made, name), f"{table} has no field {name}"
            setattr(made, name, value)
        return made


def _structure(places: Sequence[int], extents: Sequence[Extent], circle: bool) -> bytes:
    """Return the flatbuffer for data at these places."""
    classes = _Classes(circle)
    make = classes.make
    late = [
        make("Buffer", offset=place, size=extent.size)
        for place, extent in zip(places[:-1], extents[:-1], strict=True)
    ]
    axis = make("Buffer", data=np.zeros(4, np.uint8))
    model = make(
        "Model",
        version=0 if circle else 3,
        description=b"Generated for measurements.",
        buffers=[make("Buffer"), *late, axis],
        operatorCodes=[
            make("OperatorCode", builtinCode=code, deprecatedBuiltinCode=code, customCode=custom, version=1)
            for code, custom in ((_GATHER, None), (_MUL, None), (_CUSTOM, b"AudioSpectrogram"))
        ],
        subgraphs=[_subgraph(classes, places[-1], extents)],
    )
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"CIR0" if circle else b"TFL3")
    return bytes(builder.Output())


def _subgraph(classes: _Classes, options_at: int, extents: Sequence[Extent]) -> Any:
    make = classes.make
    tensors: list[Any] = []

    def tensor(name: str, shape: Sequence[int], element: int, buffer: int = 0) -> int:
        fields = {"name": name.encode(), "shape": list(shape), "type": element, "buffer": buffer, "hasRank": True}
        tensors.append(make("Tensor", **fields))
        if element == _INT8:
            tensors[-1].quantization = make("QuantizationParameters", scale=[0.125], zeroPoint=[0])
        return len(tensors) - 1

    ids, sound = tensor("ids", [LOOKUPS], _INT32), tensor("sound", SOUND_SHAPE, _FLOAT32)
    operators, outputs = [], []
    for index, extent in enumerate(extents[:TABLES]):
        table = tensor(f"table_{index}", [extent.size // ROW_BYTES, ROW_BYTES], _INT8, index + 1)
        outputs.append(tensor(f"rows_{index}", [LOOKUPS, ROW_BYTES], _INT8))
        operator = make("Operator", opcodeIndex=0, inputs=[table, ids], outputs=outputs[-1:])
        operator.builtinOptionsType, operator.builtinOptions = _GATHER_OPTIONS, make("GatherOptions")
        operators.append(operator)
    factor, scaled = tensor("factor", SOUND_SHAPE, _FLOAT32, TABLES + 1), tensor("scaled", SOUND_SHAPE, _FLOAT32)
    spectrum = tensor("spectrum", [1, 4, 5], _FLOAT32)
    product = make("Operator", opcodeIndex=1, inputs=[sound, factor], outputs=[scaled])
    product.builtinOptionsType, product.builtinOptions = _MUL_OPTIONS, make("MulOptions")
    custom = make("Operator", opcodeIndex=2, inputs=[scaled], outputs=[spectrum])
    custom.largeCustomOptionsOffset, custom.largeCustomOptionsSize = options_at, extents[-1].size
    return make(
        "SubGraph",
        name=b"main",
        tensors=tensors,
        operators=[*operators, product, custom],
        inputs=[ids, sound],
        outputs=[*outputs, outputs[-1], spectrum],
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Write one model."""
    parser = argparse.ArgumentParser(prog="benchmarks.huge_models", description="Write a model beyond 2 GiB.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--bytes", dest="size", type=int, default=HUGE_BYTES)
    parser.add_argument("--circle", action="store_true", help="write Circle instead of TFLite")
    parser.add_argument("--sparse", action="store_true", help="leave holes in the constants")
    options = parser.parse_args(arguments)
    huge(options.out, options.size, circle=options.circle, sparse=options.sparse)
    print(f"{options.out}: {options.out.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
