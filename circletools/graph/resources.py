"""The resources that a runtime keeps apart from tensors, and the operators that use them, directly or through calls.

A variable tensor keeps its value between runs. Variables and hash tables live in the interpreter: operators name them
(`VAR_HANDLE` by container and name, `HASHTABLE` by number) and pass the name on in a handle, which may also be an
argument or result of a called subgraph. `CALL_ONCE` sets initial values.

                   handle                     VAR_HANDLE names a resource, and is copied with its users
    VAR_HANDLE ----------+--> READ_VARIABLE   these two use it: if it is written anywhere, all its users
                         +--> ASSIGN_VARIABLE must be in one model
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from circletools.flatbuf.columns import Tables
from circletools.graph.graph import NAMING, Graph, ModelGraph
from circletools.model.views import text

Resource = str
"""A resource, described in words."""

Reference = Resource | int
"""The resource of a handle; a number is the index of a graph input, whose resource only a caller knows."""

UNKNOWN: Resource = "an unknown resource"

_READ, _WRITTEN = 1, 2
_READING = frozenset(("READ_VARIABLE", "HASHTABLE_FIND", "HASHTABLE_SIZE"))
_ONCE, _SETTING = "CALL_ONCE", "ASSIGN_VARIABLE"
_LOOPS = frozenset(("WHILE", "STABLEHLO_WHILE"))
_ENTRY_BYTES = 32  # bytes charged for an entry of a set or a dictionary

Access = dict[Reference, int]
"""The resources that an operator uses, and how: _READ, _WRITTEN, both, or 0 if it only names the resource."""


@dataclass(frozen=True, slots=True)
class Uses:
    """The resources that the operators of a graph use, directly or through calls.

    `initialisers` run once, to set initial values; `naming` holds the operators that only name a resource. `returned`
    holds the resources that each output may refer to.
    """

    by_operator: Mapping[int, Access]
    initialisers: Sequence[int]
    naming: Mapping[int, Resource]
    returned: Sequence[set[Reference]]


@dataclass(frozen=True, slots=True)
class State:
    """The resources that operators of a graph share.

    `users` lists the operators that use a written resource, in order. `copied` maps operators that name a resource
    or set its initial value to the users of the resource: each model with one of these users needs its own copy of
    the operator. `initialised` maps operators to the resources whose initial value they set.
    """

    users: Mapping[Resource, list[int]]
    copied: Mapping[int, list[int]]
    initialised: Mapping[int, set[Resource]]


class Resources:
    """The resources of a model, by graph; each graph is read once."""

    def __init__(self, model: ModelGraph) -> None:
        """Keep the model; nothing is read yet."""
        self.model: ModelGraph = model
        self._known: dict[int, Uses] = {}
        self._charge = model.source.wire.budget.tally("resources that operators use through calls")

    def uses(self, index: int) -> Uses:
        """Return the uses of a graph; a handle passed to a recursive call is UNKNOWN. Raises ModelFormatError."""
        pending, begun = [index], set[int]()
        while pending:  # called graphs are read first
            if pending[-1] not in begun:
                begun.add(pending[-1])
                pending += self.model.callees.get(pending[-1], set()) - begun - self._known.keys()
            elif (last := pending.pop()) not in self._known:
                self._known[last] = self._read(self.model.graphs[last])
        return self._known[index]

    def state(self, index: int) -> State:
        """Return the resources that operators of a graph share. Raises ModelFormatError."""
        graph, own = self.model.graphs[index], self.uses(index)
        chosen, written = _initializers(own)
        initialised = {operator: _known_here(own.by_operator[operator]) for operator in chosen}
        users: dict[Resource, list[int]] = defaultdict(list)
        for operator in sorted(own.by_operator.keys() - own.naming.keys() - initialised.keys()):
            for resource in _known_here(own.by_operator[operator]):
                users[resource].append(operator)
        copied = {operator: {resource} for operator, resource in own.naming.items()} | initialised
        entries = sum(len(users[one]) for names in copied.values() for one in names)
        self._charge(_ENTRY_BYTES * entries + len(initialised) ** 2)
        users_of = {operator: {user for one in names for user in users[one]} for operator, names in copied.items()}
        for maker, reader, value in _handles(graph):
            if maker in own.naming:
                users_of[maker].add(reader)
            else:  # a handle cannot be passed from one model to another
                users[name := f"the resource that tensor {value} names"] += [maker, reader]
                written.add(name)
        # A later initialiser may read values set by an earlier one.
        for later, earlier in combinations(reversed(initialised), 2):
            if initialised[earlier] & initialised[later]:
                self._charge(len(users_of[later]))
                users_of[earlier] |= users_of[later]
        return State(
            {resource: sorted(set(some)) for resource, some in users.items() if resource in written},
            {operator: sorted(some) for operator, some in users_of.items()},
            initialised,
        )

    def written(self, index: int) -> set[Resource]:
        """Return the resources that a graph writes, except for initial values. Raises ModelFormatError."""
        return _initializers(self.uses(index))[1]

    def _read(self, graph: Graph) -> Uses:
        graph.check_values()
        is_handle, naming, access = graph.is_handle, dict(_naming(graph)), _variable_values(graph)
        refers: dict[int, set[Reference]] = {value: {number} for number, value in enumerate(graph.inputs.tolist())}
        refers |= {value: {name} for operator, name in naming.items() for value in graph.results.of(operator)}

        handles = set(np.flatnonzero(is_handle).tolist())

        def referred(values: Iterable[int]) -> list[set[Reference]]:
            return [refers.get(one, {UNKNOWN}) if one in handles else set() for one in values]

        touching = (operators[is_handle[values]].tolist() for operators, values in (graph.uses, graph.definitions))
        for operator in sorted(set(graph.callees).union(*touching)):
            taken, made = referred(graph.operands.of(operator)), graph.results.of(operator)
            this, code = access[operator], graph.operators.code_names[operator]
            if operator in naming:
                _add(this, [naming[operator]], 0)
            elif operator in graph.callees:
                called = sorted(graph.called([operator]))
                if code in _LOOPS:
                    taken = self._in_loop(called, taken)
                back = self._call(called, taken, len(made), this)
                if code in _LOOPS:  # a loop without iterations returns its arguments
                    for after, before in zip(back, taken, strict=False):
                        after.update(before)
                refers |= dict(zip(made, back, strict=True))
                self._charge(_ENTRY_BYTES * sum(map(len, back)))
            else:
                mode = (code != _SETTING) * _READ | (code not in _READING) * _WRITTEN
                _add(this, {*this}.union(*taken, *referred(made)), mode)
            self._charge(_ENTRY_BYTES * len(this))
        once = [
            operator for operator in sorted(graph.callees)
            if graph.operators.code_names[operator] == _ONCE and UNKNOWN not in access[operator]
        ]  # fmt: skip
        return Uses(access, once, naming, referred(graph.outputs.tolist()))

    def _in_loop(self, called: Iterable[int], taken: list[set[Reference]]) -> list[set[Reference]]:
        """Return the resources that the inputs of a loop may refer to in any iteration."""
        rows = [self._known[one].returned for one in called if one in self._known]
        if all(not names or names == {number} for returned in rows for number, names in enumerate(returned)):
            return taken
        anything = set().union(*taken, *(_for_caller(returned, taken) for returned in rows))
        return [anything if names else names for names in taken]

    def _call(
        self, called: Iterable[int], taken: list[set[Reference]], count: int, access: Access
    ) -> list[set[Reference]]:
        """Add the resources of called graphs to their caller's `access`; return those that each output may name."""
        back: list[set[Reference]] = [set() for _ in range(count)]
        for index in called:
            uses = self._known.get(index)
            if uses is None:  # the graph is being processed: a recursive call
                _add(access, [UNKNOWN] if any(taken) else [], _READ | _WRITTEN)
                continue
            # a condition or an index comes before the arguments
            arguments = taken[max(0, len(taken) - len(self.model.graphs[index].inputs)) :]
            self._charge(8 * sum(map(len, uses.by_operator.values())))
            for theirs in uses.by_operator.values():
                for name, mode in theirs.items():
                    _add(access, _for_caller([{name}], arguments), mode)
            for one, returned in zip(back, uses.returned, strict=False):
                one.update(_for_caller([returned], arguments))
        return back


