"""Models beyond 2 GiB: a small flatbuffer, followed by large constants and a large custom option.

`python -m benchmarks.huge_models OUT [--circle] [--sparse] [--bytes N]`

GATHER reads only some rows of four tables, so a runtime needs no memory for the rest. The options of an
AudioSpectrogram operator are padded at the front, since a FlexBuffers value is read from its end. The last table is
listed twice as an output. LiteRT runs the TFLite model.

The constants are pseudo-random; in a sparse file, most of them are holes.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from flatbuffers import flexbuffers

from benchmarks.models import replacing
from tests.kit.build import Build, Code, quantization

HUGE_BYTES = 2_500_000_000
TABLES, ROW_BYTES, LOOKUPS = 4, 512, 8
SOUND_SHAPE = (20, 1)
_OPTIONS_SHARE = 10  # one part in this many is the custom option
_CHUNK = 1 << 24
_ALIGNMENT = 64


@dataclass(frozen=True)
class Extent:
    """A range after the flatbuffer; `end` holds its last bytes."""

    size: int
    end: bytes = b""


def rows(size_bytes: int) -> int:
    """Return the number of rows in each table of a model of about `size_bytes` bytes."""
    return size_bytes // _OPTIONS_SHARE * (_OPTIONS_SHARE - 1) // TABLES // ROW_BYTES


def huge(path: Path, size_bytes: int = HUGE_BYTES, *, circle: bool = False, sparse: bool = False) -> None:
    """Write a model of about `size_bytes` bytes; a `sparse` one has data only around the rows that are read."""
    options = bytes(flexbuffers.Dumps({"window_size": 8, "stride": 4, "magnitude_squared": False}))
    factors = np.linspace(-1, 1, SOUND_SHAPE[0], dtype="<f4").tobytes()
    extents = [Extent(rows(size_bytes) * ROW_BYTES)] * TABLES
    extents += [Extent(len(factors), factors), Extent(size_bytes // _OPTIONS_SHARE // 8 * 8 + len(options), options)]
    structure = _structure([16] * len(extents), extents, circle)  # as long as with the correct positions
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
    """Return the rows to read: at both ends of each table, and between."""
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


def _structure(places: Sequence[int], extents: Sequence[Extent], circle: bool) -> bytes:
    """Return the flatbuffer for data at these positions."""
    build = Build("Generated for measurements.")
    graph = build.graph()
    buffers = [
        build.buffer(offset=place, size=extent.size) for place, extent in zip(places[:-1], extents[:-1], strict=True)
    ]
    ids, sound = graph.tensor("ids", [LOOKUPS], "INT32"), graph.tensor("sound", SOUND_SHAPE)
    outputs = []
    for index, extent in enumerate(extents[:TABLES]):
        shape = [extent.size // ROW_BYTES, ROW_BYTES]
        scales = (quantization([0.125]), quantization([0.125]))
        table = graph.tensor(f"table_{index}", shape, "INT8", buffer=buffers[index], quantization=scales[0])
        outputs.append(graph.tensor(f"rows_{index}", [LOOKUPS, ROW_BYTES], "INT8", quantization=scales[1]))
        graph.operator("GATHER", [table, ids], outputs[-1:])
    factor = graph.tensor("factor", SOUND_SHAPE, buffer=buffers[TABLES])
    scaled = graph.compute("MUL", [sound, factor], "scaled", SOUND_SHAPE)
    spectrum = graph.tensor("spectrum", [1, 4, 5])
    custom = graph.operator(Code("CUSTOM", custom="AudioSpectrogram"), [scaled], [spectrum])
    custom.large_custom_options_offset, custom.large_custom_options_size = places[-1], extents[-1].size
    graph.ends([ids, sound], [*outputs, outputs[-1], spectrum])
    return build.to_bytes("circle" if circle else "tflite")


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
