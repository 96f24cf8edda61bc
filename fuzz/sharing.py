"""A fuzzer that makes objects shared or overlapping, and checks that costs stay within the budget.

    python -m fuzz.sharing --count 200 --seed 1 [--lines N] [--models FOLDER] [--without-budget] [--rows]

A changed model is followed by a copy of itself, into which references of the first lead: a vector of tables becomes
one of very many references to a table of the copy, whose strings and vectors become long ones that others share or
overlap. Files that the official verifier accepts are passed to all commands, or N of them, each in a separate
process. More than 5 seconds of processor time, or memory or output above 200 MB plus 10 times the file size, is a
finding; the file is then saved in the folder for temporary files.

`--rows` tests only files of the kinds in `ROWS`, for which the budget was made (or only the named kinds), until
`--count` files of each kind have been tried. It prints the number of files until one exceeded the limits.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory, gettempdir
from typing import NamedTuple

import numpy as np

from circletools.errors import CircleToolsError
from circletools.flatbuf.columns import Budget, Tables
from circletools.flatbuf.schema import Field
from circletools.flatbuf.verify import walk
from circletools.model.model import open_model
from fuzz import seeds
from fuzz.commands import commands_for, load, run, words_of

SECONDS, BYTES, TIMES = 5, 200 << 20, 10
_STOP_SECONDS, _STOP_BYTES = 8, 1 << 30
_SMALL = 200_000
_LONGEST, _LONGEST_VTABLE = 1 << 20, (1 << 16) - 4


LINES = tuple(dict.fromkeys(line for kind in ("models", "tables") for line in commands_for(kind) if "{}" in line))
"""The command lines of all commands that read models."""


class Row(NamedTuple):
    """A kind of file: the redirected references, and commands that cost too much without the budget."""

    places: frozenset[str]
    commands: tuple[str, ...]


ROWS = {
    "an operator with long custom options in very many places": Row(
        frozenset({"SubGraph.operators", "Operator.custom_options"}), ("check", "inspect", "diff", "fit")
    ),
    "long buffers that overlap": Row(frozenset({"Model.buffers", "Buffer.data"}), ("compact", "diff", "digest")),
    "very many buffers, with a long vtable": Row(frozenset({"Model.buffers", "Buffer"}), ("compact", "diff")),
    "a tensor with a long name, very often an output": Row(
        frozenset({"SubGraph.outputs", "Tensor.name"}), ("inspect", "check", "embed-origins", "fix-outputs", "diff")
    ),
    "a metadata entry in very many places": Row(frozenset({"Model.metadata"}), ("diff",)),
}


class Leaf(NamedTuple):
    """A change to tables of a type: to `item`, a string or vector of numbers, or to their vtables if it is None."""

    rows: Tables
    item: Field | None
    length: int
    apart: int
    is_zero: bool
    in_copy: bool

    @property
    def place(self) -> str:
        """A description of what is changed."""
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
    """Return the model with some references redirected to very many, very long or overlapping objects after it.

    Returns None if the chosen references do not include all of `wanted`, in the form of `Row.places`.
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
    start += -start % 64  # the start of the copy
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
    """Give tables of a type that share one vtable a copy of that vtable of maximum length."""
    rows = leaf.rows
    vtable = int(rows.vtable[0])
    changed.extend(bytes(-len(changed) % 16))
    begin, size = len(changed), int(rows.vtable_bytes[0])
    changed.extend(_LONGEST_VTABLE.to_bytes(2, "little"))
    changed.extend(changed[vtable + 2 : vtable + size].ljust(_LONGEST_VTABLE - 2, b"\0"))
    for at in rows.at[rows.vtable == vtable].tolist():
        changed[at + start : at + start + 4] = (at + start - begin).to_bytes(4, "little", signed=True)


