"""Recording of litert-torch conversions.

The converter keeps a location for each operator, but writes only the location's name to the file, in the name of a
tensor. So each program is converted a second time with graph nodes as locations: `n17;` in a tensor's name stands for
node 17. The user receives the model from the ordinary conversion.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import getitem
from typing import Any

from circletools.graph.build import graph_of, model_graph
from circletools.graph.graph import Graph, ModelGraph
from circletools.model.model import open_model
from circletools.model.sizes import element_count
from circletools.origin.exporters.nodes import (
    NO_CALLS,
    Calls,
    elements_of,
    inner_nodes,
    is_layout,
    name_roots,
    root_of_any,
    uncalled_modules,
)
from circletools.origin.exporters.patching import Guard
from circletools.origin.read import NOTHING_KNOWN, OriginColumns, Origins
from circletools.origin.source import Source

MODULE = "litert_torch"
_CONVERTER, _CONVERT = "litert_torch._convert.litert_converter", "exported_programs_to_flatbuffer"


@contextmanager
def recording(note: Callable[[bytes, Origins], None], guard: Guard) -> Iterator[None]:
    """Call `note` with the model and the origins of each conversion in this block."""
    convert = guard.attribute(_CONVERTER, _CONVERT)
    signed: list[str] = []
    tagged: list[_Tagged] = []
    before: Calls = {}

    def tag(programs: Sequence[Any], signatures: Sequence[Any], *args: Any, **kwargs: Any) -> None:
        signed[:] = [one.name for one in signatures]
        tagged[:] = [
            (*_tagged(guard, convert, program, signature, *args, **kwargs), {**before, **uncalled_modules(program)})
            for program, signature in zip(programs, signatures, strict=True)
        ]

    def read(made: Any) -> None:
        binary, found = bytes(made.to_bytes()), NOTHING_KNOWN
        if not guard.failed:
            with open_model(binary) as model:
                found = guard.run(lambda: _origins(model_graph(model), signed, tagged), NOTHING_KNOWN)
        note(binary, found)
        before.clear()

    program = guard.attribute("torch.export", "ExportedProgram")
    with (
        guard.observed(guard.attribute(_CONVERTER), _CONVERT, tag, read),
        guard.observed(program, "run_decompositions", lambda one, *_, **__: before.update(inner_nodes(one))),
    ):
        yield


_Tagged = tuple[bytes, list[Any], Calls]
"""A model with tags as names, the nodes that the tags represent, and facts about nodes that conversion loses."""


def _tagged(
    guard: Guard, convert: Callable[..., Any], program: Any, signature: Any, *args: Any, **kwargs: Any
) -> tuple[bytes, list[Any]]:
    """Convert a program with its nodes as locations, without a signature, which would rename the outputs."""
    export = guard.attribute("litert_torch.backend.export")
    api = guard.attribute(_CONVERTER, "converter_api_ext")
    nodes: list[Any] = []

    def locate(_: Callable[..., Any]) -> Callable[..., Any]:
        def locating(_interpreter: Any, node: Any) -> Any:
            nodes.append(node)
            return export.ir.Location.name(name=f"n{len(nodes) - 1};")

        return locating

    interpreter = guard.attribute("litert_torch.backend.export", "LoweringInterpreter")
    unsigned = guard.patched(api, "set_signature", lambda _: lambda *_args, **_kwargs: None)
    with guard.patched(interpreter, "_build_loc", locate), unsigned:
        return bytes(convert([program], [signature], *args, **kwargs).to_bytes()), nodes


def _origins(model: ModelGraph, signatures: Sequence[str], tagged: Sequence[_Tagged]) -> Origins:
    """Return the origins of a model; subgraphs that differ from the tagged ones get none."""
    named: dict[int, list[list[Source]]] = {}
    subgraphs = {signature.key: signature.subgraph for signature in model.source.signatures}
    for key, (binary, nodes, calls) in zip(signatures, tagged, strict=True):
        subgraph = subgraphs.get(key)
        with open_model(binary) as other:
            if (
                subgraph is not None
                and graph_of(other, 0).operators.code_names == model.graphs[subgraph].operators.code_names
            ):
                named[subgraph] = _sources(graph_of(other, 0), nodes, calls)
    return OriginColumns.numbered(named).origins(len(model))


def _sources(main: Graph, nodes: Sequence[Any], calls: Calls) -> list[list[Source]]:
    found = nodes_of_operators(main, nodes, calls)
    roots = {index: root_of_any(nodes[index], calls) for one in found for index in one}
    order = sorted(roots)
    sources = dict(zip(order, name_roots(roots[index] for index in order), strict=True))
    return [list(dict.fromkeys(sources[index] for index in one)) for one in found]


# --- the nodes that operators came from, read from tags in tensor names ----------------------------------------
# A converter gives a fused operator most of the tags of the operators fused into it. The converter also adds the tags
# of equal constants that it merged, of layout changes that it moved, and of the operator's producers. So only the
# last tag of an operator counts: it names the node of the result. The graph of nodes determines the others: an
# operator computes all nodes on the paths from other operators' results to its own.
#
# * Nodes that only change the layout belong only to operators that only change the layout. If such an operator was
#   moved after the operator of another node, it produces that node's value, and so belongs to that node.
# * If several operators have the same last tag, those that read only the others' results compute only that node.
# * Of equal nodes, such as two calls of a module with one input, the converter keeps a single operator, with the tag
#   of one of them. An operator that reads its result does not compute the others: they belong to that operator.
# * A node whose parameters were folded into a later operator is one of that operator's sources, for example a norm
#   before a linear layer, or a bias before a sum.


_TAG = re.compile(r"n(\d+)")
LAYOUT_CODES = frozenset({"RESHAPE", "TRANSPOSE", "SQUEEZE", "EXPAND_DIMS", "BROADCAST_TO"})


def nodes_of_operators(main: Graph, nodes: Sequence[Any], calls: Calls = NO_CALLS) -> list[list[int]]:
    """Return the numbers of the nodes that each operator of a graph computes, in ascending order."""
    codes = main.operators.code_names
    graph = _Nodes(nodes, calls)
    tags = [_tags(name, len(nodes)) for name in main.operators.first_result_names]
    made = _made(main, tags, graph)
    behind = graph.continued(made)
    kept: list[list[int]] = []
    for index, (code, own, size) in enumerate(zip(codes, tags, _sizes(main), strict=True)):
        last = own[-1:]
        layout = code in LAYOUT_CODES
        givers = feeding(main, main.operands.of(index))
        moved = layout and any(made.get(one) in givers for one in last)
        inner = givers and all(tags[one][-1:] == last for one in givers)
        twins = {twin: one for one in givers if one < index for twin in graph.twins(tags[one][-1:]) - made.keys()}
        found = graph.laid_out(own, size, made) if layout else graph.computed(last, {*behind, *twins})
        for twin in twins.keys() & {reads for one in found for reads in graph.inputs[one]}:
            for number in graph.computed([twin], behind):
                by = next((made[one] for one in graph.twins([number]) if made.get(one, index) < index), twins[twin])
                kept[by] = sorted({*kept[by], number})
        kept.append(last if moved or inner else sorted(found) or last)
    kept = _folded(main, kept, graph)
    for operator, inputs in enumerate(main.operands.lists()):  # without a tag, an operator gets its producer's nodes
        kept[operator] = kept[operator] or next((kept[one] for one in feeding(main, inputs)), [])
    return kept


def _tags(name: str, count: int) -> list[int]:
    numbers = {int(found[1]) for part in name.split(";") if (found := _TAG.fullmatch(part))}
    return sorted(number for number in numbers if number < count)


class _Nodes:
    """The graph of the nodes, by their numbers."""

    def __init__(self, nodes: Sequence[Any], calls: Calls) -> None:
        self.nodes = nodes
        self.calls = [root_of_any(node, calls).name for node in nodes]
        numbers = {node: number for number, node in enumerate(nodes)}
        self.inputs = [[numbers[one] for one in node.all_input_nodes if one in numbers] for node in nodes]
        self._equal: dict[Any, set[int]] = {}  # the nodes with the same target and arguments
        self._kinds: list[Any] = []
        for number, node in enumerate(nodes):
            kind = (str(node.target), self._kind([*node.args, node.kwargs], numbers))
            self._kinds.append(kind if node.all_input_nodes else number)
            self._equal.setdefault(self._kinds[-1], set()).add(number)
        self.given = [not node.all_input_nodes and not str(node.target).startswith("aten.") for node in nodes]
        self.rooted = list[bool]()  # whether a node depends on an input or parameter; otherwise it is constant
        for given, own in zip(self.given, self.inputs, strict=True):
            self.rooted.append(given or any(self.rooted[one] for one in own))

    def _kind(self, one: Any, numbers: Mapping[Any, int]) -> Any:
        """Return a value that is equal for arguments that are equal; a node counts as the first node equal to it."""
        if isinstance(one, list | tuple):
            return tuple(self._kind(each, numbers) for each in one)
        is_node = hasattr(one, "all_input_nodes") and one in numbers
        return min(self._equal[self._kinds[numbers[one]]]) if is_node else repr(one)

    def twins(self, numbers: Iterable[int]) -> set[int]:
        """Return the other nodes that compute the same as these."""
        return {twin for number in numbers for twin in self._equal[self._kinds[number]]}.difference(numbers)

    def computed(self, ends: Sequence[int], made: Container[int]) -> set[int]:
        """Return the nodes that compute `ends` from operators' results."""
        found: set[int] = set()
        pending, seen = list(ends), set(ends)
        while pending:
            number = pending.pop()
            if not self._only_passes(number):
                found.add(number)
            for one in self.inputs[number]:
                if self.rooted[one] and not self.given[one] and one not in made and one not in seen:
                    seen.add(one)
                    pending.append(one)
        return found

    def laid_out(self, own: Sequence[int], size: int, made: Container[int]) -> set[int]:
        """Return an operator's tags of layout changes: the last one of `size` elements, and those that lead to it."""
        fitting = (tag for tag in reversed(own) if elements_of(self.nodes[tag]) in (None, size))
        found: set[int] = set()
        pending = list(filter(self._only_passes, fitting))[:1]
        while pending:
            number = pending.pop()
            found.add(number)
            pending += [one for one in self.inputs[number] if self._only_passes(one) and one not in made]
        return found.intersection(own)

    def continued(self, made: Mapping[int, int]) -> dict[int, int]:
        """Assign remaining nodes, such as the addition of an all-zero bias, to the operators that precede them."""
        result = dict(made)
        calls = {number: self.calls[number] for number in made}
        for number, call in enumerate(self.calls):
            for one in () if number in made else self.inputs[number]:
                if one in result and (self._only_passes(number) or calls[one] == call):
                    result[number], calls[number] = result[one], calls[one]
                    break
        return result

    def _only_passes(self, number: int) -> bool:
        node = self.nodes[number]
        return is_layout(node) or str(node.target) == str(getitem)


