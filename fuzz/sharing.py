"""A fuzzer that shares: objects in very many places and over each other, and the budget as the property.

    python -m fuzz.sharing --count 200 --seed 1 [--without-budget] [--rows]

A changed model is followed by a copy of it, in whose objects references of the first end: a vector of tables becomes
one of very many references to a table of the copy, whose strings and vectors become long ones, which others share or
lie in. What the official verifier takes goes through the works of the commands, each in a process of its own. What
takes more than 5 seconds of the processor, or 200 MB and 10 times the file, is a finding.

`--rows` passes over files in which other things are shared than in one of `ROWS`, the kinds of files for which the
budget was made (or of those named behind it), until `--count` of the kind have been tried. It says how many files it
took until one cost too much.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np

from circletools.affinity.exports.model_explorer import model_explorer_data
from circletools.affinity.exports.placement import current_affinity
from circletools.check import check
from circletools.diff.difference import compare_models
from circletools.edit.compact import compact_parts
from circletools.edit.edit import ModelEdit
from circletools.errors import CircleToolsError
from circletools.fit.fit import fit
from circletools.fit.request import FitRequest
from circletools.flatbuf.budget import Budget
from circletools.flatbuf.columns import Tables
from circletools.flatbuf.schema import Field
from circletools.flatbuf.verify import walk
from circletools.graph.build import model_graph
from circletools.inspection import inspect_model
from circletools.model.digests import content_digests
from circletools.model.model import Model, open_model
from circletools.origin.describe import describe
from circletools.origin.embed import embed
from circletools.outputs.fixing import fix_outputs
from circletools.render.difference import difference_json, difference_text
from circletools.render.fit import fit_json
from circletools.render.inspection import inspection_json, inspection_text
from circletools.render.origins import origins_json
from circletools.storage.files import view
from fuzz import seeds

SECONDS, BYTES, TIMES = 5, 200 << 20, 10
_STOP_SECONDS, _STOP_BYTES = 8, 1 << 30
_LONGEST, _LONGEST_VTABLE = 1 << 20, (1 << 16) - 4


def _edited(change: Callable[[ModelEdit], object]) -> Callable[[Model], object]:
    def work(model: Model) -> object:
        edit = ModelEdit(model)
        change(edit)
        return edit.to_bytes()

    return work


def _compared(model: Model) -> None:
    found = compare_models(model, model)
    json.dumps(difference_json(found, model, model))
    with open_model(seeds.model_seed("circle/inception")) as other:
        list(difference_text(compare_models(other, model), other, model, full=True))


WORKS: dict[str, Callable[[Model], object]] = {
    "check": check,
    "inspect": lambda model: (
        list(inspection_text(found := inspect_model(model))),
        json.dumps(inspection_json(found)),
    ),
    "compact": lambda model: b"".join(map(view, compact_parts(model))),
    "diff": _compared,
    "embed-origins": _edited(embed),
    "fix-outputs": _edited(fix_outputs),
    "dump-origins": lambda model: json.dumps(origins_json(describe(model))),
    "fit": lambda model: json.dumps(fit_json(fit(model, FitRequest(on=("xnnpack", "onert-cpu"))))),
    "digest": content_digests,
    "export": lambda model: json.dumps(model_explorer_data(model_graph(model), current_affinity(model_graph(model)))),
}


class Row(NamedTuple):
    """A kind of file: the references that are led elsewhere, and works that may cost too much without the budget."""

    places: frozenset[str]
    works: tuple[str, ...]


ROWS = {
    "an operator with long custom options in very many places": Row(
        frozenset({"SubGraph.operators", "Operator.custom_options"}), ("check", "inspect", "diff", "fit")
    ),
    "long buffers that lie over each other": Row(
        frozenset({"Model.buffers", "Buffer.data"}), ("compact", "diff", "digest")
    ),
    "very many buffers, with a long vtable": Row(frozenset({"Model.buffers", "Buffer"}), ("compact", "diff")),
    "a tensor with a long name, very often an output": Row(
        frozenset({"SubGraph.outputs", "Tensor.name"}), ("inspect", "check", "embed-origins", "fix-outputs", "diff")
    ),
    "a metadata entry in very many places": Row(frozenset({"Model.metadata"}), ("diff",)),
}


class Leaf(NamedTuple):
    """A change of tables of a type: of `item`, a string or vector of numbers, or of their vtables if that is None."""

    rows: Tables
    item: Field | None
    length: int
    apart: int
    is_zero: bool
    in_copy: bool

    @property
    def place(self) -> str:
        """What is changed."""
        return self.rows.type.name + ("" if self.item is None else f".{self.item.name}")


@cache
def _parts(data: bytes) -> tuple[dict[str, Tables], list[tuple[str, str, str]], list[tuple[Tables, Field]]]:
    """Return the tables of a model, its vectors of tables (type, field, type of the elements), and its leaves."""
    tables = dict(open_model(data).reachable.tables)
    fields = [(rows, item) for rows in tables.values() for item in rows.type.fields if rows.has(item.name).any()]
    return (
        tables,
        [(rows.type.name, item.name, str(item.target)) for rows, item in fields if _is_vector(item, tables)],
        [(rows, item) for rows, item in fields if item.kind in ("string", "vector") and item.target is None],
    )


def _is_vector(item: Field, tables: Mapping[str, Tables]) -> bool:
    return item.kind == "vector" and item.target in tables


def shared(data: bytes, random: Random, wanted: frozenset[str] = frozenset()) -> bytes | None:
    """Return the model with some of its references led to very many, very long or overlapping objects behind it.

    None where other references are chosen than those that are wanted, in the words of `Row.places`.
    """
    tables, vectors, leaves = _parts(data)
    owner, field, target = random.choice(vectors)
    count = 4 ** random.randrange(3, 11)  # up to a million
    chosen = random.sample(tables[target].at.tolist(), min(len(tables[target]), random.choice((1, 1, 1, 2, 9))))
    owners = random.choice((1, 1000))
    changes = [_leaf(random, tables, leaves) for _ in range(random.randrange(4))]
    if not wanted <= {f"{owner}.{field}", *(one.place for one in changes)}:
        return None
    behind = len(data) + -len(data) % 64
    start = behind + 4 + 4 * count
    start += -start % 64  # of the copy
    changed = bytearray(data.ljust(behind, b"\0"))
    for at in _filled(tables[owner], field)[:owners]:
        changed[at : at + 4] = (behind - at).to_bytes(4, "little")
    at_elements = behind + 4 + 4 * np.arange(count, dtype=np.int64)
    elements = (start + np.resize(np.array(chosen), count) - at_elements).astype("<u4").tobytes()
    changed += count.to_bytes(4, "little") + elements
    changed = changed.ljust(start, b"\0") + data
    for one in changes:
        (_lengthen if one.item else _widen)(changed, one, start if one.in_copy else 0)
    return bytes(changed)


def _leaf(random: Random, tables: Mapping[str, Tables], leaves: Sequence[tuple[Tables, Field]]) -> Leaf:
    rows, item = random.choice(leaves)
    settings = random.choice((1 << 12, 1 << 16, _LONGEST)), random.choice((0, 0, 4)), random.random() < 0.5
    in_copy = random.random() < 0.7
    if random.random() < 0.2:
        return Leaf(random.choice(list(tables.values())), None, *settings, in_copy)
    return Leaf(rows, item, *settings, in_copy)


def _filled(rows: Tables, field: str) -> list[int]:
    positions = rows.slot_positions(rows.field(field).slot)
    return list(positions[positions != 0].tolist())


def _widen(changed: bytearray, leaf: Leaf, start: int) -> None:
    """Give tables of a type that have one vtable a copy of it that is as long as can be."""
    rows = leaf.rows
    vtable = int(rows.vtable[0])
    changed.extend(bytes(-len(changed) % 16))
    begin, size = len(changed), int(rows.vtable_bytes[0])
    changed.extend(_LONGEST_VTABLE.to_bytes(2, "little"))
    changed.extend(changed[vtable + 2 : vtable + size].ljust(_LONGEST_VTABLE - 2, b"\0"))
    for at in rows.at[rows.vtable == vtable].tolist():
        changed[at + start : at + start + 4] = (at + start - begin).to_bytes(4, "little", signed=True)


def _lengthen(changed: bytearray, leaf: Leaf, start: int) -> None:
    """Let a string or vector of numbers of tables of a type be a long one at the end, or lie over each other."""
    assert leaf.item is not None
    width = leaf.item.element.itemsize
    length, places = leaf.length // width, _filled(leaf.rows, leaf.item.name)[: 1 << 16]
    changed.extend(bytes(-len(changed) % 16))
    begin = len(changed)
    # Each word is the length: so a vector can begin at any of them. Its last byte is 0, as the end of a string is.
    words = np.full(len(places) * (leaf.apart > 0) + length * width // 4 + 2, length, "<u4")
    if leaf.is_zero and not leaf.apart:
        words[1:] = 0  # indices that lead somewhere
    changed.extend(words.tobytes())
    for index, at in enumerate(places):
        here = at + start
        changed[here : here + 4] = (begin + leaf.apart * index - here).to_bytes(4, "little")


class Cost(NamedTuple):
    """What a work took, in a process of its own."""

    work: str
    seconds: float
    more_bytes: int

    def excessive(self, size: int) -> bool:
        """Say whether that is more than a file of this size justifies."""
        return self.seconds > SECONDS or self.more_bytes > TIMES * size + BYTES


def cost(name: str, data: bytes) -> Cost:
    """Do a work with a model in a child; a refusal is fine. What it does not end with counts as all it may have."""
    page = resource.getpagesize()
    before = [int(pages) * page for pages in Path("/proc/self/statm").read_text("ascii").split()]
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (_STOP_SECONDS, _STOP_SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (before[0] + _STOP_BYTES, before[0] + _STOP_BYTES))
        try:
            with suppress(CircleToolsError), open_model(data) as model:
                WORKS[name](model)
        except MemoryError:
            os._exit(1)
        os._exit(0)
    _, status, used = os.wait4(child, 0)
    more = (used.ru_maxrss << 10) - before[1] if status == 0 else _STOP_BYTES
    return Cost(name, used.ru_utime + used.ru_stime, more)


def accepted(data: bytes) -> bool:
    """Say whether the official verifier takes the file."""
    with suppress(CircleToolsError), open_model(data) as model:
        walk(model.wire, model.schema)
        return True
    return False


def excesses(random: Random, models: list[bytes]) -> Iterator[tuple[bytes, list[Cost]]]:
    """Yield files that the official verifier takes, each with what cost too much."""
    while True:
        data = shared(random.choice(models), random)
        if data is not None and accepted(data):
            yield data, [one for one in (cost(name, data) for name in WORKS) if one.excessive(len(data))]


def first_of(row: Row, random: Random, models: list[bytes], tries: int) -> tuple[int, Cost | None]:
    """Return how many files were made until one of a kind cost too much, and what; None where so many did not."""
    made = 0
    while tries:
        made += 1
        data = shared(random.choice(models), random, row.places)
        if data is not None and accepted(data):
            tries -= 1
            for name in row.works:
                found = cost(name, data)
                if found.excessive(len(data)):
                    return made, found
    return made, None


def main() -> int:
    """Look for files that cost too much; return 1 where there is one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without-budget", action="store_true")
    parser.add_argument("--rows", nargs="*", metavar="ROW")
    asked = parser.parse_args()
    if asked.without_budget:
        Budget.charge = lambda *_: None  # type: ignore[method-assign]
    found: Counter[str] = Counter()
    sound = [data for data in seeds.models() if accepted(data)]
    if asked.rows is not None:
        for name in asked.rows or ROWS:
            made, one = first_of(ROWS[name], Random(asked.seed), sound, asked.count)
            cause = "nothing" if one is None else f"{one.work}: {one.seconds:.1f} s, {one.more_bytes >> 20} MiB more"
            print(f"{name}: {cause}, after {made} files", flush=True)
            found[name] += one is not None
        return int(any(found.values()))
    for number, (data, costs) in enumerate(islice(excesses(Random(asked.seed), sound), asked.count)):
        for one in costs:
            found[one.work] += 1
            print(number, len(data), f"{one.work}: {one.seconds:.1f} s, {one.more_bytes >> 20} MiB more", flush=True)
    print(asked.count, "files,", found.total(), "excesses", dict(found))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