def _add(access: Access, names: Iterable[Reference], mode: int) -> None:
    for name in names:
        access[name] = access.get(name, 0) | mode


def _for_caller(rows: Iterable[set[Reference]], arguments: Sequence[set[Reference]]) -> set[Reference]:
    """Return these resources as the caller refers to them."""
    result = set[Reference]()
    for name in set[Reference]().union(*rows):
        if isinstance(name, str):
            result.add(name)
        else:
            result |= (arguments[name] if name < len(arguments) else set()) or {UNKNOWN}
    return result


def _known_here(names: Iterable[Reference]) -> set[Resource]:
    """Return the resources, with UNKNOWN for the inputs of the graph."""
    return {name if isinstance(name, str) else UNKNOWN for name in names}


def _initializers(uses: Uses) -> tuple[list[int], set[Resource]]:
    """Return the operators that only set initial values, and the resources that other operators write.

    An initialiser that reads resources written by other operators depends on their values, and cannot be copied.
    """
    chosen = dict.fromkeys(uses.initialisers)
    reading: dict[Resource, list[int]] = defaultdict(list)
    for operator in chosen:
        for name in _touched(uses.by_operator[operator], _READ):
            reading[name].append(operator)
    written = set[Resource]()
    pending = [operator for operator in uses.by_operator if operator not in chosen]
    while pending:
        for name in _touched(uses.by_operator[pending.pop()], _WRITTEN) - written:
            written.add(name)
            for operator in reading[name]:
                if operator in chosen:
                    del chosen[operator]
                    pending.append(operator)
    return list(chosen), written


