"""Recording of TICO conversions.

A tensor's name contains the name of the graph node that produces it. While TICO's passes replace nodes, this module
records which node of the exported program each node stands for. Values computed from parameters become constants, and
the operator that reads such a constant also gets the nodes that computed it. TICO's final optimizer knows nothing
about nodes, so origins are tracked from its input file to its output file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace as replaced
from typing import Any

from circletools.graph.build import graph_of, model_graph
from circletools.graph.graph import Graph
from circletools.model.model import Model, open_model
from circletools.origin.exporters.litert_torch import LAYOUT_CODES
from circletools.origin.exporters.nodes import Root, inner_nodes, is_layout, name_roots, root_of, uncalled_modules
from circletools.origin.exporters.patching import Guard
from circletools.origin.read import NOTHING_KNOWN, OriginColumns, Origins
from circletools.origin.source import UNKNOWN, Source
from circletools.origin.tracking.tracker import track_from

MODULE = "tico"
_DYNAMO = "torch._dynamo.output_graph"


@contextmanager
def recording(note: Callable[[bytes, Origins], None], guard: Guard) -> Iterator[None]:
    """Call `note` with the model and the origins of each conversion in this block."""
    log = _Log()

    def converted(binary: Any) -> None:
        found = guard.run(lambda: log.origins(bytes(binary)), NOTHING_KNOWN)
        note(bytes(binary), NOTHING_KNOWN if guard.failed else found)
        log.begin(None)

    convert, serializer = "tico.utils.convert", "tico.serialize.circle_serializer"
    dynamo = guard.attribute(_DYNAMO, optional=_DYNAMO)
    optimizer = guard.attribute("tico.circle.export", optional="tico.circle")  # absent before TICO 0.2
    with (
        # torch.export mistakes code passed to `python -c` for its own.
        guard.patched(dynamo, "uninteresting_files", lambda files: lambda: files() - {"<string>"}, "lines"),
        guard.observed(guard.attribute(convert), "convert_exported_module_to_circle", log.begin, converted),
        guard.observed(guard.attribute(serializer), "finalise_tensor_names", log.unnamed, log.named),
        guard.observed(optimizer, "optimize_for_export", log.optimize),
        # Record the node before the pass can copy its metadata.
        guard.observed(guard.attribute("torch.fx", "Node"), "replace_all_uses_with", log.note),
    ):
        yield


class _Log:
    """Records of the conversion in progress."""

    def __init__(self) -> None:
        self.begin(None)

    def begin(self, program: Any, *_: Any, **__: Any) -> None:
        """Record what the program contains before it is changed."""
        self.calls: dict[Any, Any] = {}
        self.weights: frozenset[str] = frozenset()
        self.replaced: dict[Any, Any] = {}
        self.folded: dict[Any, list[Any]] = {}
        self.graph: Any = None
        self.nodes: list[Any] = []
        self.made: list[tuple[str, Any]] = []
        self.before: bytes | None = None
        if program is not None:
            self.calls = {**inner_nodes(program), **uncalled_modules(program)}
            signature = program.graph_signature
            self.weights = frozenset((*signature.inputs_to_parameters, *signature.inputs_to_buffers))

    def unnamed(self, graph: Any) -> None:
        """Record the nodes of tensors by their names, which later passes change."""
        self.graph, self.nodes = graph, [graph.name_to_node.get(one.name) for one in graph.tensors]

    def named(self, _: Any) -> None:
        self.made = list(zip((str(one.name) for one in self.graph.tensors), self.nodes, strict=False))

    def optimize(self, binary: Any, *_: Any, **__: Any) -> None:
        self.before = bytes(binary)

    def note(self, node: Any, by: Any, *_: Any, **__: Any) -> None:
        """Record that a node is replaced by another one or, if that is a placeholder, by a constant."""
        if by.op == "placeholder":
            self.folded.setdefault(by, []).extend(self._computed(node, by))
        else:
            self._replaced(node, by)

    def _replaced(self, node: Any, by: Any) -> None:
        """Record that a node, and the intermediate nodes made for it, represent another node."""
        pending = [by]
        while pending:
            new = pending.pop()
            known = new is node or new in self.replaced or new.op != "call_function" or new.meta.get("from_node")
            if not known:
                self.replaced[new] = node
                pending += new.all_input_nodes

    def _computed(self, node: Any, by: Any) -> list[Any]:
        """Return the nodes that computed a constant from parameters and buffers; empty if it depends on an input."""
        of_weights: dict[Any, bool] = {}
        pending = [node]
        while pending:
            inputs = pending[-1].all_input_nodes
            waiting = [one for one in inputs if one not in of_weights]
            if waiting:
                pending += waiting
                continue
            one = pending.pop()
            known = one.name in self.weights or bool(self.folded.get(one))
            of_weights[one] = known or any(of_weights[of] for of in inputs)
        if by in of_weights:
            return []
        found = [one for one, true in of_weights.items() if true and one.op == "call_function" and not is_layout(one)]
        return [*(earlier for one in of_weights for earlier in self.folded.get(one, ())), *found]

    def root(self, node: Any) -> Root | None:
        root = None
        while node is not None and root is None:
            root, node = root_of(node, self.calls), self.replaced.get(node)
        return root

    def origins(self, binary: bytes) -> Origins:
        """Return the origins of the converted model."""
        called = [(name, node) for name, node in self.made if node is not None and node.op == "call_function"]
        computed = [(name, one) for name, node in self.made for one in self.folded.get(node, ())]
        made = [(name, self.root(node)) for name, node in (*called, *computed)]
        known = [(name, root) for name, root in made if root is not None]
        named = name_roots(root for _, root in known)
        sources: dict[str, list[Source]] = {}
        for (name, _), source in zip(known, named, strict=True):
            sources.setdefault(name, []).append(source)
        before = binary if self.before is None else self.before
        with open_model(before) as model:
            found = [
                [source for name in own for source in sources.get(name, ())] for own in _names(graph_of(model, 0))
            ]
            origins = OriginColumns.numbered({0: found}).origins(1)
            if before == binary:
                return origins
            with open_model(binary) as after:
                return through_the_optimizer(model, origins, after)


def _names(main: Graph) -> Iterator[list[str]]:
    """Yield the names of the tensors that each operator produces, and of the constants that it reads."""
    made = set(main.results.values.tolist())
    for inputs, outputs in zip(main.operands.lists(), main.results.lists(), strict=True):
        constants = (tensor for tensor in inputs if tensor >= 0 and tensor not in made)
        yield [main.values.name(tensor) for tensor in (*outputs, *constants)]


def through_the_optimizer(model: Model, origins: Origins, after: Model) -> Origins:
    """Track origins to the optimized model.

    TICO changes the layout of the inputs and outputs of a convolution. An operator of another call that absorbed such
    a layout change does not count as computing the convolution.
    """
    origin, codes = origins.operators[0], model.code_names(0)
    computing = UNKNOWN.union(*(origin[one] for one in origin if codes[one] not in LAYOUT_CODES))
    steps = Origins(dict.fromkeys(origin, ""), ({one: frozenset((one,)) for one in origin},))
    tracked = track_from(model_graph(model), steps, model_graph(after)).origins.operators[0]
    operators = {}
    for index, code in enumerate(after.code_names(0)):
        own = tracked.get(index, UNKNOWN)
        whole = UNKNOWN.union(*(origin[one] for one in own))
        found = UNKNOWN.union(*(origin[one] for one in own if codes[one] not in LAYOUT_CODES))
        operators[index] = whole if code in LAYOUT_CODES else found | (whole - computing) or whole
    return replaced(origins, operators=(operators,))
