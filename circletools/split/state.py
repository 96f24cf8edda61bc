"""What a runtime keeps between operators other than by tensors that it hands on, and which operators use it.

A variable tensor keeps its value from run to run. Variables and hash tables live in the interpreter: operators name
them (`VAR_HANDLE` by container and name, `HASHTABLE` by number) and hand the name on in a RESOURCE tensor. An
operator does what the subgraphs that it calls do; `CALL_ONCE` gives first values. What nothing else writes may be in
several parts, each with its own operators that name it and give it its value; all else must be in one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from circletools.flatbuf.columns import Tables
from circletools.model.calls import Calls
from circletools.model.model import Model
from circletools.model.operator_facts import OperatorFacts
from circletools.model.views import text

Numbers = NDArray[np.int64]
Kept = str
"""What a runtime keeps, in words."""

_NAMING = {"VAR_HANDLE": "VarHandleOptions", "HASHTABLE": "HashtableOptions"}
_READING = frozenset(("READ_VARIABLE", "HASHTABLE_FIND", "HASHTABLE_SIZE"))
_ONCE = "CALL_ONCE"
_UNKNOWN: Kept = "what resources hold"


@dataclass(frozen=True, slots=True)
class State:
    """What operators of a subgraph keep.

    `users` has the operators that use what is written, ascending, at least one each. `copied` are operators that name
    something or give it its first value, with the operators that use it: each part of these needs its own.
    """

    users: Mapping[Kept, list[int]]
    copied: Mapping[int, list[int]]


@dataclass(frozen=True, slots=True)
class Uses:
    """What the operators of one subgraph use without its calls, what they name, and what of it is written."""

    by_operator: Mapping[int, set[Kept]]
    named: Mapping[int, Kept]
    written: frozenset[Kept]


def read_state(model: Model, subgraph: int) -> State:
    """Return what the operators of a subgraph keep. Raises ModelFormatError for a broken structure."""
    calls, first = Calls(model), int(model.operator_columns.splits[subgraph])
    facts = OperatorFacts(model, subgraph)
    own = uses_of(model, subgraph)
    used = {operator: set(kept) for operator, kept in own.by_operator.items()}
    written, giving = set(own.written), dict[int, set[Kept]]()
    of_subgraph = cache(lambda index: uses_of(model, index))
    for operator in sorted(row - first for row in calls.by_row.keys() & range(first, first + len(facts))):
        inside = [of_subgraph(index) for index in calls.reached([first + operator])]
        kept = set[Kept]().union(*(uses.named.values() for uses in inside))
        kept.update(*(one for uses in inside for one in uses.by_operator.values()))
        if facts.code_names[operator] == _ONCE and _UNKNOWN not in kept:
            giving[operator] = kept
        elif kept:
            used.setdefault(operator, set()).update(kept)
            written.update(*(uses.written for uses in inside))
    by_kept: dict[Kept, list[int]] = defaultdict(list)
    for operator in sorted(used.keys() - own.named.keys()):
        for one in used[operator]:
            by_kept[one].append(operator)
    copied = {operator: {kept} for operator, kept in own.named.items()} | giving
    users_of = {operator: {user for one in kept for user in by_kept[one]} for operator, kept in copied.items()}
    for later, earlier in combinations(reversed(giving), 2):  # what one gives, another may read
        if giving[earlier] & giving[later]:
            users_of[earlier] |= users_of[later]
    return State(
        {kept: users for kept, users in by_kept.items() if kept in written},
        {operator: sorted(users) for operator, users in users_of.items()},
    )


def uses_of(model: Model, subgraph: int) -> Uses:
    """Return what a subgraph uses without its calls. Raises ModelFormatError for a broken structure."""
    facts = OperatorFacts(model, subgraph)
    codes = facts.code_names
    named = dict(_named(model, facts))
    variable = facts.is_variable
    operators, tensors = (np.concatenate(both) for both in zip(facts.inputs, facts.outputs, strict=True))
    chosen = facts.is_held[tensors] | variable[tensors]
    called = Counter(facts.tensor_names) if variable.any() else Counter[bytes]()
    by_operator: dict[int, set[Kept]] = defaultdict(set)
    written: set[Kept] = set()
    for operator, tensor in zip(operators[chosen].tolist(), tensors[chosen].tolist(), strict=True):
        if variable[tensor]:
            raw = facts.tensor_names[tensor]
            name = repr(text(raw)) if raw and called[raw] == 1 else str(tensor)
            kept = f"the variable tensor {name}" + (f" of subgraph {subgraph}" if subgraph else "")
        else:
            kept = named.get(int(facts.producers[tensor]), _UNKNOWN)
        by_operator[operator].add(kept)
        if operator not in named and (variable[tensor] or codes[operator] not in _READING):
            written.add(kept)
    return Uses(by_operator, named, frozenset(written))


def _named(model: Model, facts: OperatorFacts) -> Iterator[tuple[int, Kept]]:
    """Yield the operators that name something, and what."""
    members = {name: number for number, name in model.schema.unions["BuiltinOptions"].items()}
    tables = model.operator_columns.tables.take(facts.rows)
    charge = model.wire.budget.tally("the names of variables")
    for operator, code in enumerate(facts.code_names):
        if code in _NAMING:
            row = tables.take(np.array([operator]))
            place = row.targets("builtin_options")
            there = row.union_codes(row.field("builtin_options"))[0] == members.get(_NAMING[code]) and place[0]
            options = Tables(row.wire, model.schema.tables[_NAMING[code]], place) if there else None
            if code == "HASHTABLE":
                yield operator, f"hash table {options.scalars('table_id')[0] if options else 0}"
            else:
                names = [text(options.strings(name)[0]) if options else "" for name in ("container", "shared_name")]
                charge(sum(map(len, names)))
                yield operator, f"variable {names[1]!r}" + (f" of container {names[0]!r}" if names[0] else "")
