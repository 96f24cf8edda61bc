"""The origins in a file: the ONE tables, an exact table for several subgraphs, and findings about them.

ONE has one op table for all subgraphs: on export, it merges the entries with equal operator indices; on import, it
applies the table to every subgraph. `CIRCLETOOLS_origins` keeps the exact origins, and is written if several
subgraphs have origins:

    [version = 1][subgraph count] ([subgraph index][byte length][op table])*
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from struct import Struct
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from circletools.calls import explained
from circletools.errors import TableFormatError
from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.metadata.codec import TableReader, check_ids
from circletools.metadata.stamp import STAMP, Freshness, check_stamp
from circletools.model.model import Model
from circletools.origin.source import (
    DETAILS_TABLE,
    NOTHING,
    UNKNOWN,
    AnySource,
    Origin,
    SourceDetails,
    decode_details,
)
from circletools.origin.tables import (
    EXECUTION_PLAN_TABLE,
    OP_TABLE,
    SOURCE_TABLE,
    decode_execution_plan,
    decode_op_table,
    decode_source_table,
    encode_op_table,
    operator_keys,
)
from circletools.wording import Attributes, numbered, refuse_index

EXACT_TABLE = "CIRCLETOOLS_origins"
NO_NAME = "(noname)"
"""The ONE compiler's name for a source without a name."""

_VERSION = 1
_LONG_NAME = 200  # bytes of each source's name and details that the budget does not count
_PAIR = Struct("<II")

OperatorOrigins = Mapping[int, Origin]
Scope = Literal["exact", "main", "shared"]


@explained
@dataclass(frozen=True, slots=True)
class Origins(Attributes):
    """Sources (id -> name), the origins of operators by subgraph and index, and `details` of sources, if known.

    `scope` states how subgraphs are distinguished: `exact` (one table for each), `main` (only subgraph 0 is
    described), or `shared` (not at all: one table for every subgraph, as the ONE compiler reads it).
    """

    sources: Mapping[int, str]
    operators: tuple[OperatorOrigins, ...]
    scope: Scope = "exact"
    details: Mapping[int, SourceDetails] = field(default_factory=dict)
    counts: tuple[int, ...] = field(default=(), compare=False, repr=False)
    """The number of operators of each subgraph, if known."""
    document: str = field(default="", compare=False, repr=False)
    """The name of the document with the origins, if they come from one."""
    stated: Mapping[tuple[int, int], tuple[str, str]] = field(default_factory=dict, compare=False, repr=False)
    """The code and first output that the document gives for operators, by subgraph and index; empty if unknown."""

    def of(self, subgraph: int, operator: int) -> Origin:
        """Return the origin of an operator (empty if unknown). Raises IndexError for an invalid index."""
        if not (isinstance(subgraph, int) and 0 <= subgraph < len(self.operators)):  # fast: it is called often
            refuse_index(self.operators, subgraph, "")
        if (found := self.operators[subgraph].get(operator)) is not None:
            return found
        refuse_index(range(self.counts[subgraph] if self.counts else 1 << 32), operator, "")
        return UNKNOWN

    def details_of(self, source: int) -> SourceDetails:
        """Return the details of a source, given by its number. Raises KeyError if it does not exist."""
        if source not in self.details:
            _ = self.sources[source]  # this KeyError names the sources
        return self.details.get(source, NOTHING)

    def by_source(self) -> dict[int, list[tuple[int, int]]]:
        """Return the inverse: source id -> (subgraph, operator index), for every source."""
        inverse: dict[int, list[tuple[int, int]]] = {source: [] for source in sorted(self.sources)}
        for subgraph, operators in enumerate(self.operators):
            for operator, origin in sorted(operators.items()):
                place = subgraph, operator
                for source in origin:
                    inverse[source].append(place)
        return inverse


NOTHING_KNOWN = Origins({}, ())
"""No sources, and no described operators."""


def merge(operators: Iterable[OperatorOrigins]) -> dict[int, Origin]:
    """Merge the entries with equal operator indices, as the ONE compiler does on export."""
    described = [subgraph for subgraph in operators if subgraph]
    if len(described) == 1:
        return dict(described[0])
    merged: dict[int, Origin] = {}
    for subgraph in described:
        for operator, origin in subgraph.items():
            merged[operator] = merged[operator] | origin if operator in merged else origin
    return merged