def _touched(access: Access, how: int) -> set[Resource]:
    return _known_here(name for name, mode in access.items() if mode & how)


def _handles(graph: Graph) -> Iterator[tuple[int, int, int]]:
    """Yield a triple (producer, reader, value) for each reader of each handle."""
    is_handle = graph.is_handle[graph.reads.values]
    for reader, value in zip(*(numbers[is_handle].tolist() for numbers in graph.reads), strict=True):
        if (maker := int(graph.producer[value])) >= 0:
            yield maker, reader, value


def _variable_values(graph: Graph) -> dict[int, Access]:
    """Return the variable tensors that operators read or produce; each of these operators reads and writes them."""
    access: dict[int, Access] = defaultdict(dict)
    if graph.values.is_variable.any():
        called = Counter(graph.values.names)
        for operators, values in (graph.uses, graph.definitions):
            chosen = graph.values.is_variable[values]
            for operator, value in zip(operators[chosen].tolist(), values[chosen].tolist(), strict=True):
                raw = graph.values.names[value]
                name = repr(text(raw)) if raw and called[raw] == 1 else str(value)
                where = f" of subgraph {graph.index}" if graph.index else ""
                _add(access[operator], [f"the variable tensor {name}{where}"], _READ | _WRITTEN)
    return access


def _naming(graph: Graph) -> Iterator[tuple[int, Resource]]:
    """Yield each operator that names a resource, with that resource."""
    schema, tables = graph.operators.schema, graph.operators.tables
    members = {name: number for number, name in schema.unions["BuiltinOptions"].items()}
    for operator, code in enumerate(graph.operators.code_names):
        if code in NAMING:
            row = tables.take(np.array([operator]))
            place = row.targets("builtin_options")
            there = row.union_codes(row.field("builtin_options"))[0] == members.get(NAMING[code]) and place[0]
            options = Tables(row.wire, schema.tables[NAMING[code]], place) if there else None
            if code == "HASHTABLE":
                yield operator, f"hash table {options.scalars('table_id')[0] if options else 0}"
            else:
                names = [text(options.strings(name)[0]) if options else "" for name in ("container", "shared_name")]
                yield operator, f"variable {names[1]!r}" + (f" of container {names[0]!r}" if names[0] else "")
