"""Translate indices of the second model into those of the first, given an alignment.

tensor 7 of the second model is tensor 5 of the first      5
tensor 8 of the second model is new                        a number beyond the tensors of the first
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.diff.alignment import Alignment, Indices, Keys
from circletools.errors import ModelFormatError
from circletools.flatbuf.columns import Tables, places_in_rows
from circletools.flatbuf.comparison import Comparison, Difference, Pairs, first_differing_byte, same_bytes
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.model.external import FILE_OFFSETS, external_data
from circletools.model.keys import Interning, mixed
from circletools.model.model import Model
from circletools.origin.read import Origins, current_origins

# --- compare the bytes of buffers and custom options, in the flatbuffer or after it ----------------------------


def custom_options(engine: Comparison, pairs: Pairs, before: Model, after: Model) -> Iterator[Difference]:
    """Compare custom options; if they give the position of a compiled program, compare the program instead."""
    old, new = _programs(before), _programs(after)
    known = np.isin(pairs.before.at, list(old)) & np.isin(pairs.after.at, list(new))
    rest = pairs.take(np.flatnonzero(~known))
    yield from contents(engine, rest, "custom_options", ("large_custom_options_offset", "large_custom_options_size"))
    for row in np.flatnonzero(known).tolist():
        (raw, offset, program), (other, there, second) = old[int(pairs.before.at[row])], new[int(pairs.after.at[row])]
        path, path_after = (f"{place}.custom_options" for place in pairs.place(row))
        if FILE_OFFSETS["Operator", "custom_options"](other, offset - there) != raw:
            yield Difference("changed", path, path_after, {"count": len(raw)}, {"count": len(other)})
        elif not same_bytes(program, second):
            counts = ({"program_bytes": len(one)} for one in (program, second))
            yield Difference("changed", path, path_after, *counts)


def _programs(model: Model) -> dict[int, tuple[bytes, int, memoryview]]:
    """Return custom options, and the offset and bytes of the program, by the position of the operator's table."""
    tables, memory = model.operator_columns.tables, model.wire.memory
    programs = {}
    for data in external_data(model):
        if data.kind == "bytecode":
            options = tables.take(data.rows).vectors("custom_options")
            places = zip(data.rows.tolist(), data.offsets.tolist(), data.sizes.tolist(), strict=True)
            for index, (row, offset, size) in enumerate(places):
                raw = options.row(index).tobytes()
                programs[int(tables.at[row])] = raw, offset, memory[offset : offset + size]
    return programs


def contents(engine: Comparison, pairs: Pairs, name: str, outside: tuple[str, str]) -> Iterator[Difference]:
    """Compare data in a vector of bytes, or at the file position given by the fields `outside`."""
    places = [[tables.scalars(field) for field in outside] for tables in (pairs.before, pairs.after)]
    outer = places[0][0] > 1, places[1][0] > 1
    external = outer[0] | outer[1]
    item = pairs.before.field(name)
    # LiteRT prefers data in the flatbuffer.
    yield from engine.vectors(pairs.take(np.flatnonzero(outer[0] == outer[1])), item)
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


# --- keys of operators and tensors from origins: the instance paths that two exports of a network share --------


_PATH = re.compile(r"[./]|::")


def instance_keys(before: Model, after: Model) -> tuple[Keys, Keys] | None:
    """Return a key for each operator of both models, or None unless both models have up-to-date origins."""
    sides = model_graph(before), model_graph(after)
    old, new = map(current_origins, sides)
    if old is None or new is None:
        return None
    names = Interning()
    return _keys(sides[0], old, names, 0), _keys(sides[1], new, names, 1)


def _keys(model: ModelGraph, origins: Origins, names: Interning, side: int) -> Keys:
    """Key an operator by its code, its sources' calls or paths, and its position among operators that share both.

    A source that has only a name, no call or path, does not count; operators without other sources have unique keys.
    """
    texts: dict[int, tuple[str, ...]] = {}
    for source, name in origins.sources.items():
        one = origins.details_of(source)
        if one.call or _PATH.search(one.path or name):
            texts[source] = (one.path, one.call) if one.call else (one.path or name,)
    operators: list[object] = []
    for graph in model.graphs:
        groups: dict[object, list[int]] = {}
        own: list[object] = [(side, graph.index, operator) for operator in range(len(graph))]
        for operator, code in enumerate(graph.operators.code_names):
            found = {texts[source] for source in origins.of(graph.index, operator) if source in texts}
            if found:
                groups.setdefault((code, *sorted(found)), []).append(operator)
        for number, some in zip(names.keys(groups).tolist(), groups.values(), strict=True):
            for place, operator in enumerate(some):
                own[operator] = (number, len(some), place)
        operators += own
    return names.keys(operators)


