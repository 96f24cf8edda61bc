"""Follow the batch dimension through an operator, and find the constants that must grow with the batch.

A dimension holds the batch, which changes from B to N, if the shapes before and after differ there by the factor N/B.
A size in a constant is changed only if the product of the dimensions before it proves that it contains the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from circletools.flatbuf.schema import schema_document
from circletools.model.sizes import element_count
from circletools.shapes.call import Call, Shape, Value, refuse_unless, shown
from circletools.shapes.windows import STATES

_ALIKE = ("CONCATENATION", "PACK", "SELECT", "ADD_N")
_MIXING = {where: codes.split() for where, codes in schema_document("litert")["mixing"].items()}
_ALONG: dict[str, Callable[[Call, int], Collection[int]]] = {
    **dict.fromkeys(_MIXING["last"], lambda _, rank: [rank - 1]),
    **dict.fromkeys(_MIXING["spatial"], lambda _, rank: range(1, rank)),
    **dict.fromkeys(STATES, lambda call, rank: {*range(rank)} - {call.option("time_major")}),
    **dict.fromkeys(("CUMSUM", "REVERSE_V2"), lambda call, rank: [axis % rank for axis in call.numbers(1)]),
    "CONCATENATION": lambda call, rank: [call.option("axis") % rank],
    "REVERSE_SEQUENCE": lambda call, _: [call.option("seq_dim")],
    "STRIDED_SLICE": lambda call, _: [axis for axis, step in enumerate(call.numbers(3)) if step < 0],
    "TILE": lambda call, _: [axis for axis, times in enumerate(call.numbers(1)) if times != 1],
}
"""The dimensions of the first input (or of all concatenated inputs) along which an operator mixes entries."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The batch before and after, whether constants may be changed to fit, and whether the batch becomes dynamic."""

    before: int
    after: int
    mend: bool = False
    is_open: bool = False

    def axis(self, was: Shape, now: Shape) -> int | None:
        """Return the dimension that grew, or None. Raises RefusedError if anything else changed."""
        if was == now:
            return None
        differing = [axis for axis, sizes in enumerate(zip(was, now, strict=False)) if sizes[0] != sizes[1]]
        grew = [now[axis] * self.before == was[axis] * self.after for axis in differing]
        alone = len(was) == len(now) and grew == [True]
        refuse_unless(alone, f"it mixes the batch with other dimensions: {shown(was)} becomes {shown(now)}")
        return differing[0]

    def grown(self, size: int) -> int:
        """Return the new value of a size that contains the batch."""
        return size * self.after // self.before


@dataclass(frozen=True, slots=True)
class Patch:
    """A change to an input: other values, or, without a value, repetition along a dimension to fit the new batch."""

    slot: int
    value: Value | None = None
    axis: int = 0


