"""Recording of litert-torch conversions.

The converter keeps a location for each operator, but writes only the location's name to the file, in the name of a
tensor. So each program is converted a second time with graph nodes as locations: `n17;` in a tensor's name stands for
node 17. The user receives the model from the ordinary conversion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from circletools.graph.build import graph_of, model_graph
from circletools.graph.graph import Graph, ModelGraph
from circletools.model.model import open_model
from circletools.origin.exporters.nodes import Calls, inner_nodes, name_roots, root_of_any, uncalled_modules
from circletools.origin.exporters.patching import Guard
from circletools.origin.exporters.tagging import nodes_of_operators
from circletools.origin.numbering import numbered
from circletools.origin.read import NOTHING_KNOWN, Origins
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
    return numbered(named).origins(len(model))


def _sources(main: Graph, nodes: Sequence[Any], calls: Calls) -> list[list[Source]]:
    found = nodes_of_operators(main, nodes, calls)
    roots = {index: root_of_any(nodes[index], calls) for one in found for index in one}
    order = sorted(roots)
    sources = dict(zip(order, name_roots(roots[index] for index in order), strict=True))
    return [list(dict.fromkeys(sources[index] for index in one)) for one in found]
