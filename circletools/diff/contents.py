"""Compare data in the flatbuffer or after it by its bytes: buffers and custom options."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from circletools.errors import ModelFormatError
from circletools.flatbuf.columns import Tables
from circletools.flatbuf.comparison import Comparison, Difference, Pairs
from circletools.flatbuf.leaves import first_differing_byte, same_bytes
from circletools.model.external import FILE_OFFSETS, external_data
from circletools.model.model import Model


def custom_options(engine: Comparison, pairs: Pairs, before: Model, after: Model) -> Iterator[Difference]:
    """Compare custom options; for a compiled program in the file, compare the program and not its position."""
    old, new = _programs(before), _programs(after)
    known = np.isin(pairs.before.at, list(old)) & np.isin(pairs.after.at, list(new))
    rest = pairs.take(np.flatnonzero(~known))
    yield from contents(engine, rest, "custom_options", ("large_custom_options_offset", "large_custom_options_size"))
    for row in np.flatnonzero(known).tolist():
        ours, theirs = old[int(pairs.before.at[row])], new[int(pairs.after.at[row])]
        options = theirs.options
        moved = FILE_OFFSETS["Operator", "custom_options"](options, ours.offset - theirs.offset)
        path, path_after = (f"{place}.custom_options" for place in pairs.place(row))
        if moved != ours.options:
            yield Difference("changed", path, path_after, {"count": len(ours.options)}, {"count": len(options)})
        elif not same_bytes(ours.program, theirs.program):
            counts = ({"program_bytes": len(one.program)} for one in (ours, theirs))
            yield Difference("changed", path, path_after, *counts)


class _Program(NamedTuple):
    options: bytes
    offset: int
    program: memoryview


def _programs(model: Model) -> dict[int, _Program]:
    """Return the compiled programs, by position of the operator's table."""
    tables, memory = model.operator_columns.tables, model.wire.memory
    programs = {}
    for data in external_data(model):
        if data.kind == "bytecode":
            options = tables.take(data.rows).vectors("custom_options")
            places = zip(data.rows.tolist(), data.offsets.tolist(), data.sizes.tolist(), strict=True)
            for index, (row, offset, size) in enumerate(places):
                raw = options.row(index).tobytes()
                programs[int(tables.at[row])] = _Program(raw, offset, memory[offset : offset + size])
    return programs


def contents(engine: Comparison, pairs: Pairs, name: str, outside: tuple[str, str]) -> Iterator[Difference]:
    """Compare data in a vector of bytes, or at the file position in the fields `outside`."""
    places = [[tables.scalars(field) for field in outside] for tables in (pairs.before, pairs.after)]
    external = (places[0][0] > 1) | (places[1][0] > 1)
    item = pairs.before.field(name)
    yield from engine.vectors(pairs.take(np.flatnonzero(~external)), item)
    for row in np.flatnonzero(external).tolist():
        old, new = _data(pairs.before, row, name, places[0]), _data(pairs.after, row, name, places[1])
        if not same_bytes(old, new):
            index = first_differing_byte(old, new)
            values = (
                {"count": len(data), "index": index, "value": data[index] if index < len(data) else None}
                for data in (old, new)
            )
            path, path_after = (f"{place}.{name}" for place in pairs.place(row))
            yield Difference("changed", path, path_after, *values)


def _data(tables: Tables, row: int, name: str, place: list[NDArray[Any]]) -> memoryview:
    offset, size = (int(values[row]) for values in place)
    if offset <= 1:
        inside = tables.take(slice(row, row + 1)).vectors(name)
        start = int(inside.start[0])
        return tables.wire.memory[start : start + int(inside.count[0])]
    if offset + size > tables.wire.size:
        location = f"{tables.type.name}.{name}"
        raise ModelFormatError("external data lies outside the file", offset=offset, location=location)
    return tables.wire.memory[offset : offset + size]
