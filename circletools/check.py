"""Collect all findings about a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from circletools import affinity, runtimes
from circletools.affinity.capability.table import Refusal
from circletools.affinity.tables import affinity_findings
from circletools.asking import as_file, operators_of
from circletools.findings import Finding, Findings, against
from circletools.fit.delegated import failing_operators
from circletools.fit.unusual import operator_at
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.model.model import Model
from circletools.model.verify import breaks_graph, check_model, findings_at, is_dangling, is_index
from circletools.origin.read import Origins, origin_findings, origins_in
from circletools.outputs.analysis import output_findings
from circletools.requires.minimum import minimum_findings
from circletools.shapes.call import DelegatedError, OverrunError, UndelegatedError
from circletools.shapes.infer import ATTENTION
from circletools.soundness.operator_findings import format_findings, unresolved_findings
from circletools.soundness.refusals import weighed
from circletools.soundness.shape_findings import shape_findings
from circletools.soundness.soundness import operation_findings, soundness_findings
from circletools.wording import counted, ranges

_TABLES = {
    "litert": ("litert-cpu", "xnnpack"),
    "onert": ("onert-cpu",),
    "openvino": ("openvino-cpu",),
    "tflm": ("tflm",),
}
"""For each program, the table of its own kernels, and those of the delegates that it tries first."""
_MISFIT = Refusal("its XNNPACK delegate takes it, but then rejects the rank, type, scale or zero point of a tensor")
_ENDS = {
    "refused": "refuses the model",
    "crash": "crashes on the model",
    "timeout": "takes too long",
    "memory": "needs too much memory",
    "differs": "returns different values",
}
_LISTED = 5  # how many sources of operators a message lists


def check(
    model: Model,
    with_: Sequence[str] = (),
    *,
    for_: Sequence[str] = (),
    structure_only: bool = False,
    timeout_s: float = 600.0,
) -> Findings:
    """Return all findings about a model, or fewer if an index is out of range.

    With `structure_only`, or if an index in a graph is out of range, only indices and external data are checked. If
    only other indices are out of range, operators and shapes are checked too. Other findings concern the graph,
    tensors, operators, signatures, names, outputs and, unless metadata lies outside the file, origins and affinity.

    `with_` names runtimes and compilers to load the model in, as `PROGRAM` or `PROGRAM:VARIANT` (docs/runtimes.md);
    each may take `timeout_s` seconds. `for_` names runtimes that should run the model, installed or not: findings
    that keep one of them from running the model become errors, and those that all of them ignore become infos.
    Operators that one of them refuses are errors, as in `fit`; untested ones are infos. Raises
    ModelFormatError if the structure is broken, and UsageError if a program is unknown or not installed.
    """
    findings = check_model(model)
    findings += unresolved_findings(model, for_) if for_ and not structure_only else ()
    findings += format_findings(model) if "litert" in for_ else ()
    if structure_only or any(map(is_index, findings)):
        is_graph = not structure_only and not any(map(breaks_graph, findings))
        return weighed(
            Findings([*findings, *operation_findings(model), *shape_findings(model)]) if is_graph else findings, for_
        )
    outside = {finding.location for finding in findings if is_dangling(finding)}
    unreadable = any(f"buffers[{entry.buffer}]" in outside for entry in model.metadata)
    graph = model_graph(model)
    origins = [] if unreadable else list(origin_findings(graph))
    findings += [*soundness_findings(model), *shape_findings(model), *output_findings(graph), *origins]
    findings += [] if unreadable else [*affinity_findings(graph), *minimum_findings(graph)]
    asked = weighed(findings, for_)
    unprepared = _unprepared(graph) if "litert" in for_ else set[int]()
    replaced = tuple(f"subgraphs[{index}].operators[" for index in unprepared)
    pairs = zip(findings, asked, strict=True)
    findings = Findings(found if found.location.startswith(replaced) else one for found, one in pairs)
    findings = Findings(_decided(graph, findings)) if "litert" in for_ else findings
    errors = {one.location for one in findings if one.severity == "error"} if for_ else set()
    findings += [
        one for name in for_ for one in _refused(graph, name, errors, unprepared if name == "litert" else set())
    ]
    if with_:
        unknown = unreadable or any(one.severity != "info" for one in origins)
        sources = None if unknown else origins_in(graph)
        with as_file(model) as path:
            for name in with_:
                findings += _loaded(graph, path, name, timeout_s, sources)
    return findings


def _unprepared(model: ModelGraph) -> set[int]:
    """Return the subgraphs that LiteRT reads but does not prepare.

    It prepares subgraph 0, the subgraph of a signature that runs (`SignatureRunner::AllocateTensors`), and what they
    call, except for the decompositions of composites that XNNPACK runs itself.
    """
    reached, found = set[int](), {*model.entries}
    while left := found - reached:
        index = left.pop()
        reached.add(index)
        graph, operators = model.graphs[index], model.source.subgraphs[index].operators
        found |= graph.called(at for at in graph.callees if operators[at].options.get("name") != ATTENTION)
    return set(range(len(model))) - reached


def _decided(model: ModelGraph, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Decide the severity of findings that depend on which operators XNNPACK takes, by its table.

    If it takes any operator of a subgraph, LiteRT sorts all of them (`PartitionGraphIntoIndependentNodeSubsets` in
    graph_info.cc); XNNPACK does not sort those that unpack constants.
    """
    table = affinity.load_capability("xnnpack")
    refused = cache(lambda subgraph: affinity.refusals(table, model.source, subgraph))
    for one in findings:
        effect, place = one.message.rpartition("; ")[2], operator_at(one.location)
        if place and one.code == "OPERATOR_ORDER":
            codes = model.graphs[place[0]].operators.code_names
            is_sorted = None in refused(place[0]) and not any(map(table.unpacks, {*codes}))
            yield replace(one, severity="info") if is_sorted else one
        elif place and effect in (DelegatedError.effect, UndelegatedError.effect, OverrunError.effect):
            why, graph = refused(place[0])[place[1]], model.graphs[place[0]]
            is_taken = why is None and not graph.disorder  # what it takes of a cycle is unknown
            is_error = is_taken if effect == DelegatedError.effect else why is not None and why.measured
            runs = is_taken and effect == UndelegatedError.effect
            yield replace(one, severity="error" if is_error else "info") if is_error or runs else one
        else:
            yield one


