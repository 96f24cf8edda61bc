"""Which operators use what a runtime keeps, through all calls.

Variables and hash tables live in the interpreter. Operators name them (`VAR_HANDLE` by container and name,
`HASHTABLE` by number) and hand the name on in a RESOURCE tensor, also as an argument to subgraphs that they call and
as a result of these.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from circletools.flatbuf.columns import Tables
from circletools.graph.build import graph_of
from circletools.graph.graph import NAMING, Graph
from circletools.model.calls import Calls
from circletools.model.model import Model
from circletools.model.views import text

Kept = str
"""What a runtime keeps, in words."""

Named = Kept | int
"""What a tensor names; a number is what the input of that number names, which only a caller knows."""

UNKNOWN: Kept = "what resources hold"

_READING = frozenset(("READ_VARIABLE", "HASHTABLE_FIND", "HASHTABLE_SIZE"))
_ONCE, _SETTING = "CALL_ONCE", "ASSIGN_VARIABLE"
_LOOPS = frozenset(("WHILE", "STABLEHLO_WHILE"))


@dataclass(frozen=True, slots=True)
class Touched:
    """What an operator uses, itself or in what it calls, and what of that it reads, and writes."""

    used: set[Named]
    read: set[Named]
    written: set[Named]

    def add(self, *others: Touched, arguments: Sequence[set[Named]]) -> None:
        """Add what operators touch in a subgraph that is called with these arguments."""
        self.used.update(_for_caller((one.used for one in others), arguments))
        self.read.update(_for_caller((one.read for one in others), arguments))
        self.written.update(_for_caller((one.written for one in others), arguments))


@dataclass(frozen=True, slots=True)
class Uses:
    """What the operators of a subgraph touch.

    `giving` are those that run once, to give first values, and `naming` those that only name something. `returned`
    is what each output may name.
    """

    by_operator: Mapping[int, Touched]
    giving: Sequence[int]
    naming: Mapping[int, Kept]
    returned: Sequence[set[Named]]


class UsesReader:
    """Reads the uses of each subgraph of a model once."""

    def __init__(self, model: Model) -> None:
        """Take a model. Raises ModelFormatError for a broken structure."""
        self.model: Model = model
        self.calls: Calls = Calls(model)
        self._read: dict[int, Uses] = {}
        self._charge = model.wire.budget.tally("what operators keep through calls")

    def uses(self, subgraph: int) -> Uses:
        """Return the uses of a subgraph; what calls itself with handles uses UNKNOWN. Raises ModelFormatError."""
        pending, begun = [subgraph], set[int]()
        while pending:
            begun.add(pending[-1])
            further = self.calls.by_subgraph.get(pending[-1], set()) - begun
            if further:
                pending += further
            elif (last := pending.pop()) not in self._read:
                self._read[last] = self._read_one(last)
        return self._read[subgraph]

    def _read_one(self, subgraph: int) -> Uses:
        facts = graph_of(self.model, subgraph)
        facts.check_values()
        first, held = int(self.model.operator_columns.splits[subgraph]), facts.is_handle
        naming = dict(_naming(self.model, facts))
        touched = _variable_tensors(facts)
        inputs = self.model.subgraphs[subgraph].inputs.tolist()
        outputs = self.model.subgraphs[subgraph].outputs.tolist()
        names: dict[int, set[Named]] = {tensor: {number} for number, tensor in enumerate(inputs)}
        names |= {tensor: {kept} for row, kept in naming.items() for tensor in facts.results.of(row)}
        operators, tensors = (np.concatenate(both) for both in zip(facts.uses, facts.definitions, strict=True))
        calling = {row - first for row in self.calls.by_row.keys() & range(first, first + len(facts))}

        def named(tensors: Iterable[int]) -> list[set[Named]]:
            return [names.get(one, {UNKNOWN}) if one >= 0 and held[one] else set() for one in tensors]

        for operator in sorted({*operators[held[tensors]].tolist(), *calling}):
            taken, made = named(facts.operands.of(operator)), facts.results.of(operator)
            this, code = touched[operator], facts.operators.code_names[operator]
            if operator in naming:
                this.used.add(naming[operator])
            elif operator in calling:
                if code in _LOOPS:
                    taken = self._in_loop(first + operator, taken)
                back = self._called(first + operator, taken, len(made), this)
                if code in _LOOPS:  # of no turns it hands on what it was given
                    for after, before in zip(back, taken, strict=False):
                        after.update(before)
                names |= dict(zip(made, back, strict=True))
            else:
                this.used.update(*taken, *named(made))
                if code != _SETTING:
                    this.read.update(this.used)
                if code not in _READING:
                    this.written.update(this.used)
            self._charge(len(this.used) + len(this.written))
        giving = [
            one for one in sorted(calling)
            if facts.operators.code_names[one] == _ONCE and UNKNOWN not in touched[one].used
        ]  # fmt: skip
        return Uses(touched, giving, naming, named(outputs))

    def _in_loop(self, row: int, taken: list[set[Named]]) -> list[set[Named]]:
        """Return what the inputs of a loop may name in all of its turns."""
        rows = [self._read[one].returned for one in self.calls.named(row) if one in self._read]
        if all(not named or named == {number} for returned in rows for number, named in enumerate(returned)):
            return taken
        anything = set().union(*taken, *(_for_caller(returned, taken) for returned in rows))
        return [anything if named else named for named in taken]

    def _called(self, row: int, taken: list[set[Named]], count: int, touched: Touched) -> list[set[Named]]:
        """Add what the subgraphs touch that the operator of a row calls, and return what its outputs may name."""
        back: list[set[Named]] = [set() for _ in range(count)]
        for subgraph in sorted(self.calls.named(row)):
            uses = self._read.get(subgraph)
            if uses is None:  # it is being read: a call of itself
                for kept in (touched.used, touched.read, touched.written) if any(taken) else ():
                    kept.add(UNKNOWN)
                continue
            # a condition or an index comes before the arguments
            arguments = taken[max(0, len(taken) - len(self.model.subgraphs[subgraph].inputs)) :]
            touched.add(*uses.by_operator.values(), arguments=arguments)
            for one, returned in zip(back, uses.returned, strict=False):
                one.update(_for_caller([returned], arguments))
        return back


def _for_caller(rows: Iterable[set[Named]], arguments: Sequence[set[Named]]) -> set[Named]:
    """Return what these are called by the caller."""
    result = set[Named]()
    for name in set[Named]().union(*rows):
        if isinstance(name, str):
            result.add(name)
        else:
            result |= (arguments[name] if name < len(arguments) else set()) or {UNKNOWN}
    return result


def _variable_tensors(facts: Graph) -> dict[int, Touched]:
    """Return what operators touch because a tensor keeps its value: they read and write it."""
    touched: dict[int, Touched] = defaultdict(lambda: Touched(set(), set(), set()))
    if facts.values.is_variable.any():
        called = Counter(facts.values.names)
        for operators, tensors in (facts.uses, facts.definitions):
            chosen = facts.values.is_variable[tensors]
            for operator, tensor in zip(operators[chosen].tolist(), tensors[chosen].tolist(), strict=True):
                raw = facts.values.names[tensor]
                name = repr(text(raw)) if raw and called[raw] == 1 else str(tensor)
                kept = f"the variable tensor {name}" + (f" of subgraph {facts.index}" if facts.index else "")
                this = touched[operator]
                for those in (this.used, this.read, this.written):
                    those.add(kept)
    return touched


def _naming(model: Model, facts: Graph) -> Iterator[tuple[int, Kept]]:
    """Yield the operators that name something, and what."""
    members = {name: number for number, name in model.schema.unions["BuiltinOptions"].items()}
    tables = model.operator_columns.tables.take(facts.operators.rows)
    charge = model.wire.budget.tally("the names of variables")
    for operator, code in enumerate(facts.operators.code_names):
        if code in NAMING:
            row = tables.take(np.array([operator]))
            place = row.targets("builtin_options")
            there = row.union_codes(row.field("builtin_options"))[0] == members.get(NAMING[code]) and place[0]
            options = Tables(row.wire, model.schema.tables[NAMING[code]], place) if there else None
            if code == "HASHTABLE":
                yield operator, f"hash table {options.scalars('table_id')[0] if options else 0}"
            else:
                names = [text(options.strings(name)[0]) if options else "" for name in ("container", "shared_name")]
                charge(sum(map(len, names)))
                yield operator, f"variable {names[1]!r}" + (f" of container {names[0]!r}" if names[0] else "")
