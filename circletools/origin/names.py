"""Sources for a model without origin tables, derived from its names.

    auto            debug-metadata if it has a location of the operator, otherwise tensor-names
    tensor-names    the nodes or modules that the exporter wrote into the name of the first output (see `grammar`)
    debug-metadata  one source for each location that the TFLite converter left (see `locations`)
    output          one source for each operator: the name of its first output (the ONE compiler's default)

The main subgraph and the subgraphs of signatures get sources, numbered from 0 in order of appearance; with `output`,
the numbers in the main subgraph are its operator indices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from circletools.errors import EditError, ModelFormatError
from circletools.findings import Finding
from circletools.graph.algorithms import components
from circletools.graph.build import model_graph
from circletools.graph.graph import Graph, ModelGraph
from circletools.model.model import Model
from circletools.model.verify import DEBUG_METADATA
from circletools.model.views import text
from circletools.origin.grammar import Exporter, exporter_of, reader_of
from circletools.origin.locations import operator_locations
from circletools.origin.read import NO_NAME, OriginColumns, Origins
from circletools.origin.source import AnySource
from circletools.wording import Word, counted


class NameSource(Word):
    """The names from which sources are derived."""

    AUTO = "auto"
    TENSOR_NAMES = "tensor-names"
    DEBUG_METADATA = "debug-metadata"
    OUTPUT = "output"


def collect_sources(model: Model, names: NameSource = NameSource.AUTO) -> Origins:
    """Return origins for the main subgraph and the subgraphs of signatures.

    Raises EditError if the model lacks the kind of names that `names` selects.
    """
    graph = model_graph(model)
    origins = name_operators(graph, names)[0].origins(len(model.subgraphs))
    return replace(origins, counts=tuple(map(len, graph.graphs)))


def name_operators(model: ModelGraph, names: NameSource) -> tuple[OriginColumns, tuple[Finding, ...]]:
    """Return the origins as columns, and a note on the kind of names."""
    subgraphs = model.entries
    outputs = {subgraph: model.graphs[subgraph].operators.first_result_names for subgraph in subgraphs}
    _check_names(outputs)
    strict = names is NameSource.DEBUG_METADATA
    exporter: Exporter | None = None
    located: dict[int, list[list[AnySource]]] = {}
    if strict or names is NameSource.AUTO:
        located = _located(model, subgraphs, strict)
    if names in (NameSource.AUTO, NameSource.TENSOR_NAMES):
        every = (name for graph in model.graphs for name in graph.operators.first_result_names)
        exporter = exporter_of(model.source.description, every)
    if not located and exporter is None:
        if names in (NameSource.AUTO, NameSource.OUTPUT) or not any(outputs.values()):
            return _columns_by_output(outputs), (_source_names_note("the first outputs of operators"),)
        what = f"{DEBUG_METADATA} locations" if strict else "tensor names of a known exporter"
        raise EditError(f"the model has no {what} to name sources after", hint="use `names=auto` or `names=output`")
    read = reader_of(exporter, (text(name) for graph in model.graphs for name in graph.values.names))
    named: dict[int, Sequence[Sequence[AnySource]]] = {
        subgraph: [()] * len(found) if strict else list(map(read, found)) for subgraph, found in outputs.items()
    }
    by_names = f"{exporter}'s tensor names" if exporter else "the first outputs of operators"
    if exporter is Exporter.LITERT_TORCH:
        named = {subgraph: own_sources(model.graphs[subgraph], own) for subgraph, own in named.items()}
        by_names += "; modules with equal names count as one unless you record the conversion (docs/origins.md)"
    if not located:
        return OriginColumns.numbered(named), (_source_names_note(by_names),)
    missing = sum(len(found) for subgraph, found in named.items() if subgraph not in located)
    for subgraph, locations in located.items():
        named[subgraph] = [one or other for one, other in zip(locations, named[subgraph], strict=True)]
        missing += locations.count([])
    rest = f", {counted(missing, 'operator')} after {by_names}" if missing and names is NameSource.AUTO else ""
    return OriginColumns.numbered(named), (_source_names_note(f"the locations of {DEBUG_METADATA}{rest}"),)


def origins_by_output(model: ModelGraph, subgraphs: Iterable[int]) -> Origins:
    """Return the ONE compiler's default for some subgraphs: each operator is a source, named after its output.

    A name ends at a NUL, as in a source table.
    """
    outputs = {at: model.graphs[at].operators.first_result_names for at in subgraphs}
    columns = _columns_by_output({at: [name.partition("\0")[0] for name in names] for at, names in outputs.items()})
    return columns.origins(len(model))


def _columns_by_output(outputs: Mapping[int, Sequence[str]]) -> OriginColumns:
    sources: list[str] = []
    keys = {}
    for subgraph, names in outputs.items():
        operators = np.arange(len(names), dtype=np.uint64)
        keys[subgraph] = operators << np.uint64(32) | operators + np.uint64(len(sources))
        sources += [name or NO_NAME for name in names]
    return OriginColumns(range(len(sources)), sources, {}, keys)


def _source_names_note(what: str) -> Finding:
    return Finding("SOURCE_NAMES", "info", "", f"sources are named after {what}")


def _check_names(outputs: Mapping[int, Sequence[str]]) -> None:
    """Raise EditError for a name that a table cannot store."""
    for subgraph, names in outputs.items():
        for operator in (index for index, name in enumerate(names) if "\0" in name):
            location = f"subgraphs[{subgraph}].operators[{operator}].outputs[0]"
            message = "the tensor's name contains a NUL character, which a source table cannot store"
            raise EditError(message, location=location)


def _located(model: ModelGraph, subgraphs: Iterable[int], strict: bool) -> dict[int, list[list[AnySource]]]:
    """Return the locations of operators in the debug metadata, for subgraphs that have any.

    Unless `strict`, broken debug metadata is ignored.
    """
    if model.metadata_value(DEBUG_METADATA) is None:
        return {}
    try:
        found = {subgraph: operator_locations(model, subgraph) for subgraph in subgraphs}
    except ModelFormatError:
        if strict:
            raise
        return {}
    return {subgraph: sources for subgraph, sources in found.items() if any(sources)}


# --- sources that litert-torch takes from the constants of other modules -------------------------------------
# The converter stores equal constants once, named after the first module that reads one, and appends that name to
# the names of all operators that it fuses the constant with:
#
#     LOGISTIC `0.act`, LOGISTIC `1.act;0.act`    both read a 1.0 that is named `0.act`


def own_sources(graph: Graph, named: Sequence[Sequence[AnySource]]) -> list[list[AnySource]]:
    """Return the sources `named` in operators' outputs, without those that come only from a shared constant.

    The first source is the operator's own. Any other source must be connected, through operators that share it, to an
    operator whose own source it is, if one exists. Its class must differ from the other sources' classes, unless this
    operator is the first to have it.
    """
    pairs = [(row, source) for row, own in enumerate(named) for source in own]
    number = {pair: at for at, pair in enumerate(pairs)}
    born = {source: row for row, source in reversed(pairs)}
    givers = graph.producer[graph.uses.values]
    sets = [*map(frozenset, named), frozenset()]  # the last set is for -1: no operator produces the value
    edges = [
        (number[giver, source], number[reader, source])
        for giver, reader in set(zip(givers.tolist(), graph.uses.operators.tolist(), strict=True))
        for source in sets[giver] & sets[reader]
    ]
    part = dict(zip(pairs, components(len(pairs), *([edge[side] for edge in edges] for side in (0, 1))), strict=True))
    first = {own[0] for own in named if own}
    led = {part[row, own[0]] for row, own in enumerate(named) if own}
    led |= {part[row, source] for source, row in born.items() if source not in first}
    found = []
    for row, own in enumerate(named):
        near = [source for source in own if source not in first or part[row, source] in led]
        sure = {one for one in near if born[one] == row or (one not in first and part[row, one] in led)} | {*own[:1]}
        classes = set(map(_class_of, sure))
        others = {_class_of(source): source for source in reversed(near) if _class_of(source) not in classes}
        found.append([source for source in near if source in sure or others.get(_class_of(source)) == source])
    return found


def _class_of(source: AnySource) -> str:
    return source if isinstance(source, str) else source.details.class_name