def tensor_rows(model: Model, values: NDArray[Any], operators: Indices | slice = slice(None)) -> Indices:
    """Return the rows of tensors, given their indices in the subgraphs of `operators`; -1 if there is none."""
    splits, ends = model.tensor_columns.splits, model.operator_columns.splits
    owners = np.repeat(np.arange(len(ends) - 1), np.diff(ends))[operators]
    inside = (values >= 0) & (values < np.diff(splits)[owners])
    return np.where(inside, splits[owners] + np.nan_to_num(values).astype(np.int64), -1)


def neighbors(model: Model, names: Keys, operators: Keys) -> Keys:
    """Key each tensor by its producer, by its last reader and the slot, and by these and that reader's output.

    `names` and `operators` are keys; 0 means none. A reader of a DEQUANTIZE's output counts as a reader of its input,
    since exporters put a DEQUANTIZE after each float16 weight. If a quantizer copies a constant for some readers, the
    last reader keeps the original.
    """
    columns = model.operator_columns
    titles = np.array([*(code.name for code in model.operator_codes), ""])
    unpacks = titles[np.minimum(columns.code_indices, len(titles) - 1)] == "DEQUANTIZE"
    found = np.zeros((3, len(model.tensor_columns.types) + 1), np.uint64)  # the last column stands for no tensor
    firsts = tensor_rows(model, columns.first_outputs)
    for vectors, keys in ((columns.inputs, found[1:]), (columns.outputs, found[:1])):
        rows, slots = np.repeat(np.arange(len(vectors.count)), vectors.count), places_in_rows(vectors.count)
        at = tensor_rows(model, vectors.flat(), rows)
        for key, ends in zip(keys, (0 * rows, np.append(names, 0)[firsts[rows]]), strict=False):
            key[at] = mixed(operators[rows], slots, ends)
    sources = tensor_rows(model, columns.inputs.element(0))[unpacks]
    found[1:, sources] = found[1:, firsts[unpacks]]
    return found[:, :-1]


@dataclass(frozen=True)
class Matched:
    """The matched elements of lists of both models, such as the tensors of each subgraph.

    `lists` holds the numbers of the matched lists, and `splits` the start of each list among all elements of a model.
    For each pair of elements, `rows` is its pair of lists; `before` and `after` are its indices in them.
    """

    lists: tuple[Indices, Indices]
    splits: tuple[Indices, Indices]
    rows: Indices
    before: Indices
    after: Indices
    moved: NDArray[np.bool_]
    removed: tuple[Indices, Indices]
    added: tuple[Indices, Indices]

    @property
    def pairs(self) -> tuple[Indices, Indices]:
        """The positions of the pairs among all elements of each model."""
        old, new = (splits[lists[self.rows]] for splits, lists in zip(self.splits, self.lists, strict=True))
        return old + self.before, new + self.after

    @cached_property
    def joint(self) -> tuple[Indices, Indices]:
        """A number for each element of both models; matched elements have the same."""
        (old, new), (first, second) = self.pairs, (int(splits[-1]) for splits in self.splits)
        partner = first + np.arange(second)
        partner[new] = old
        return np.arange(first), partner

    def numbers(self, side: int, values: NDArray[Any], owners: Indices | int = 0, *, least: int = 0) -> Indices:
        """Number elements of both models jointly, given their indices in the lists `owners` of one model.

        Indices below `least` stay as they are; invalid ones follow all others.
        """
        splits, total = self.splits[side], int(self.splits[0][-1] + self.splits[1][-1])
        values, count = values.astype(np.int64), np.diff(splits)[owners]
        inside = (values >= least) & (values < count)
        beyond = np.where(values < least, values, values - count + total)
        numbers = np.where(inside, splits[owners] + values, beyond)
        if side:
            numbers[inside] = self.joint[1][numbers[inside]]
        return numbers


def matched(
    alignments: Sequence[Alignment],
    lists: tuple[Indices, Indices] | None = None,
    splits: tuple[Indices, Indices] | None = None,
) -> Matched:
    """Join the alignments of lists; without `lists` and `splits`, there are no other lists."""

    def joined(columns: list[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate([np.zeros(0, np.int64), *columns])

    def rows(columns: list[Indices]) -> Indices:
        return np.repeat(np.arange(len(columns)), [len(one) for one in columns])

    every = np.arange(len(alignments))
    counts = ([one.counts[side] for one in alignments] for side in (0, 1))
    whole = [np.concatenate(([0], np.cumsum(sizes, dtype=np.int64))) for sizes in counts]
    before, after = ([getattr(one, name) for one in alignments] for name in ("before", "after"))
    removed, added = (
        [np.delete(np.arange(one.counts[side]), own) for one, own in zip(alignments, some, strict=True)]
        for side, some in enumerate((before, after))
    )
    return Matched(
        lists or (every, every),
        splits or (whole[0], whole[1]),
        rows(before),
        joined(before),
        joined(after),
        joined([one.moved for one in alignments]).astype(np.bool_),
        (rows(removed), joined(removed)),
        (rows(added), joined(added)),
    )
