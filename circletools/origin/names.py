"""Sources for a model that has no origin tables: what its operators can be named after.

    auto            debug-metadata where an operator has a location there, else tensor-names
    tensor-names    what the exporter put into the name of the first output (see `grammar`): nodes, or modules
    debug-metadata  one source for each location that the TFLite converter left (see `locations`)
    output          one source for each operator: the name of its first output (the ONE compiler's default)

Described are the main subgraph and those that a signature names. Sources are numbered from 0 in order of appearance;
with `output` the numbers of the main subgraph are its operator indices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from circletools.errors import EditError, ModelFormatError
from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.model.debug_metadata import DEBUG_METADATA
from circletools.model.model import Model
from circletools.model.views import text
from circletools.origin.algebra import Origin
from circletools.origin.grammar import Exporter, exporter_of, sources_in
from circletools.origin.locations import operator_locations
from circletools.origin.numbering import number_sources
from circletools.origin.read import NO_NAME, Origins
from circletools.origin.source import Source
from circletools.wording import Word, counted


class NameSource(Word):
    """Where the names of sources come from."""

    AUTO = "auto"
    TENSOR_NAMES = "tensor-names"
    DEBUG_METADATA = "debug-metadata"
    OUTPUT = "output"


def collect_sources(model: Model, names: NameSource = NameSource.AUTO) -> Origins:
    """Return origins for the main subgraph and those that a signature names.

    Raises EditError when the model has no such names.
    """
    return collect_and_tell(model_graph(model), names)[0]


def collect_and_tell(model: ModelGraph, names: NameSource) -> tuple[Origins, Finding]:
    """Do so, and say what the sources are named after."""
    subgraphs = model.entries
    outputs = {subgraph: model.graphs[subgraph].operators.first_result_names for subgraph in subgraphs}
    _check_names(outputs)
    exporter: Exporter | None = None
    located: dict[int, list[list[Source]]] = {}
    if names in (NameSource.AUTO, NameSource.DEBUG_METADATA):
        located = _located(model, subgraphs, strict=names is NameSource.DEBUG_METADATA)
    if names in (NameSource.AUTO, NameSource.TENSOR_NAMES):
        exporter = exporter_of(model.description, (name for found in outputs.values() for name in found))
    if not any(located.values()) and exporter is None:
        if names in (NameSource.AUTO, NameSource.OUTPUT) or not any(outputs.values()):
            return origins_by_output(model, subgraphs), _told("the first outputs of operators")
        what = f"{DEBUG_METADATA} locations" if names is NameSource.DEBUG_METADATA else "exporter's tensor names"
        raise EditError(f"the model has no {what} to name sources after", hint="use `names=auto` or `names=output`")
    named: dict[int, list[list[Source]]] = {}
    missing, known = 0, frozenset(text(name) for graph in model.graphs for name in graph.values.names)
    for subgraph, found in outputs.items():
        locations = located.get(subgraph) or [[]] * len(found)
        others = [
            sources_in(name, exporter, known) if names is not NameSource.DEBUG_METADATA else [] for name in found
        ]
        named[subgraph] = [one or other for one, other in zip(locations, others, strict=True)]
        missing += sum(not one for one in locations)
    by_names = f"the names that {exporter} gives tensors" if exporter else "the first outputs of operators"
    if not any(located.values()):
        return number_sources(len(model), named), _told(by_names)
    rest = f", {counted(missing, 'operator')} after {by_names}" if missing and names is NameSource.AUTO else ""
    return number_sources(len(model), named), _told(f"the locations of {DEBUG_METADATA}{rest}")


def origins_by_output(model: ModelGraph, subgraphs: Iterable[int]) -> Origins:
    """Return the ONE compiler's default for some subgraphs: each operator is a source, named after its output."""
    sources: dict[int, str] = {}
    operators: list[dict[int, Origin]] = [{} for _ in range(len(model))]
    for subgraph in subgraphs:
        for index, name in enumerate(model.graphs[subgraph].operators.first_result_names):
            operators[subgraph][index] = frozenset((len(sources),))
            sources[len(sources)] = name or NO_NAME
    return Origins(sources, tuple(operators))


def _told(what: str) -> Finding:
    return Finding("SOURCE_NAMES", "info", "", f"sources are named after {what}")


def _check_names(outputs: Mapping[int, Sequence[str]]) -> None:
    """Raise EditError for a name that no table can hold."""
    for subgraph, names in outputs.items():
        if any("\0" in name for name in names):
            operator = next(index for index, name in enumerate(names) if "\0" in name)
            location = f"subgraphs[{subgraph}].operators[{operator}].outputs[0]"
            message = "the tensor's name holds a NUL character, which a source table cannot"
            raise EditError(message, location=location)


def _located(model: ModelGraph, subgraphs: Iterable[int], strict: bool) -> dict[int, list[list[Source]]]:
    """Return what the debug metadata says of operators, for subgraphs of which it says something.

    Unless `strict`, a broken one says nothing.
    """
    try:
        found = {subgraph: operator_locations(model, subgraph) for subgraph in subgraphs}
    except ModelFormatError:
        if strict:
            raise
        return {}
    return {subgraph: sources for subgraph, sources in found.items() if any(sources)}
