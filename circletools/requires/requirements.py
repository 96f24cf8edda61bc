"""The TFLite runtimes that load a model: the first that supports all its features, and the features that need it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from circletools.errors import UsageError
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.model.model import Model
from circletools.origin.read import current_origins
from circletools.requires.minimum import Minimum, minimum_of
from circletools.requires.table import RuntimeTable, features, runtime_table
from circletools.wording import Attributes, Tabular

MOST_SOURCES = 5
Kind = Literal["operator", "type", "feature"]


@dataclass(frozen=True, slots=True)
class Requirement(Attributes):
    """A feature of a model that not every measured runtime supports.

    `what` names it, as in `FULLY_CONNECTED version 12` or `INT4 tensors`. `first` is the first runtime that supports
    it, or None if no measured one does; `count` is the number of operators, tensors or buffers that have it;
    `sources` are the names of the operators' sources, at most `MOST_SOURCES`.
    """

    kind: Kind
    what: str
    first: str | None
    count: int
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RuntimeVerdict(Attributes):
    """Whether a runtime supports a model; `lacking` lists what it does not support.

    `wrong` means that it loads the model anyway, but computes wrong values.
    """

    runtime: str
    takes: bool
    lacking: tuple[str, ...]
    wrong: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class Requirements(Tabular):
    """The requirements of a model.

    `first` is the first measured runtime that supports all of the model, or None if none does; `is_oldest` means that
    `first` is the oldest measured runtime, so older ones may suffice. `rows` lists the features that the oldest one
    does not support, starting with those that need the newest runtime. `verdicts` has an entry for each requested
    runtime, by default for all. `minimum` is the file's min_runtime_version and the correct value.
    """

    first: str | None
    is_oldest: bool
    rows: tuple[Requirement, ...]
    verdicts: tuple[RuntimeVerdict, ...]
    minimum: Minimum

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the requirements."""
        return [asdict(row) | {"sources": "; ".join(row.sources)} for row in self.rows]


def requires(model: Model, runtimes: Iterable[str] = ()) -> Requirements:
    """Return which TFLite runtimes load a model, according to measurements of these runtimes.

    `runtimes` are the runtimes to judge, such as `litert-1.4`; by default all. Even unused operator codes count,
    because runtimes look up all of them. Raises ModelFormatError, and UsageError for a runtime that was not
    measured and for a Circle model, which these runtimes do not read.

    >>> with ct.open("in.tflite") as model:
    ...     ct.requires(model).first
    'tflite-2.8.0'
    """
    graph = model_graph(model)
    if graph.source.format != "tflite":
        hint = "TFLite and LiteRT load .tflite files; `circletool fit --on onert-cpu` checks onert"
        raise UsageError("this is a Circle model; `requires` supports only TFLite runtimes", hint=hint)
    table = runtime_table()
    asked = [table.index_of(name) for name in runtimes] or list(range(len(table.runtimes)))
    firsts = list(_needs(graph, table))
    needed = max((first for first, _ in firsts), default=0)
    rows = sorted((pair for pair in firsts if pair[0] > 0), key=lambda pair: -pair[0])
    return Requirements(
        first=table.name_of(needed),
        is_oldest=needed == 0,
        rows=tuple(row for _, row in rows),
        verdicts=tuple(_verdict(table, at, rows) for at in asked),
        minimum=minimum_of(graph, table),
    )


def _verdict(table: RuntimeTable, at: int, rows: Sequence[tuple[int, Requirement]]) -> RuntimeVerdict:
    lacking = tuple(row.what for first, row in rows if first > at and at not in table.early.get(row.what, ()))
    wrong = bool(lacking) and all(at in table.wrong.get(what, ()) for what in lacking)
    return RuntimeVerdict(table.runtimes[at], not lacking, lacking, wrong)


def _needs(model: ModelGraph, table: RuntimeTable) -> Iterator[tuple[int, Requirement]]:
    """Yield each feature of the model, with the index of the first runtime that supports it."""
    indices, known = model.source.operator_columns.code_indices, len(model.source.operator_codes)
    counts = np.bincount(indices[indices < known], minlength=known)
    firsts = [table.first_for_operator(code.name, code.version) for code in model.source.operator_codes]
    named = _sources_by_code(model, {at for at, first in enumerate(firsts) if first > 0})
    for at, code in enumerate(model.source.operator_codes):
        is_plain = code.version == 1 and code.name.startswith("CUSTOM:")
        what = code.name if is_plain else f"{code.name} version {code.version}"
        yield firsts[at], Requirement("operator", what, table.name_of(firsts[at]), int(counts[at]), named.get(at, ()))
    for one in features(model, table):
        yield one.first, Requirement(one.kind, one.what, table.name_of(one.first), one.number)


def _sources_by_code(model: ModelGraph, codes: Collection[int]) -> dict[int, tuple[str, ...]]:
    """Return the names of the first sources of the operators of each code, by the index of the code.

    If the origin tables have no sources, or are stale or broken, return the names of the operators' first outputs.
    """
    found: dict[int, list[str]] = {code: [] for code in codes}
    origins = current_origins(model) if codes else None
    for graph in model.graphs if codes else ():
        for code, names in found.items():
            chosen = np.flatnonzero(graph.operators.code_indices == code)[: MOST_SOURCES - len(names)]
            for operator in chosen.tolist():
                ids = origins.of(graph.index, operator) if origins else ()
                first = graph.operators.first_result_names[operator]
                names.append(origins.sources[min(ids)] if origins and ids else first)
    return {code: tuple(filter(None, dict.fromkeys(names))) for code, names in found.items()}