def _reshape(call: Call, was: Call, batch: Batch) -> Iterator[Patch]:
    axis = batch.axis(was.shape(), call.shape())
    given = len(call) > 1
    if axis is None or (given and (call.values[1] is None or was.values[1] is None)):
        return
    sizes, count = was.numbers(1) if given else list(was.options.get("new_shape", ())), element_count(was.shape())
    known = element_count(size for size in sizes if size != -1)
    base = tuple(count // max(known, 1) if size == -1 else size for size in sizes)
    shape, outer = was.shape(), element_count(was.shape()[:axis])
    able = [at for at in range(len(base)) if element_count(base[:at]) == outer and base[at] % batch.before == 0]
    exact = [at for size in (batch.before, shape[axis]) for at in able if base[at] == size]
    refuse_unless(bool(able), f"reshaping {shown(shape)} to {shown(base)} loses the batch (dimension {axis})", 1)
    at = (exact or able)[0]
    if sizes[at] == -1:
        return
    if batch.is_open:
        refuse_unless(-1 not in sizes, f"{shown(sizes)} is dynamic in another dimension", 1)
    sizes[at] = -1 if batch.is_open else batch.grown(sizes[at])
    if not given or call.numbers(1) in (was.numbers(1), sizes):  # otherwise the shape is computed and needs no change
        yield Patch(1, np.array(sizes))


def patches(call: Call, was: Call, batch: Batch) -> Iterator[Patch]:
    """Yield the necessary changes to an operator's inputs. Raises RefusedError if the batch cannot be followed."""
    code = call.code
    if code == "RESHAPE":
        yield from _reshape(call, was, batch)
    elif batch.is_open:
        return
    elif code in STATES and call.shapes[0] != was.shapes[0]:
        yield from (Patch(slot) for slot in STATES[code] if _is_single(call, was, slot, 0, batch))
    elif code in _ALIKE:
        slots = range(len(call))
        axes = {batch.axis(was.shape(slot), call.shape(slot)) for slot in slots}
        grown = ((slot, axis) for axis in axes if axis is not None for slot in slots)
        yield from (Patch(slot, axis=axis) for slot, axis in grown if _is_single(call, was, slot, axis, batch))
    elif code == "TRANSPOSE_CONV":
        yield from _number(call, 0, 0 if batch.axis(was.shape(2), call.shape(2)) == 0 else None, batch)
    elif code == "BROADCAST_TO":
        axis = batch.axis(was.shape(), call.shape())
        yield from _number(call, 1, None if axis is None else axis - len(call.shape()) + call.shape(1)[0], batch)
    elif code in {"SLICE", "STRIDED_SLICE"}:
        yield from _whole(call, was, batch)


def _is_single(call: Call, was: Call, slot: int, axis: int, batch: Batch) -> bool:
    """Return whether an input has not grown although it holds the old batch in a dimension."""
    shape = call.shapes[slot] if slot < len(call) else None
    return shape is not None and shape == was.shapes[slot] and axis < len(shape) and shape[axis] == batch.before


def _number(call: Call, slot: int, at: int | None, batch: Batch) -> Iterator[Patch]:
    """Yield a replacement for a shape with the batch in one position, if it still has the old batch."""
    value = call.values[slot]
    if at is not None and value is not None and 0 <= at < value.size and value.reshape(-1)[at] == batch.before:
        sizes = call.numbers(slot)
        sizes[at] = batch.after
        yield Patch(slot, np.array(sizes))


def _whole(call: Call, was: Call, batch: Batch) -> Iterator[Patch]:
    """Yield a replacement for the end of a slice that covered the whole old batch."""
    axis = batch.axis(was.shape(), call.shape())
    if axis is None or call.values[1] is None or call.values[2] is None:
        return
    begin, end, size = call.numbers(1), call.numbers(2), was.shape()[axis]
    if call.code == "STRIDED_SLICE":
        bit = 1 << axis
        moved = call.option("ellipsis_mask") or call.option("new_axis_mask") or call.option("shrink_axis_mask") & bit
        if moved or call.option("end_mask") & bit or call.numbers(3)[axis] != 1:
            return
    if axis < len(end) and begin[axis] == 0 and end[axis] == size:
        end[axis] = call.shape()[axis]
        yield Patch(2, np.array(end))


def check_batch(call: Call, was: Call, results: tuple[list[Shape | None], list[Shape | None]], batch: Batch) -> None:
    """Raise RefusedError if an operator does not process the entries of the batch independently and in order."""
    inputs = _axes(zip(was.shapes, call.shapes, strict=True), batch)
    outputs = _axes(zip(*results, strict=True), batch)
    grown = [(slot, axis) for slot, axis in enumerate(inputs) if axis is not None]
    if not grown or call.code in {"SHAPE", "RANK"}:
        return
    ends = bool(outputs) and set(outputs) == {None} and None not in (*results[0], *results[1])
    refuse_unless(not ends, "its output has no batch dimension")
    for slot, axis in grown if call.code == "CONCATENATION" else grown[:1] if grown[0][0] == 0 else ():
        along = _ALONG[call.code](was, len(was.shape(slot))) if call.code in _ALONG else ()
        refuse_unless(axis not in along, f"it mixes the entries of the batch, dimension {axis} of its input {slot}")
    if call.code == "RESHAPE" or (call.code == "FULLY_CONNECTED" and not call.options.get("keep_num_dims")):
        at, result = outputs[0], results[0][0]
        before = element_count(was.shape()[: grown[0][1]])
        apart = at is None or result is None or element_count(result[:at]) == before
        refuse_unless(apart, f"it mixes the batch with dimension {at} of {shown(result)}", 1)


def _axes(pairs: Iterable[tuple[Shape | None, Shape | None]], batch: Batch) -> list[int | None]:
    return [None if one is None or other is None else batch.axis(one, other) for one, other in pairs]