def _made(main: Graph, tags: Sequence[Sequence[int]], graph: _Nodes) -> dict[int, int]:
    """Return the operator that produces each node's value: its last tag is the node, and their sizes agree."""
    codes = main.operators.code_names
    return {
        own[-1]: operator
        for operator, (own, size) in enumerate(zip(tags, _sizes(main), strict=True))
        if own and codes[operator] not in LAYOUT_CODES and elements_of(graph.nodes[own[-1]]) == size
    }


def _sizes(main: Graph) -> list[int]:
    """Return the number of elements of the first result of each operator; 0 if it has no result."""
    shapes = main.values.shapes
    return [element_count(shapes.row(own[0]).tolist()) if own else 0 for own in main.results.lists()]


def _folded(main: Graph, kept: list[list[int]], nodes: _Nodes) -> list[list[int]]:
    """Add nodes whose parameters were folded into later operators, such as those of a norm into a linear layer."""
    codes, results, readers = main.operators.code_names, main.results.lists(), main.readers
    sizes = [_constant_sizes(main, operator) for operator in range(len(main))]
    own: dict[str, dict[int, None]] = {}
    for index, numbers in enumerate(kept):
        for number in numbers:
            own.setdefault(nodes.calls[number], {})[index] = None
    taken = _parameter_sizes(nodes)
    result = [list(numbers) for numbers in kept]
    for call, indices in own.items():
        wanted = taken.get(call, set())
        missing = wanted.difference(*(sizes[index] for index in indices))
        if not missing:
            continue
        folded = {number for index in indices for number in kept[index] if nodes.calls[number] == call}
        pending, seen = list(indices), set(indices)
        while pending:
            for reader in (one for tensor in results[pending.pop()] if tensor >= 0 for one in readers[tensor]):
                if reader in seen:
                    continue
                seen.add(reader)
                if codes[reader] in LAYOUT_CODES:
                    pending.append(reader)
                elif _can_absorb(codes[reader], sizes[reader], missing, wanted):
                    result[reader] = sorted({*result[reader], *folded})
    return result


