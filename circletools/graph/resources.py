"""The resources that a runtime keeps apart from tensors, and the operators that use them, directly or through calls.

A variable tensor keeps its value between runs. Variables and hash tables live in the interpreter: operators name them
(`VAR_HANDLE` by container and name, `HASHTABLE` by number) and pass the name on in a handle, which may also be an
argument or result of a called subgraph. `CALL_ONCE` sets initial values.

                   handle                     VAR_HANDLE names a resource, and is copied with its users
    VAR_HANDLE ----------+--> READ_VARIABLE   these two use it: if it is written anywhere, all its users
                         +--> ASSIGN_VARIABLE must be in one model

Handles are unified as in Steensgaard's alias analysis: all handles of an operator, and those that a call passes to
and from a subgraph, belong to one resource, in whatever order operators run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from circletools.flatbuf.columns import Tables
from circletools.graph.algorithms import components
from circletools.graph.columns import Mask
from circletools.graph.graph import NAMING, Graph, ModelGraph
from circletools.model.views import text

Resource = str
"""A resource, described in words."""

Handle = Resource | tuple[int, int]
"""A resource, or a value that holds its handle, by graph and value."""

Access = dict[Resource, set[str]]
"""Resources, each with the codes of the operators that use it; for variable tensors, the code is VARIABLE."""

_READING = {"READ_VARIABLE", "HASHTABLE_FIND", "HASHTABLE_SIZE", *NAMING}
_SETTING = {"ASSIGN_VARIABLE", "HASHTABLE_IMPORT", *NAMING}
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
        self._charge(sum(len(users[name]) for access in copied.values() for name in access))
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
        """Return the resources that these operators of a graph name; the default is all its operators."""
        codes, own = self.model.graphs[index].operators.code_names, self._own[index]
        chosen = own.keys() if operators is None else own.keys() & set(operators)
        return {name for operator in chosen if codes[operator] in NAMING for name in own[operator]}

    def _uses(self, graph: Graph) -> dict[int, Access]:
        """Return the resources that each operator of a graph uses, directly or through calls."""
        found = dict(self._own[graph.index])
        for operator in graph.callees:
            access = _merged(self._inside(one) for one in graph.called([operator]))
            if access:
                self._charge(len(access))
                found[operator] = access
        return found

    def _inside(self, index: int) -> Access:
        """Return the resources that a graph and the graphs that it calls use."""
        if index not in self._known:
            reached = self.model.reached([index])
            self._charge(len(reached) + sum(len(self._own[one]) for one in reached))
            self._known[index] = _merged(access for one in reached for access in self._own[one].values())
        return self._known[index]

    @cached_property
    def _known(self) -> dict[int, Access]:
        return {}

    def _charge(self, entries: int) -> None:
        self.model.source.wire.budget.charge("resources that operators use through calls", _ENTRY_BYTES * entries)

    @cached_property
    def _own(self) -> list[dict[int, Access]]:
        """The resources that operators use themselves, by graph and operator."""
        uses, links = list[tuple[int, int, Handle, str]](), list[tuple[Handle, Handle]]()
        for graph in self.model.graphs:
            graph.check_values()
            codes, first = graph.operators.code_names, dict[int, Handle](_naming(graph))
            for operator, value in _slots(graph, graph.is_handle):
                handle: Handle = (graph.index, value)
                if operator not in graph.callees:
                    links.append((first.setdefault(operator, handle), handle))
                    uses.append((graph.index, operator, handle, codes[operator]))
            uses += ((graph.index, operator, name, "VARIABLE") for operator, name in _variables(graph))
            links += self._passed(graph)
        numbers = {one: at for at, one in enumerate(dict.fromkeys((*chain(*links), *(use[2] for use in uses))))}
        labels = components(len(numbers), *([numbers[link[end]] for link in links] for end in (0, 1)))
        names = {labels[at]: handle for handle, at in numbers.items() if isinstance(handle, str)}
        own: list[dict[int, Access]] = [{} for _ in self.model.graphs]
        for index, operator, handle, code in uses:
            name = names.get(labels[numbers[handle]], "an unknown resource")
            own[index].setdefault(operator, {}).setdefault(name, set()).add(code)
        return own

    def _passed(self, graph: Graph) -> Iterator[tuple[Handle, Handle]]:
        """Yield the pairs of handles that calls pass to and from other graphs, or from iteration to iteration."""
        graphs = self.model.graphs
        for operator in graph.callees:
            operands, results = graph.operands.of(operator), graph.results.of(operator)
            pairs = [(graph, graph, *ends) for ends in zip(operands, results, strict=False)]
            pairs = pairs if graph.operators.code_names[operator] in _LOOPS else []
            for callee in (graphs[index] for index in graph.called([operator]) if index < len(graphs)):
                inputs, outputs = callee.inputs.tolist(), callee.outputs.tolist()
                arguments = operands[max(0, len(operands) - len(inputs)) :]  # the condition of IF comes before them
                pairs += [(graph, callee, *ends) for ends in zip(arguments, inputs, strict=False)]
                pairs += [(graph, callee, *ends) for ends in zip(results, outputs, strict=False)]
            for one, other, here, there in pairs:
                if any(0 <= at < len(of.values) and of.is_handle[at] for of, at in ((one, here), (other, there))):
                    yield (one.index, here), (other.index, there)


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