def _lengthen(changed: bytearray, leaf: Leaf, start: int) -> None:
    """Replace a string or vector of numbers in tables of a type by long or overlapping data at the end."""
    assert leaf.item is not None
    width = leaf.item.element.itemsize
    length, places = leaf.length // width, _filled(leaf.rows, leaf.item.name)[: 1 << 16]
    changed.extend(bytes(-len(changed) % 16))
    begin = len(changed)
    # Each word is the length, so a vector can begin at any word. The last byte is 0, as at the end of a string.
    words = np.full(len(places) * (leaf.apart > 0) + length * width // 4 + 2, length, "<u4")
    if leaf.is_zero and not leaf.apart:
        words[1:] = 0  # valid indices
    changed.extend(words.tobytes())
    for index, at in enumerate(places):
        here = at + start
        changed[here : here + 4] = (begin + leaf.apart * index - here).to_bytes(4, "little")


class Cost(NamedTuple):
    """The cost of a command line in a separate process; `bytes` is the larger of its memory and its output."""

    line: str
    status: int
    seconds: float
    bytes: int

    def excessive(self, size: int) -> bool:
        """Return whether the cost is more than a file of this size justifies."""
        return self.seconds > SECONDS or self.bytes > TIMES * size + BYTES or not 0 <= self.status <= 5


def cost(line: str, data: bytes) -> Cost:
    """Run a command line on a model in a child process; if it is stopped, it counts as using its whole limit."""
    page = resource.getpagesize()
    before = [int(pages) * page for pages in Path("/proc/self/statm").read_text("ascii").split()]
    with TemporaryDirectory() as folder:
        model, out = Path(folder, "hostile"), Path(folder, "out")
        model.write_bytes(data)
        child = os.fork()
        if child == 0:
            resource.setrlimit(resource.RLIMIT_CPU, (_STOP_SECONDS, _STOP_SECONDS))
            resource.setrlimit(resource.RLIMIT_AS, (before[0] + _STOP_BYTES, before[0] + _STOP_BYTES))
            run(words_of(line, model, out), Path(folder))
        _, status, used = os.wait4(child, 0)
        written = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) - len(data)
    ended = os.waitstatus_to_exitcode(status)
    more = max((used.ru_maxrss << 10) - before[1], written) if ended >= 0 else _STOP_BYTES
    return Cost(line, ended, used.ru_utime + used.ru_stime, more)


@cache
def _sound(folder: Path | None) -> list[bytes]:
    """Return the small models in a folder, or the seeds, that the official verifier accepts."""
    files = [] if folder is None else sorted(path for path in folder.rglob("*") if path.is_file())
    models = [path.read_bytes() for path in files if path.stat().st_size < _SMALL] if folder else seeds.models()
    return [data for data in models if accepted(data)]


def accepted(data: bytes) -> bool:
    """Return whether the official verifier accepts the file."""
    with suppress(CircleToolsError), open_model(data) as model:
        walk(model.wire, model.schema)
        return True
    return False


def excesses(random: Random, models: Sequence[bytes], lines: int) -> Iterator[tuple[bytes, list[Cost]]]:
    """Yield files that the official verifier accepts, each with the excessive costs of some commands."""
    while True:
        data = shared(random.choice(models), random)
        if data is not None and accepted(data):
            some = random.sample(LINES, min(lines, len(LINES)))
            yield data, [one for one in (cost(line, data) for line in some) if one.excessive(len(data))]


def first_of(row: Row, random: Random, models: Sequence[bytes], tries: int) -> tuple[int, Cost | None]:
    """Return the number of files made until one of a kind cost too much, and its cost, or None if none did."""
    made = 0
    while tries:
        made += 1
        data = shared(random.choice(models), random, row.places)
        if data is not None and accepted(data):
            tries -= 1
            for line in (line for line in LINES if line.split()[0] in row.commands):
                found = cost(line, data)
                if found.excessive(len(data)):
                    return made, found
    return made, None


def main() -> int:
    """Search for files that cost too much; return 1 if one is found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without-budget", action="store_true")
    parser.add_argument("--rows", nargs="*", metavar="ROW")
    parser.add_argument("--lines", type=int, default=len(LINES), help="how many command lines, for each file")
    parser.add_argument("--models", type=Path, help="a folder of models to start from")
    asked = parser.parse_args()
    if asked.without_budget:
        Budget.charge = lambda *_: None  # type: ignore[method-assign]
        os.environ["CIRCLETOOL_LIMITS"] = "off"
    load()
    found: Counter[str] = Counter()
    sound = _sound(asked.models)
    if asked.rows is not None:
        for name in asked.rows or ROWS:
            made, one = first_of(ROWS[name], Random(asked.seed), sound, asked.count)
            cause = "nothing" if one is None else f"{one.line.split()[0]}: {one.seconds:.1f} s, {one.bytes >> 20} MiB"
            print(f"{name}: {cause}, after {made} files", flush=True)
            found[name] += one is not None
        return int(any(found.values()))
    for number, (data, costs) in enumerate(islice(excesses(Random(asked.seed), sound, asked.lines), asked.count)):
        for one in costs:
            found[one.line] += 1
            Path(gettempdir(), f"excess-{asked.seed}-{number}").write_bytes(data)
            print(
                number, len(data), f"{one.line}: {one.status}, {one.seconds:.1f} s, {one.bytes >> 20} MiB", flush=True
            )
    print(asked.count, "files,", found.total(), "excesses", dict(found))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