def _refused(model: ModelGraph, program: str, errors: Set[str], unprepared: Set[int]) -> Iterator[Finding]:
    """Yield findings on operators that a program refuses or runs wrongly, according to its capability tables.

    One more finding is about the operators that they do not cover. Operators with `errors`, and those of `unprepared`
    subgraphs, are left out.
    """
    from circletools.fit.refused import (  # noqa: PLC0415 - other checks need no capability tables
        needed_subgraphs,
        refused_operators,
        with_shapes,
    )

    table, *delegates = map(affinity.load_capability, _TABLES[program])
    refused = refused_operators(model, table, cache(lambda: with_shapes(model.source)), returned=True)
    unknown: list[tuple[str, str]] = []
    for one in map(model.graphs.__getitem__, sorted({*needed_subgraphs(model, refused, table)} - unprepared)):
        here = enumerate(refused[one.index])
        found = {row: why for row, why in here if why and one.place(row) not in errors}
        for delegate in delegates:
            taken = affinity.refusals(delegate, model.source, one.index) if found else []
            found = {row: why for row, why in found.items() if taken[row] is not None}
            late = failing_operators(one, delegate)
            found |= {row: _MISFIT for row in late if one.place(row) not in errors}
        unknown += [(one.place(row), why.reason) for row, why in found.items() if not why.measured]
        found = {row: why for row, why in found.items() if why.measured}

        def message(row: int, codes: Sequence[str] = one.operators.code_names, found: Any = found) -> str:
            why = found[row]
            if why.wrong:
                return f"{codes[row]} fails or gives wrong results in {program}: {why.reason}; {why.remedy}"
            return f"{program} refuses {codes[row]}: {why.reason}"

        for code in ("REFUSED_OPERATOR", "WRONG_RESULT"):
            rows = np.array([row for row, why in found.items() if why.wrong == (code == "WRONG_RESULT")], np.int64)
            yield from findings_at(code, rows, one.place, message, "error")
    if unknown:
        (place, reason), count = unknown[0], counted(len(unknown), "operator")
        words = f"it is unknown whether {program} runs {count}; the first: {reason}"
        yield Finding("NOT_MEASURED", "info", place, words)


def newly_found(before: Model, after: Model) -> tuple[Finding, ...]:
    """Return the errors and warnings of `check` that concern an edited model but not the original.

    >>> with ct.open("in.tflite") as before, ct.open("out.tflite") as after:
    ...     ct.checks.newly_found(before, after)
    ()
    """
    findings = [finding for finding in check(after) if finding.severity != "info"]
    is_new, _ = against(findings, check(before)) if findings else ((), 0)
    return tuple(finding for finding, new in zip(findings, is_new, strict=True) if new)


def _loaded(model: ModelGraph, path: Path, name: str, timeout_s: float, origins: Origins | None) -> Iterator[Finding]:
    """Yield a finding, at the first operator concerned, for each reason why a program does not load the model."""
    with runtimes.Worker(name, timeout_s) as worker:
        verdict = runtimes.located(worker.called(path), operators_of(model))
        program = " ".join(filter(None, (name, worker.version, _ENDS.get(verdict.status))))
    if verdict.status == "ok":
        return
    reasons: dict[str, list[tuple[int, int]]] = {}
    for one in verdict.operators:
        if one.device:
            continue
        places = reasons.setdefault(" ".join(one.words.split()) or "no reason is given", [])
        if one.subgraph is not None and one.operator is not None:
            places.append((one.subgraph, one.operator))
    for words, places in (reasons or {" ".join(verdict.words.split()): []}).items():
        location = "subgraphs[{}].operators[{}]".format(*places[0]) if places else "model"
        yield Finding(
            "NOT_LOADED", "error", location, f"{program}: {words}{_describe_operators(model, places, origins)}"
        )


def _describe_operators(model: ModelGraph, places: Iterable[tuple[int, int]], origins: Origins | None) -> str:
    """Describe the operators that a reason concerns, and their sources."""
    found: dict[tuple[int, str], list[int]] = {}
    sources: set[int] = set()
    for subgraph, operator in places:
        found.setdefault((subgraph, model.graphs[subgraph].operators.code_names[operator]), []).append(operator)
        sources |= set() if origins is None else set(origins.of(subgraph, operator))
    named = [f"{f'subgraph {at} ' * bool(at)}{code} {ranges(indices)}" for (at, code), indices in found.items()]
    if origins is not None and sources:
        names = [origins.sources[source] for source in sorted(sources)]
        named.append(f"from {', '.join(names[:_LISTED])}" + ", …" * (len(names) > _LISTED))
    return f" ({'; '.join(named)})" if named else ""
