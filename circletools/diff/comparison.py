"""Compare two models: match objects whose index changed, then compare every field of the schema.

Buffers are matched by their data, operator codes by their fields, subgraphs and signatures by name, tensors and
operators by the paths of their origins if both models have origins, otherwise by names and outputs. An index (of a
tensor, a buffer, ...) is compared by the object it refers to, so an index shifted by an insertion is not a
difference. Neither is the layout of the file: external data is compared by its bytes.

Metadata entries, and the buffers that only they refer to, are compared elsewhere. All buffers without data count as
equal, including buffer 0, which stands for "no data".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.diff.alignment import Alignment, Indices, Keys, Levels, align
from circletools.diff.correspondence import (
    Matched,
    contents,
    custom_options,
    instance_keys,
    matched,
    neighbors,
    tensor_rows,
)
from circletools.flatbuf.comparison import Comparison, Difference, Pairs
from circletools.flatbuf.schema import RoleKind, Schema, load_roles
from circletools.model.indices import model_indices
from circletools.model.keys import Interning, mixed, row_keys, sample_keys
from circletools.model.model import Model

_OLD_LIST = ("Model", "metadata_buffer")


class ModelComparison:
    """The matched objects of two models, and their differences.

    `unknown` lists paths that cannot be compared because the schemas do not define them. Raises ModelFormatError if
    one of the models is broken.
    """

    def __init__(self, before: Model, after: Model) -> None:
        """Check the structure of both models and align them."""
        self.before: Model = before
        self.after: Model = after
        self._models = before, after
        self._names, self._tensor_names = Interning(), Interning()
        self.codes: Matched = matched([self._align_codes()])
        self._blank = _blank(before), _blank(after)
        self._contents = self._both(lambda model: sample_keys(model.wire.data, *_ranges(model)))
        self.buffers: Matched = matched([self._align_buffers()])
        self.subgraphs: Matched = matched([self._align_subgraphs()])
        self._instances = instance_keys(before, after)
        self._tensors = list(self._tensor_keys())
        self.tensors: Matched = self._matched("tensor_columns", self._tensor_levels())
        self.operators: Matched = self._matched("operator_columns", *self._operator_levels(self._instances))
        for by_reader in (False, True):
            # Matched operators fix the places of tensors, and matched tensors lead to further operators.
            if self.tensors.removed[0].size and self.tensors.added[0].size:
                self._match_by_place(by_reader=by_reader)
        self._engine = Comparison(before.schema, after.schema, self._field_rules(), self._number_rules())

    @property
    def unknown(self) -> list[str]:
        """Paths that were not compared; complete once `differences` is exhausted."""
        return self._engine.unknown

    def differences(self) -> Iterator[Difference]:
        """Yield all differences except those of metadata entries."""
        yield from self._engine.tables(Pairs(self.before.root, self.after.root, lambda _: ("", "")))

    # ------------------------------------------------------------------ matching

    def _both(self, keys: Callable[[Model], Keys]) -> tuple[Keys, Keys]:
        return keys(self.before), keys(self.after)

    def _align_codes(self) -> Alignment:
        codes = self.before.operator_codes, self.after.operator_codes
        whole = [self._names.keys((code.code, code.custom_code, code.version) for code in side) for side in codes]
        names = [self._names.keys(code.name for code in side) for side in codes]
        return align([(whole[0], whole[1]), (names[0], names[1])], by_place=True)

    def _align_buffers(self) -> Alignment:
        def readers(model: Model) -> Keys:
            """Key a buffer by the set of tensors that use it."""
            columns, keys = model.tensor_columns, np.zeros(len(model.buffers), np.uint64)
            inside = columns.buffers < len(keys)
            np.add.at(keys, columns.buffers[inside], mixed(self._tensor_names.keys(columns.names))[inside])
            return keys

        names, models = self._both(readers), self._models
        own = [~_of_metadata(model) for model in models]
        kept = [np.flatnonzero(each & ~blank) for each, blank in zip(own, self._blank, strict=True)]
        whole = [mixed(*keys) for keys in zip(self._contents, names, strict=True)]
        sizes = [_ranges(model)[1] for model in models]
        *levels, blunt = ((keys[0][kept[0]], keys[1][kept[1]]) for keys in (whole, self._contents, names, sizes))
        found = align(levels, [blunt], by_place=True)
        pairs = [kept[0][found.before], kept[1][found.after]]
        # Buffers without data have no order; two of them match if the same tensors use both.
        rest = [np.setdiff1d(np.flatnonzero(each)[1:], side) for each, side in zip(own, pairs, strict=True)]
        others = align([(names[0][rest[0]], names[1][rest[1]])])
        counts = len(self.before.buffers), len(self.after.buffers)
        sentinel = np.zeros(min(1, *counts), np.int64)
        before = np.concatenate([sentinel, pairs[0], rest[0][others.before]])
        after = np.concatenate([sentinel, pairs[1], rest[1][others.after]])
        moved = np.concatenate([sentinel, found.moved, 0 * others.before]).astype(np.bool_)
        order = np.argsort(before)
        return Alignment(before[order], after[order], moved[order], counts)

    def _align_subgraphs(self) -> Alignment:
        def name(model: Model) -> Keys:
            return self._names.keys(model.subgraph_tables.strings("name"))

        def whole(model: Model) -> Keys:
            """Key a subgraph by its name and its set of tensors."""
            columns = model.tensor_columns
            names = mixed(self._tensor_names.keys(columns.names))
            sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(names, dtype=np.uint64)))[columns.splits]
            return mixed(name(model), np.diff(sums))

        def operators(model: Model) -> Keys:
            """Key a subgraph by its name, its set of tensors, and its operators in order."""
            return mixed(whole(model), row_keys(self._code_keys(model), np.diff(model.operator_columns.splits)))

        return align([self._both(operators), self._both(whole), self._both(name)], by_place=True)

    def _code_keys(self, model: Model) -> Keys:
        """Key each operator by the name of its code."""
        codes = self._names.keys([*(code.name for code in model.operator_codes), ""])
        found: Keys = codes[np.minimum(model.operator_columns.code_indices, len(codes) - 1)]
        return found

    def _matched(self, kind: str, levels: Levels, blunt: Levels = ()) -> Matched:
        """Align the tables of matched subgraphs."""
        found, lists = [], (self.subgraphs.before, self.subgraphs.after)
        splits = self._both(lambda model: getattr(model, kind).splits)
        for pair in zip(*(side.tolist() for side in lists), strict=True):
            ours, theirs = (slice(own[at], own[at + 1]) for own, at in zip(splits, pair, strict=True))
            sharp, vague = ([(old[ours], new[theirs]) for old, new in some] for some in (levels, blunt))
            found.append(align(sharp, vague))
        return matched(found, lists, splits)

    def _tensor_keys(self) -> Iterator[tuple[Keys, Keys, Keys, Keys]]:
        """For each model, yield a mask of its constants, and keys of all tensors' names, shapes and contents."""
        columns = self.before.tensor_columns, self.after.tensor_columns
        types = _type_numbers(self.before.schema, self.after.schema, columns[0].types, columns[1].types)
        for side, one in enumerate(columns):
            filled = np.where(_marked_at(self._blank[side], one.buffers), 0, one.buffers)
            held = np.append(self._contents[side], np.uint64(0))[np.minimum(filled, len(self._contents[side]))]
            shapes = row_keys(one.shapes.flat(), one.shapes.count)
            content = mixed(types[side], shapes, held)
            yield filled > 0, self._tensor_names.keys(one.names), shapes, content

    def _tensor_levels(self) -> Levels:
        # Converters number generic names, so equal names prove little without an equal place in the graph.
        sides: list[list[Keys]] = []
        for side, (own, name, shape, content) in enumerate(self._tensors):
            model, new = self._models[side], ~np.isin(name, self._tensors[1 - side][1])
            made, read, known = neighbors(model, name, self._code_keys(model))
            whole = mixed(name, content)
            levels = [
                whole,
                *(np.where(own & (new | (side == other)), content, whole) for other in (0, 1)),
                np.where(own, mixed(name, shape, read), whole),
                np.where(own, mixed(known, shape), mixed(name, made)),
                np.where(own, content, whole),
                mixed(name, shape),
            ]
            if self._instances is not None:
                made, read, _ = neighbors(model, name, self._instances[side])
                called = np.where(own, read, made)
                levels.insert(0, np.where(called == 0, whole, called))
            sides.append(levels)
        return list(zip(*sides, strict=True))

    def _match_by_place(self, *, by_reader: bool) -> None:
        """Match the tensors left by their places in matched operators, then the operators left by those tensors.

        A tensor's producer is better evidence than its reader, so readers and contents count only with `by_reader`.
        """
        sides, count = [], len(self.tensors.rows)
        for side, (own, name, shape, content) in enumerate(self._tensors):
            made, read, _ = neighbors(self._models[side], name, self.operators.joint[side])
            made = np.where(made == 0, mixed(read, 1), made)  # an input of the subgraph
            place = np.where(own, mixed(read, shape), made)
            sides.append(
                (place, mixed(read, name), np.where(own | (read == 0), place, mixed(read, shape, 1)), content)
            )
        places, names, readers, contents = zip(*sides, strict=True)
        vague = ([readers], [contents]) if by_reader else ([], [])
        self.tensors = self._matched("tensor_columns", [self.tensors.joint, places, names, *vague[0]], vague[1])
        is_more = len(self.tensors.rows) > count
        if is_more and self.operators.removed[0].size and self.operators.added[0].size:
            self.operators = self._matched("operator_columns", *self._operator_levels(self.operators.joint))

    def _operator_levels(self, known: tuple[Keys, Keys] | None) -> tuple[Levels, Levels]:
        sides = []
        for side, model in enumerate(self._models):
            columns, tensors = model.operator_columns, partial(self.tensors.numbers, side)
            owner = np.repeat(np.arange(len(columns.splits) - 1), np.diff(columns.splits))
            code, shapes = self._code_keys(model), np.append(self._tensors[side][2], np.uint64(0))
            inputs, outputs = (
                row_keys(tensors(each.flat(), np.repeat(owner, each.count)), each.count)
                for each in (columns.inputs, columns.outputs)
            )
            whole, first = mixed(code, inputs, outputs), tensors(columns.first_outputs, owner)
            given = [np.nan_to_num(columns.inputs.element(slot), nan=-1) for slot in (1, 0)]
            by_input = [np.where(one < 0, whole, mixed(tensors(one, owner), code)) for one in given]
            sized = mixed(code, shapes[tensor_rows(model, columns.first_outputs)])
            by_input.append(np.where(given[0] < 0, whole, sized))
            sides.append((whole, mixed(first, code), *by_input, sized, code, first))
        levels = list(zip(*sides, strict=True))
        return ([*levels[:4]] if known is None else [known, *levels[:5]]), levels[5:]

    # ------------------------------------------------------------------ rules

    def _field_rules(self) -> Mapping[tuple[str, str], Callable[[Pairs], Iterator[Difference]]]:
        return {
            ("Model", "operator_codes"): self._listed("operator_codes", self.codes),
            ("Model", "buffers"): self._listed("buffers", self.buffers),
            ("Model", "subgraphs"): self._listed("subgraphs", self.subgraphs),
            ("SubGraph", "tensors"): self._listed("tensors", self.tensors),
            ("SubGraph", "operators"): self._listed("operators", self.operators),
            ("Model", "metadata"): lambda _: iter(()),
            ("Model", "signature_defs"): self._signatures,
            ("SignatureDef", "inputs"): lambda pairs: self._signature_entries(pairs, "inputs"),
            ("SignatureDef", "outputs"): lambda pairs: self._signature_entries(pairs, "outputs"),
            ("Buffer", "data"): lambda pairs: contents(self._engine, pairs, "data", ("offset", "size")),
            ("Buffer", "offset"): lambda _: iter(()),
            ("Buffer", "size"): lambda _: iter(()),
            ("Operator", "custom_options"): lambda pairs: custom_options(
                self._engine, pairs, self.before, self.after
            ),
            ("Operator", "large_custom_options_offset"): lambda _: iter(()),
            ("Operator", "large_custom_options_size"): lambda _: iter(()),
        }

    def _listed(self, name: str, found: Matched) -> Callable[[Pairs], Iterator[Difference]]:
        """Return the rule that compares a vector of tables with aligned elements."""

        def rule(pairs: Pairs) -> Iterator[Difference]:
            columns = (column[found.moved].tolist() for column in (found.rows, found.before, found.after))
            for row, *indices in zip(*columns, strict=True):
                paths = (
                    f"{path}{'.' * bool(path)}{name}[{at}]"
                    for path, at in zip(pairs.place(row), indices, strict=True)
                )
                yield Difference("moved", *paths, *indices)
            owners = (found.before, found.after) if name == "subgraphs" else None
            places = (found.rows, found.before), (found.rows, found.after)
            yield from self._engine.elements(pairs, name, *places, owners)
            removed, added = found.removed, found.added
            if name == "buffers":
                removed, added = map(_own_buffers, (self.before, self.after), self._blank, (removed, added))
            yield from self._engine.one_sided(pairs, name, "removed", removed)
            yield from self._engine.one_sided(pairs, name, "added", added)

        return rule

    def _signatures(self, pairs: Pairs) -> Iterator[Difference]:
        keys = self._both(lambda model: self._names.keys([signature.key for signature in model.signatures]))
        yield from self._listed("signature_defs", matched([align([keys], by_place=True)]))(pairs)

    def _signature_entries(self, pairs: Pairs, name: str) -> Iterator[Difference]:
        """Compare the entries of signatures by name."""
        sides = pairs.before.children(name, self.before.schema), pairs.after.children(name, self.after.schema)
        keys = [self._names.keys(tables.strings("name")) for tables, _ in sides]
        splits = [vectors.splits().tolist() for _, vectors in sides]
        found = []
        for row in range(len(pairs.before)):
            ours, theirs = (some[at[row] : at[row + 1]] for some, at in zip(keys, splits, strict=True))
            found.append(align([(ours, theirs)], by_place=True))
        old, new = (side.scalars("subgraph_index").astype(np.int64) for side in (pairs.before, pairs.after))
        owned = Pairs(pairs.before, pairs.after, pairs.place, (old, new))
        yield from self._listed(name, matched(found))(owned)

    def _number_rules(self) -> dict[tuple[str, str], Any]:
        def by(found: Matched) -> Callable[..., tuple[Keys, Keys]]:
            return lambda _pairs, _rows, old, new: (found.numbers(0, old), found.numbers(1, new))

        def buffers(_pairs: Pairs, _rows: Indices, old: Keys, new: Keys) -> tuple[Keys, Keys]:
            numbers = self.buffers.numbers(0, old, least=1), self.buffers.numbers(1, new, least=1)
            no_data = _marked_at(self._blank[0], old) & _marked_at(self._blank[1], new)
            numbers[1][no_data] = numbers[0][no_data]
            return numbers

        def of_metadata(pairs: Pairs, rows: Indices, old: Keys, new: Keys) -> tuple[Keys, Keys]:
            """Compare the obsolete list of metadata buffers by the names of their entries."""
            numbers = buffers(pairs, rows, old, new)
            for model, indices, known in zip((self.before, self.after), (old, new), numbers, strict=True):
                names = {entry.buffer: entry.name for entry in reversed(model.metadata)}
                own = _marked_at(_of_metadata(model), indices)
                known[own] = -1 - self._names.keys(names[index] for index in indices[own].tolist()).astype(np.int64)
            return numbers

        def tensors(pairs: Pairs, rows: Indices, old: Keys, new: Keys) -> tuple[Keys, Keys]:
            """Number the tensors of matched subgraphs; indices in other subgraphs are compared unchanged."""
            assert pairs.owners is not None
            owners = pairs.owners[0][rows], pairs.owners[1][rows]
            graphs = [self.subgraphs.numbers(side, one) for side, one in enumerate(owners)]
            known = (graphs[0] == graphs[1]) & (owners[0] < len(self.tensors.splits[0]) - 1)
            found = old.astype(np.int64), new.astype(np.int64)
            for side, own in enumerate(owners):
                found[side][known] = self.tensors.numbers(side, found[side][known], own[known])
            return found

        schemas = self.before.schema, self.after.schema
        rules: dict[RoleKind, Any] = {
            "buffer": buffers,
            "operator_code": by(self.codes),
            "subgraph": by(self.subgraphs),
            "tensor": tensors,
            "tensor_type": lambda _pairs, _rows, old, new: _type_numbers(*schemas, old, new),
        }
        known = {key: rules[role.kind] for key, role in load_roles().items() if role.kind in rules}
        return known | {_OLD_LIST: of_metadata}


