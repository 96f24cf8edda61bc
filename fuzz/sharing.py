"""A fuzzer that shares: objects in very many places and over each other, and the budget as the property.

    python -m fuzz.sharing --count 200 --seed 1 [--without-budget]

A changed model is followed by a copy of it, in whose objects references of the first end: a vector of tables becomes
one of very many references to a table of the copy, whose strings and vectors become long ones, which others share or
lie in. What the official verifier takes goes through the works of the commands, each in a process of its own. What
takes more than 5 seconds of the processor, or 200 MB and 10 times the file, is a finding.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
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
from circletools.flatbuf.verify import walk
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
_LONGEST = 1 << 20


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
    "export": lambda model: json.dumps(model_explorer_data(model, current_affinity(model))),
}


def shared(data: bytes, random: Random) -> bytes:
    """Return the model with some of its references led to very many, very long or overlapping objects behind it."""
    behind = len(data) + -len(data) % 64
    with open_model(data) as model:
        tables = dict(model.reachable.tables)
        vectors = list(_vectors(tables))
        owner, field, target = random.choice(vectors)
        count = 4 ** random.randrange(3, 11)  # up to a million
        start = behind + 4 + 4 * count
        start += -start % 64  # of the copy
        chosen = random.sample(tables[target].at.tolist(), min(len(tables[target]), random.choice((1, 1, 1, 2, 9))))
        changed = bytearray(data.ljust(behind, b"\0"))
        for at in _filled(tables[owner], field)[: random.choice((1, 1000))]:
            changed[at : at + 4] = (behind - at).to_bytes(4, "little")
        at_elements = behind + 4 + 4 * np.arange(count, dtype=np.int64)
        elements = (start + np.resize(np.array(chosen), count) - at_elements).astype("<u4").tobytes()
        changed += count.to_bytes(4, "little") + elements
        changed = changed.ljust(start, b"\0") + data
        for _ in range(random.randrange(4)):
            _lengthen(changed, tables, start if random.random() < 0.7 else 0, random)
    return bytes(changed)


def _vectors(tables: dict[str, Tables]) -> Iterator[tuple[str, str, str]]:
    """Yield the vectors of tables that there are: type, field, type of the elements."""
    for name, rows in tables.items():
        for item in rows.type.fields:
            if item.kind == "vector" and item.target in tables and rows.has(item.name).any():
                yield name, item.name, str(item.target)


def _filled(rows: Tables, field: str) -> list[int]:
    positions = rows.slot_positions(rows.field(field).slot)
    return list(positions[positions != 0].tolist())


def _lengthen(changed: bytearray, tables: dict[str, Tables], start: int, random: Random) -> None:
    """Let a string or vector of numbers of tables of a type be a long one at the end, or lie over each other."""
    leaves = [
        (rows, item)
        for rows in tables.values()
        for item in rows.type.fields
        if item.kind in ("string", "vector") and item.target is None and rows.has(item.name).any()
    ]
    rows, item = random.choice(leaves)
    length = random.choice((1 << 12, 1 << 16, _LONGEST)) // item.element.itemsize
    apart = random.choice((0, 0, 4))
    places = _filled(rows, item.name)[: 1 << 16]
    changed.extend(bytes(-len(changed) % 16))
    begin = len(changed)
    # Each word is the length: so a vector can begin at any of them. Its last byte is 0, as the end of a string is.
    words = len(places) * (apart > 0) + length * item.element.itemsize // 4 + 2
    changed.extend(np.full(words, length, "<u4").tobytes())
    for index, at in enumerate(places):
        here = at + start
        changed[here : here + 4] = (begin + apart * index - here).to_bytes(4, "little")


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
        if accepted(data):
            yield data, [one for one in (cost(name, data) for name in WORKS) if one.excessive(len(data))]


def main() -> int:
    """Look for files that cost too much; return 1 where there is one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without-budget", action="store_true")
    asked = parser.parse_args()
    if asked.without_budget:
        Budget.charge = lambda *_: None  # type: ignore[method-assign]
    found: Counter[str] = Counter()
    sound = [data for data in seeds.models() if accepted(data)]
    for number, (data, costs) in enumerate(islice(excesses(Random(asked.seed), sound), asked.count)):
        for one in costs:
            found[one.work] += 1
            print(number, len(data), f"{one.work}: {one.seconds:.1f} s, {one.more_bytes >> 20} MiB more", flush=True)
    print(asked.count, "files,", found.total(), "excesses", dict(found))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