def _can_absorb(code: str, sizes: set[int], missing: set[int], wanted: set[int]) -> bool:
    """Return whether an operator can hold all missing parameters of a call; only an ADD can absorb a bias alone."""
    if missing == wanted:
        return max(sizes, default=1) > 1
    return code == "ADD" and any(size % one == 0 for size in sizes for one in missing if one > 1)


def _parameter_sizes(nodes: _Nodes) -> dict[str, set[int]]:
    """Return the sizes of the parameters that each call reads; torch.export prefixes their names with `p_`."""
    taken: dict[str, set[int]] = {}
    for call, node in zip(nodes.calls, nodes.nodes, strict=True):
        for leaf in node.all_input_nodes:
            size = elements_of(leaf)
            if not leaf.all_input_nodes and leaf.name.startswith("p_") and size is not None:
                taken.setdefault(call, set()).add(size)
    return taken


def _constant_sizes(main: Graph, operator: int) -> set[int]:
    """Return the sizes, in elements, of the constants that an operator reads."""
    values, buffers = main.values, main.values.model.buffers
    inputs = (one for one in main.operands.of(operator) if one >= 0 and main.producer[one] < 0)
    constants = (one for one in inputs if len(buffers[int(values.buffers[one])].data))
    return {element_count(values.shapes.row(one).tolist()) for one in constants}


def feeding(main: Graph, inputs: Sequence[int]) -> list[int]:
    """Return the operators that produce the given tensors."""
    return [int(main.producer[one]) for one in inputs if one >= 0 and main.producer[one] >= 0]