def _ranges(model: Model) -> tuple[Indices, Indices]:
    """Return the start and length of each buffer's data, clipped to the file."""
    buffers = model.buffers
    size = np.uint64(model.wire.size)
    start = np.where(buffers.external, np.minimum(buffers.offsets, size), buffers.data.start.astype(np.uint64))
    count = np.where(buffers.external, buffers.sizes, buffers.data.count.astype(np.uint64))
    return start.astype(np.int64), np.minimum(count, size - start).astype(np.int64)


def _named_by_structure(model: Model) -> NDArray[np.bool_]:
    """Return a mask of the buffers that something other than metadata refers to, and of buffer 0."""
    count = len(model.buffers)
    named = np.zeros(count, np.bool_)
    for indices in model_indices(model, "buffer"):
        if indices.key[0] != "Metadata" and indices.key != _OLD_LIST:
            named[indices.values[(indices.values >= 0) & (indices.values < count)]] = True
    named[:1] = True
    return named


def _of_metadata(model: Model) -> NDArray[np.bool_]:
    """Return a mask of the buffers that only metadata entries refer to."""
    entries = np.zeros(len(model.buffers), np.bool_)
    entries[[entry.buffer for entry in model.metadata if entry.buffer < len(entries)]] = True
    return entries & ~_named_by_structure(model)