def encode_exact(operators: Iterable[OperatorOrigins]) -> bytes:
    """Encode `CIRCLETOOLS_origins`; subgraphs without origins are omitted."""
    return pack_exact({index: encode_op_table(entries) for index, entries in enumerate(operators) if entries})


def pack_exact(tables: Mapping[int, bytes]) -> bytes:
    """Encode `CIRCLETOOLS_origins` from op tables by subgraph."""
    parts = [_PAIR.pack(_VERSION, len(tables))]
    for index, table in tables.items():
        parts += (_PAIR.pack(index, len(table)), table)
    return b"".join(parts)


def decode_exact(data: bytes | memoryview, sources: Iterable[int]) -> dict[int, dict[int, Origin]]:
    """Decode `CIRCLETOOLS_origins` to subgraph index -> operator origins. Raises TableFormatError."""
    known, reader, subgraphs = frozenset(sources), TableReader(data, EXACT_TABLE), dict[int, dict[int, Origin]]()
    for _ in range(reader.header(_VERSION)):
        at = reader.position
        index, length = _PAIR.unpack(reader.take(_PAIR.size, "a subgraph's entry is truncated"))
        start, table = reader.position, reader.take(length, f"an op table of {length} bytes is truncated")
        if index in subgraphs:
            raise reader.error(f"duplicate entry for subgraph {index}", at)
        try:
            subgraphs[index] = decode_op_table(table, known)
        except TableFormatError as error:
            message = error.message.removesuffix(f" at byte {error.offset}")
            raise reader.error(message, start + error.offset) from error
    reader.finish()
    return subgraphs


def read_origins(model: Model) -> Origins | None:
    """Return the origins in a model; None if it has no tables (`embed` adds them; `describe` works without them).

    Raises TableFormatError, and ModelFormatError if the names, repeated for all operators, are far larger than the
    file.
    """
    graph = model_graph(model)
    origins = origins_in(graph)
    return origins and replace(origins, counts=tuple(map(len, graph.graphs)))


def origins_in(model: ModelGraph) -> Origins | None:
    """Return the origins of a graph; see `read_origins`."""
    origins = decode_origins(model, model.metadata_value)
    if origins is not None:
        sizes = {at: len(name) for at, name in origins.sources.items()}
        for at, parts in origins.details.items():
            sizes[at] = sizes.get(at, 0) + sum(len(str(part)) for part in parts)
        long = {at: size - _LONG_NAME for at, size in sizes.items() if size > _LONG_NAME}
        used = (origin for operators in origins.operators for origin in operators.values())
        total = sum(long.get(source, 0) for origin in used for source in origin) if long else 0
        model.source.wire.budget.charge("the names and details of operators' sources", total)
    return origins


def decode_origins(model: ModelGraph, value_of: Callable[[str], bytes | memoryview | None]) -> Origins | None:
    """Return the origins stored in metadata entries, which `value_of` returns by name. Raises TableFormatError."""
    source_table, op_table = value_of(SOURCE_TABLE), value_of(OP_TABLE)
    if source_table is None and op_table is None:
        return None
    sources = {} if source_table is None else decode_source_table(source_table)
    details_table = value_of(DETAILS_TABLE)
    charge = model.source.wire.budget.tally("the details of sources")
    details = {} if details_table is None else decode_details(details_table, sources, charge)
    shared = {} if op_table is None else decode_op_table(op_table, sources)
    count = len(model)
    exact_table = value_of(EXACT_TABLE)
    if exact_table is not None:
        exact = decode_exact(exact_table, sources)
        # The exact table is valid only if no other tool has changed the ONE tables since.
        if merge(exact.values()) == shared and all(index < count for index in exact):
            return Origins(sources, tuple(exact.get(index, {}) for index in range(count)), "exact", details)
    elif value_of(STAMP) is not None:
        # circletools wrote the tables when at most one subgraph had origins.
        return Origins(sources, (shared, *({} for _ in range(count - 1))) if count else (), "main", details)
    return Origins(sources, _of_each(model, shared), "shared" if count > 1 else "main", details)


