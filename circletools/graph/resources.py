"""The resources that a runtime keeps apart from tensors, and the operators that use them, directly or through calls.

A variable tensor keeps its value between runs. Variables and hash tables live in the interpreter: operators name them
(`VAR_HANDLE` by container and name, `HASHTABLE` by number) and pass the name on in a handle, which may also be an
argument or result of a called subgraph. `CALL_ONCE` sets initial values.

                   handle                     VAR_HANDLE names a resource, and is copied with its users
    VAR_HANDLE ----------+--> READ_VARIABLE   these two use it: if it is written anywhere, all its users
                         +--> ASSIGN_VARIABLE must be in one model

The names that a handle may hold are propagated along calls, as in Andersen's pointer analysis: from arguments to
inputs, from outputs to results, and around loops, regardless of the order in which operators run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from circletools.flatbuf.columns import Tables
from circletools.graph.algorithms import strong_components
from circletools.graph.columns import Mask
from circletools.graph.graph import NAMING, Graph, ModelGraph
from circletools.model.views import text

Resource = str
"""The description of a resource."""

Handle = tuple[int, int]
"""A value that holds the name of a resource, by graph and value."""

Access = dict[Resource, set[str]]
"""Resources, each with the codes of the operators that use it; for variable tensors, the code is VARIABLE."""

_READING = {"READ_VARIABLE", "HASHTABLE_FIND", "HASHTABLE_SIZE", *NAMING}
_SETTING = {"ASSIGN_VARIABLE", "HASHTABLE_IMPORT", *NAMING}
_FOUND = {"VARIABLE", *NAMING}  # an operator with such a code does not get its resource from a caller
_UNKNOWN: Resource = "an unknown resource"
_LOOPS = ("WHILE", "STABLEHLO_WHILE")
_ENTRY_BYTES = 32  # bytes charged for an entry of a set or a dictionary


@dataclass(frozen=True, slots=True)
class State:
    """The resources that operators of a graph share.

    `users` lists the operators that use a written resource, in order. `copied` maps operators that name a resource
    or set its initial value to the users of the resource: each model with one of these users needs its own copy of
    the operator.
    """

    users: Mapping[Resource, list[int]]
    copied: Mapping[int, list[int]]


@dataclass(frozen=True)
class Resources:
    """The resources of a model; each method raises ModelFormatError for a broken structure."""

    model: ModelGraph

    def state(self, index: int) -> State:
        """Return the resources that operators of a graph share."""
        graph = self.model.graphs[index]
        codes, uses = graph.operators.code_names, self._uses(graph)
        copied = {
            operator: access
            for operator, access in uses.items()
            if codes[operator] in NAMING
            or (codes[operator] == "CALL_ONCE" and _SETTING.issuperset(chain.from_iterable(access.values())))
        }
        users, written = defaultdict[Resource, list[int]](list), set[Resource]()
        for operator in sorted(uses.keys() - copied.keys()):
            for name, used_by in uses[operator].items():
                users[name].append(operator)
                if not used_by <= _READING:
                    written.add(name)
        self._charge(_ENTRY_BYTES * sum(len(users[name]) for access in copied.values() for name in access))
        users_of = {
            operator: {user for name in access for user in users[name]} for operator, access in copied.items()
        }
        for reader, value in _slots(graph, graph.is_handle, operands_only=True):
            maker = int(graph.producer[value])
            if maker in copied:
                users_of[maker].add(reader)
            elif maker >= 0:  # a handle cannot be passed from one model to another
                users[name := f"the resource that tensor {value} names"] += [maker, reader]
                written.add(name)
        return State(
            {name: sorted(set(some)) for name, some in users.items() if name in written},
            {operator: sorted(some) for operator, some in users_of.items()},
        )

    def named(self, index: int, operators: Iterable[int] | None = None) -> set[Resource]:
        """Return the resources named by these operators of a graph; by default, by all its operators."""
        codes, own = self.model.graphs[index].operators.code_names, self._own[index]
        chosen = own.keys() if operators is None else own.keys() & set(operators)
        return {name for operator in chosen if codes[operator] in NAMING for name in own[operator]}

    def _uses(self, graph: Graph) -> dict[int, Access]:
        """Return the resources that each operator of a graph uses, directly or through calls."""
        found = dict(self._own[graph.index])
        for operator in graph.callees:
            inside = [self._inside[one] for one in graph.called([operator])]
            self._charge(_ENTRY_BYTES * sum(map(len, inside)))
            if any(inside):
                found[operator] = _merged([found.get(operator, {}), self._given(graph, operator, _merged(inside))])
        return found

    def _given(self, graph: Graph, operator: int, inside: Access) -> Access:
        """Omit resources that only other callers pass on; omit none if a handle has an unknown name."""
        values = [value for value in graph.operands.of(operator) if value >= 0]
        held = [self._names.get((graph.index, value), set()) for value in values if graph.is_handle[value]]
        known = {_UNKNOWN}.union(*held)
        return {
            name: codes for name, codes in inside.items()
            if name in known or not _FOUND.isdisjoint(codes) or not all(held)
        }  # fmt: skip

    @cached_property
    def _inside(self) -> list[Access]:
        """The resources that each graph uses, with those of the graphs that it calls."""
        called, found = self.model.callees, list[Access]([{} for _ in self._own])
        for component in strong_components([sorted(called.get(one, ())) for one in range(len(found))]):
            others = {other for one in component for other in called.get(one, ())}.difference(component)
            rows = [access for one in component for access in self._own[one].values()]
            rows += [found[other] for other in others]
            self._charge(_ENTRY_BYTES * sum(map(len, rows)))
            merged = _merged(rows)
            for one in component:
                found[one] = merged
        return found

    @cached_property
    def _charge(self) -> Callable[[int], None]:
        return self.model.source.wire.budget.tally("resources that operators use through calls")

    @cached_property
    def _own(self) -> list[dict[int, Access]]:
        """The resources that operators use themselves, by graph and operator."""
        names, own = self._names, list[dict[int, Access]]()
        for graph in self.model.graphs:
            own.append({})
            for operator, name in _variables(graph):
                own[-1].setdefault(operator, {})[name] = {"VARIABLE"}
            for operator, value in _slots(graph, graph.is_handle):
                if operator not in graph.callees:
                    found, code = names.get((graph.index, value), {_UNKNOWN}), graph.operators.code_names[operator]
                    self._charge(_ENTRY_BYTES * len(found))
                    for name in found:
                        own[-1].setdefault(operator, {}).setdefault(name, set()).add(code)
        return own

    @cached_property
    def _names(self) -> dict[Handle, set[Resource]]:
        """The resources that each handle may name; handles with unknown names are left out."""
        pending, flows = list[tuple[Handle, Resource]](), defaultdict[Handle, list[Handle]](list)
        for graph in self.model.graphs:
            graph.check_values()
            for operator, name in _naming(graph):
                pending += (((graph.index, value), name) for value in graph.results.of(operator))
            for source, target in self._passed(graph):
                flows[source].append(target)
        names = defaultdict[Handle, set[Resource]](set)
        while pending:
            handle, name = pending.pop()
            if name not in names[handle]:
                names[handle].add(name)
                self._charge(_ENTRY_BYTES * (1 + len(flows[handle])))
                pending += ((target, name) for target in flows[handle])
        return names

    @cached_property
    def _given_handles(self) -> set[int]:
        """The graphs with a handle among their inputs and outputs."""
        graphs = self.model.graphs
        return {one.index for one in graphs if _holds_handle(one, (*one.inputs.tolist(), *one.outputs.tolist()))}

    def _passed(self, graph: Graph) -> Iterator[tuple[Handle, Handle]]:
        """Yield the pairs of values through which calls pass handles to and from other graphs, and around loops."""
        graphs = self.model.graphs
        for operator in graph.callees:
            operands, results = graph.operands.of(operator), graph.results.of(operator)
            is_loop = graph.operators.code_names[operator] in _LOOPS
            pairs = [(graph, one, graph, other) for one, other in zip(operands, results, strict=False) if is_loop]
            called = {index for index in graph.called([operator]) if index < len(graphs)}
            if not _holds_handle(graph, (*operands, *results)):
                called &= self._given_handles
            for callee in (graphs[index] for index in called):
                inputs, outputs = callee.inputs.tolist(), callee.outputs.tolist()
                self._charge(_ENTRY_BYTES * (len(inputs) + len(outputs)))
                arguments = operands[max(0, len(operands) - len(inputs)) :]  # the condition of IF comes before them
                pairs += ((graph, one, callee, other) for one, other in zip(arguments, inputs, strict=False))
                pairs += ((callee, one, graph, other) for one, other in zip(outputs, results, strict=False))
                if is_loop:
                    pairs += ((graph, one, callee, other) for one, other in zip(results, inputs, strict=False))
            for here, one, there, other in pairs:
                exist = 0 <= one < len(here.values) and 0 <= other < len(there.values)
                if exist and (here.is_handle[one] or there.is_handle[other]):
                    yield (here.index, one), (there.index, other)


def _holds_handle(graph: Graph, values: Iterable[int]) -> bool:
    return any(graph.is_handle[value] for value in values if 0 <= value < len(graph.values))


def _merged(rows: Iterable[Access]) -> Access:
    found: Access = {}
    for access in rows:
        for name, codes in access.items():
            found.setdefault(name, set()).update(codes)
    return found


def _slots(graph: Graph, mask: Mask, *, operands_only: bool = False) -> Iterator[tuple[int, int]]:
    """Yield the operator and value of each slot that holds one of these values."""
    for operators, values in (graph.uses,) if operands_only else (graph.uses, graph.definitions):
        yield from zip(operators[mask[values]].tolist(), values[mask[values]].tolist(), strict=True)


def _variables(graph: Graph) -> Iterator[tuple[int, Resource]]:
    """Yield the operators that read or produce variable tensors, with the name of the variable."""
    called = Counter(graph.values.names) if graph.values.is_variable.any() else {}
    where = f" of subgraph {graph.index}" if graph.index else ""
    for operator, value in _slots(graph, graph.values.is_variable):
        raw = graph.values.names[value]
        name = repr(text(raw)) if raw and called[raw] == 1 else str(value)
        yield operator, f"the variable tensor {name}{where}"


def _naming(graph: Graph) -> Iterator[tuple[int, Resource]]:
    """Yield each operator that names a resource, with that resource."""
    schema, tables = graph.operators.model.schema, graph.operators.tables
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