def _blank(model: Model) -> NDArray[np.bool_]:
    """Return a mask of the buffers without data, such as buffer 0; an empty data vector counts as data."""
    blank = ~model.buffers.external & ~model.buffers.tables.has("data")
    blank[:1] = True
    return blank


def _marked_at(marked: NDArray[np.bool_], indices: Keys) -> NDArray[np.bool_]:
    """Return whether each index refers to a marked element."""
    return np.append(marked, False)[np.minimum(indices, len(marked))]


def _own_buffers(model: Model, blank: NDArray[np.bool_], which: tuple[Indices, Indices]) -> tuple[Indices, Indices]:
    """Return the rows and indices of the buffers to compare: all except metadata and unused empty buffers."""
    own = _named_by_structure(model) | (~_of_metadata(model) & (_ranges(model)[1] > 0))
    own[1:] &= ~blank[1:]
    return which[0][own[which[1]]], which[1][own[which[1]]]


def _type_numbers(before: Schema, after: Schema, old: Keys, new: Keys) -> tuple[Keys, Keys]:
    """Return tensor types as numbers with the same meaning in both formats."""
    if before.format == after.format:
        return old, new
    known = {name: value for value, name in before.enums["TensorType"].items()}
    values, places = np.unique(new, return_inverse=True)
    names = [after.enums["TensorType"].get(value) for value in values.tolist()]
    beyond = 1 << 10  # added to a type that the other format lacks
    same = [known.get(str(name), value + beyond) for name, value in zip(names, values.tolist(), strict=True)]
    return old.astype(np.int64), np.array(same, np.int64)[places]