def _of_each(model: ModelGraph, shared: OperatorOrigins) -> tuple[OperatorOrigins, ...]:
    """Return each subgraph's entries of a shared table; the largest subgraph also keeps entries without an operator.

    A file can list one small subgraph any number of times, so the table must not be scanned once for each subgraph.
    """
    counts = [len(subgraph) for subgraph in model.graphs]
    largest = counts.index(max(counts)) if counts else 0
    return tuple(
        shared
        if index == largest
        else {operator: shared[operator] for operator in range(count) if operator in shared}
        for index, count in enumerate(counts)
    )


def current_origins(model: ModelGraph) -> Origins | None:
    """Return the origins in a model; None if it has none, or its tables are stale or broken."""
    try:
        found = origins_in(model)
        return None if found is None or origins_freshness(model, found).state == "stale" else found
    except TableFormatError:
        return None


def check_freshness(model: Model, origins: Origins) -> Freshness:
    """Return whether the tables still describe the model's operators, by the stamp or else by their contents."""
    return origins_freshness(model_graph(model), origins)


def origins_freshness(model: ModelGraph, origins: Origins) -> Freshness:
    """Return whether the tables still describe the operators of a graph.

    Tables are stale if an operator index is out of range, or if a table without a stamp has `embed`'s default form
    (operator i comes from source i, named after its output) with names that differ from the model's.
    """
    freshness = check_stamp(model)
    if freshness.state == "stale":
        return freshness
    counts = [len(subgraph) for subgraph in model.graphs]
    for index, (operators, count) in enumerate(zip(origins.operators, counts, strict=True)):
        limit = max(counts) if origins.scope == "shared" else count
        if operators and max(operators) >= limit:
            reason = f"the op table lists operator {max(operators)}, but the count is {limit}"
            return Freshness("stale", index, limit, reason)
    return freshness if freshness.state == "fresh" or not counts else _check_default_names(model, origins)


def _check_default_names(model: ModelGraph, origins: Origins) -> Freshness:
    """Compare names, for a table in which operator i comes from source i."""
    table = origins.operators[0]
    names = [name or NO_NAME for name in model.graphs[0].operators.first_result_names]
    default = all(origin == {operator} for operator, origin in table.items())
    met = set(names)
    known = sum(1 for operator in table if origins.sources.get(operator) in met)
    if default and 2 * known >= len(table):  # otherwise a user chose the names
        for operator in sorted(table):
            if origins.sources[operator] != names[operator]:
                reason = f"operator {operator} outputs {names[operator]!r}, not {origins.sources[operator]!r}"
                return Freshness("stale", 0, operator, reason)
    return Freshness("unstamped")


def origin_findings(model: ModelGraph) -> list[Finding]:
    """Return findings about the origin tables; none if the model has no such tables."""
    return [*_of_origins(model), *_of_plan(model)]


def _of_plan(model: ModelGraph) -> list[Finding]:
    """Return findings about the execution plan that the ONE compiler stores with the origins."""
    plan = model.metadata_value(EXECUTION_PLAN_TABLE)
    try:
        if plan is not None:
            decode_execution_plan(plan)
    except TableFormatError as error:
        message = f"{error.message}; run `circletool metadata remove --name {EXECUTION_PLAN_TABLE}`"
        return [Finding("MALFORMED_EXECUTION_PLAN", "warning", f"metadata {error.location}", message)]
    return []


def _of_origins(model: ModelGraph) -> list[Finding]:
    source_table, op_table = model.metadata_value(SOURCE_TABLE), model.metadata_value(OP_TABLE)
    code = "MALFORMED_ORIGIN_TABLE"
    try:
        sources = {} if source_table is None else decode_source_table(source_table)
        if op_table is not None:
            decode_op_table(op_table)
            code = "UNKNOWN_SOURCE_ID"
            decode_op_table(op_table, sources)
            code = "MALFORMED_ORIGIN_TABLE"
        origins = origins_in(model)
        return [] if origins is None else table_findings(model, origins, origins_freshness(model, origins))
    except TableFormatError as error:
        message = f"{error.message}; run `circletool metadata remove --origins`"
        return [Finding(code, "error", f"metadata {error.location}", message)]


