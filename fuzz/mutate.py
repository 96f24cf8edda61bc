"""Mutations of bytes, and of models according to their structure.

A randomly changed model is nearly always refused by the first check. So most changes are made where the reader itself
finds a value: the number in a field, a reference, a vtable entry, the length of a vector, or the code of a union.
Some append another model and redirect a reference into it.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import numpy as np

from circletools.errors import CircleToolsError
from circletools.flatbuf.columns import Tables, Vectors
from circletools.flatbuf.overlay import MARKER
from circletools.model.model import Model, open_model

_INTERESTING = (
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    16,
    127,
    128,
    255,
    256,
    32767,
    65535,
    1 << 16,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
)
_MOST_PLACES = 400


class _Place(NamedTuple):
    """A number in a model: its position, its size in bytes, and the table type to which it refers, if any."""

    at: int
    width: int
    target: str | None


def mutate_bytes(data: bytes, random: Random, other: bytes) -> bytes:
    """Change, insert, remove or repeat a few bytes, or copy some from `other`."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        at = random.randrange(len(changed) + 1)
        length = random.choice((1, 1, 2, 4, 8, 32))
        kind = random.randrange(6)
        if kind == 0 or not changed:
            changed[at:at] = random.randbytes(length)
        elif kind == 1:
            del changed[at : at + length]
        elif kind == 2:
            changed[at : at + 1] = bytes((random.choice(_INTERESTING) & 255,))
        elif kind == 3:
            changed[at:at] = changed[at : at + length]
        elif kind == 4 and other:
            start = random.randrange(len(other))
            changed[at : at + length] = other[start : start + length]
        else:
            place = random.randrange(len(changed))
            changed[place] ^= 1 << random.randrange(8)
    return bytes(changed)


def mutate_model(data: bytes, random: Random, other: bytes) -> bytes:
    """Change a model at a meaningful position, or bytes that are not a model at a random one."""
    choice = random.random()
    if choice < 0.1:
        return mutate_bytes(data, random, other)
    try:
        with open_model(data) as model:
            tables = model.reachable.tables
            places = _places(model, tables, random)
            if choice < 0.2 and other[4:8] == data[4:8]:
                return _spliced(data, random, other, places)
            if choice < 0.25:
                return _ended(data, random)
            return _changed(data, random, places, tables)
    except CircleToolsError:
        return mutate_bytes(data, random, other)


def _places(model: Model, tables: dict[str, Tables] | object, random: Random) -> list[_Place]:
    assert isinstance(tables, dict)
    found = [_Place(0, 4, model.schema.root)]
    for _name, rows in tables.items():
        for at, vtable, size in zip(rows.at.tolist(), rows.vtable.tolist(), rows.vtable_bytes.tolist(), strict=True):
            found += [_Place(at, 4, None), _Place(vtable, 2, None), _Place(vtable + 2, 2, None)]
            found += [_Place(vtable + entry, 2, None) for entry in range(4, min(size, 4 + 2 * rows.type.slots), 2)]
        for field in rows.type.fields:
            positions = rows.slot_positions(field.slot)
            target = field.target if field.kind == "table" else None
            found += [_Place(at, field.width, target) for at in positions[positions != 0].tolist()]
            if field.kind in ("string", "vector") and not field.deprecated:
                found += _in_vectors(rows.vectors(field.name), field.target, random)
        if len(found) > 50 * _MOST_PLACES:
            break
    return found


def _in_vectors(vectors: Vectors, target: str | None, random: Random) -> list[_Place]:
    found = []
    width = vectors.dtype.itemsize
    for start, count in zip(vectors.start.tolist(), vectors.count.tolist(), strict=True):
        if start:
            found.append(_Place(start - 4, 4, None))
            chosen = range(count) if count <= 16 else random.sample(range(count), 16)
            found += [_Place(start + index * width, width, target) for index in chosen]
    return found


def _changed(data: bytes, random: Random, places: list[_Place], tables: object) -> bytes:
    assert isinstance(tables, dict)
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        place = random.choice(places)
        value = int.from_bytes(data[place.at : place.at + place.width], "little")
        if place.target in tables and random.random() < 0.7:  # another table of the same type, or of any
            kind = place.target if random.random() < 0.7 else random.choice(list(tables))
            value = int(random.choice(tables[kind].at.tolist())) - place.at
        else:
            value = _number(value, random, len(data))
        changed[place.at : place.at + place.width] = (value % (1 << 8 * place.width)).to_bytes(place.width, "little")
    if random.random() < 0.05 and len(changed) > 24:
        changed[8:24] = MARKER + (64 * random.randrange(1, 1 + len(changed) // 64 + 1)).to_bytes(8, "little")
    return bytes(changed)


def _number(value: int, random: Random, size: int) -> int:
    kind = random.randrange(5)
    if kind == 0:
        return value + random.choice((-1, 1, -2, 2, -4, 4, 8, 64))
    if kind == 1:
        return random.choice(_INTERESTING)
    if kind == 2:
        return value ^ 1 << random.randrange(64)
    return random.randrange(size + 1) if kind == 3 else -value


def _ended(data: bytes, random: Random) -> bytes:
    """Truncate the file, or append something."""
    if random.random() < 0.5:
        return data[: random.randrange(len(data))]
    return data + random.choice((b"\0", bytes(64), b"PK\5\6" + bytes(18), random.randbytes(33)))


def _spliced(data: bytes, random: Random, other: bytes, places: list[_Place]) -> bytes:
    """Append another model, and redirect a reference to a table of the same type in it."""
    padding = -len(data) % 64
    with open_model(other) as model:
        theirs = model.reachable.tables
        references = [place for place in places if place.target in theirs]
        place = random.choice(references)
        at = int(random.choice(theirs[str(place.target)].at.tolist())) + len(data) + padding - place.at
    changed = bytearray(data + bytes(padding) + other)
    changed[place.at : place.at + 4] = np.uint32(at).tobytes()
    return bytes(changed)