def table_findings(model: ModelGraph, origins: Origins, freshness: Freshness) -> list[Finding]:
    """Return findings about decoded tables that do not fit the model's operators, or omit some."""
    if freshness.state == "stale":
        message = f"the origins are stale: {freshness.reason}; embed new origins, or track those of the earlier model"
        return [Finding("STALE_ORIGIN", "warning", freshness.place, message)]
    if not any(origins.operators) and any(map(len, model.graphs)):
        message = "the tables list no operators; this is harmless outside the ONE compiler"
        return [Finding("PARTIAL_OP_TABLE", "info", f"metadata {OP_TABLE}", message)]
    if origins.scope == "shared":
        return []
    findings = []
    for subgraph, operators in zip(model.graphs, origins.operators, strict=True):
        count = len(subgraph)
        lost = [index for index in range(count) if index not in operators] if operators else []
        if lost:
            message = f"the table omits {len(lost)} of {count} operators; this is harmless outside the ONE compiler"
            place = subgraph.place(lost[0])
            findings.append(Finding("PARTIAL_OP_TABLE", "info", place, message))
    bare = [index for index in model.entries if not origins.operators[index] and len(model.graphs[index])]
    if bare and any(origins.operators):
        message = f"there are no origins in {numbered(bare, 'subgraph')}; `embed-origins --replace` adds them"
        findings.append(Finding("SUBGRAPH_WITHOUT_ORIGINS", "info", f"subgraphs[{bare[0]}]", message))
    return findings


# --- origins as columns, with sources numbered in order of appearance ------------------------------------------


SourcesByOperator = Mapping[int, Sequence[Sequence[AnySource]]]
"""For each subgraph, the sources of its operators."""


@dataclass(frozen=True, slots=True)
class OriginColumns:
    """Origins in the form that is written to tables: the operator-source pairs of each subgraph.

    `numbers` are the sources' numbers in ascending order, `names` are their names; see `operator_keys` for pairs.
    """

    numbers: Sequence[int]
    names: Sequence[str]
    details: Mapping[int, SourceDetails]
    keys: Mapping[int, NDArray[np.uint64]]

    @classmethod
    def of(cls, origins: Origins) -> OriginColumns:
        """Return origins as columns. Raises UsageError for a number that is not a u32."""
        keys = {index: operator_keys(operators) for index, operators in enumerate(origins.operators)}
        check_ids(origins.sources)
        numbers = sorted(origins.sources)
        return cls(numbers, [origins.sources[number] for number in numbers], origins.details, keys)

    @classmethod
    def numbered(cls, named: SourcesByOperator) -> OriginColumns:
        """Return sources as columns, numbered from 0 in order of appearance; equal ones get the same number."""
        flat = {subgraph: list(chain.from_iterable(found)) for subgraph, found in named.items()}
        distinct = dict.fromkeys(chain.from_iterable(flat.values()))
        total = sum(map(len, flat.values()))
        numbers = {source: number for number, source in enumerate(distinct)} if len(distinct) < total else None
        keys: dict[int, NDArray[np.uint64]] = {}
        start = 0
        for subgraph, found in named.items():
            size = len(flat[subgraph])
            if numbers is None:  # the usual case: every source has one operator
                sources = np.arange(start, start + size, dtype=np.uint64)
            else:
                sources = np.fromiter(map(numbers.__getitem__, flat[subgraph]), np.uint64, size)
            start += size
            lengths = np.fromiter(map(len, found), np.int64, len(found))
            keys[subgraph] = np.repeat(np.arange(len(found), dtype=np.uint64), lengths) << np.uint64(32) | sources
        plain = set(map(type, distinct)) <= {str}
        names = list(distinct) if plain else [one if isinstance(one, str) else one.name for one in distinct]
        details = {
            number: source.details
            for number, source in enumerate(() if plain else distinct)
            if not isinstance(source, str) and source.details != NOTHING
        }
        return cls(range(len(names)), cast("list[str]", names), details, keys)

    def origins(self, subgraph_count: int) -> Origins:
        """Return the origins of a model with this many subgraphs."""
        operators: list[dict[int, Origin]] = [{} for _ in range(subgraph_count)]
        for subgraph, keys in self.keys.items():
            found: dict[int, list[int]] = {}
            for operator, source in zip(
                (keys >> np.uint64(32)).tolist(), keys.astype(np.uint32).tolist(), strict=True
            ):
                found.setdefault(operator, []).append(source)
            operators[subgraph] = {operator: frozenset(sources) for operator, sources in found.items()}
        sources = dict(zip(self.numbers, self.names, strict=True))
        return Origins(sources, tuple(operators), details=self.details)
