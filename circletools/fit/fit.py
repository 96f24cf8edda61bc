"""Check whether a whole model runs on a target, and what prevents it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.capability.table import Capability, Refusal
from circletools.affinity.solvers.groups import turns, working
from circletools.cost.micro import micro_memory
from circletools.findings import Finding, against
from circletools.fit.naming import COMPOSITE, Naming, Source, composites, fewest_sources
from circletools.fit.programs import ProgramAnswer, ask, compare, judge_of, program_of, reads_signatures
from circletools.fit.refused import Refusals, doubt_decompositions, needed_subgraphs, refused_operators, with_shapes
from circletools.fit.remedies import is_consequence, needed_by, remedy_of, size_remedies
from circletools.fit.request import FitInputs, FitRequest, Key, Known, key_of
from circletools.fit.unusual import cyclic_operators, doubted_operators, unusual_operators
from circletools.fit.verdicts import Alike, Blamed, Cuts, Fit, LazySequence, Misfit, Misfits, Obstacle, TargetFit
from circletools.graph.build import model_graph
from circletools.graph.graph import Graph, ModelGraph
from circletools.model.model import Model
from circletools.origin.source import NOTHING
from circletools.shapes.infer import Shapes, fixed_shapes
from circletools.soundness.operator_findings import format_findings
from circletools.soundness.refusals import judged
from circletools.soundness.soundness import end_findings
from circletools.wording import Items, ranges

__all__ = ["fit"]
_OLD_TYPE = re.compile(r"\bUINT8 per_tensor \w+, not [^;]*\bINT8 per_tensor")


def fit(model: Model, request: FitRequest | FitInputs) -> Fit:
    """Return, for each target, whether the whole model runs on it, what prevents that, and what to change.

    Raises UsageError if a target has no table, InvalidInputError if a table or baseline cannot be read, and
    ModelFormatError if the model is broken.
    """
    inputs = request.read() if isinstance(request, FitRequest) else request
    known = inputs.known(model.source.name)
    whole = model_graph(model)
    facts, naming = whole.graphs, Naming(whole)
    verdicts = ask(model, inputs.request.with_, inputs.tables, inputs.request.timeout_s)
    unusual = unusual_operators(whole, inputs.tables)
    cyclic = cyclic_operators(whole)
    shaped, sizes = cache(lambda: with_shapes(model)), cache(fixed_shapes)
    programs = {program_of(name) for name in inputs.tables}
    # No program accepts a model that has no subgraphs.
    judgement = judged(model, programs) if facts else dict.fromkeys(programs, judged(model, ["litert"])["litert"])
    targets = Items(
        _target(
            whole,
            naming,
            _Question(
                name,
                table,
                doubted_operators(judgement[program_of(name)].doubted) | unusual[name] | cyclic,
                known.get(name, Known()),
                verdicts.get(name, ()),
                judgement[program_of(name)].refused,
                shaped,
                sizes,
            ),
        )
        for name, table in inputs.tables.items()
    )
    return Fit(model.source.name, model.format, targets, inputs.baseline is not None, naming.notes)


@dataclass(frozen=True, slots=True)
class _Question:
    """A target, and what is known about running the model on it.

    `refused` is regardless of the table; `shaped` and `sizes` are `with_shapes` and `fixed_shapes`, cached.
    """

    name: str
    table: Capability
    refused: Mapping[tuple[int, int], Refusal]
    known: Known
    verdicts: Sequence[ProgramAnswer]
    unloadable: Sequence[Finding]
    shaped: Callable[[], tuple[Model, set[tuple[int, int]]]]
    sizes: Callable[[Graph], Shapes | None]


def _target(model: ModelGraph, naming: Naming, question: _Question) -> TargetFit:
    facts = model.graphs
    known = Counter(question.known.misfits)
    refused = refused_operators(model, question.table, question.shaped)
    for (subgraph, operator), refusal in question.refused.items():
        before = refused[subgraph][operator]
        refused[subgraph][operator] = before if before and before.measured else refusal
    doubt_decompositions(model, refused, question.table)
    needed = [facts[index] for index in needed_subgraphs(model, refused, question.table)]
    bodies = refused_bodies(model, refused)
    obstacles = (*(end_findings(model) if reads_signatures(question.name) else ()), *question.unloadable)
    obstacles += tuple(format_findings(model.source)) if question.name == "litert-cpu" else ()
    is_new, gone = against(obstacles, question.known.obstacles)
    parts = [
        _Part(one, refused[one.index], naming, question, bodies.get(one.index, ""))
        for one in needed
        if any(refused[one.index])
    ]
    if [part.subgraph for part in parts] == [0] and not facts[0].disorder:
        parts[0].kept = _kept(facts[0], parts[0].refusals.keys())
    found = cache(lambda: [pair for part in parts for pair in part.misfits(known)])
    misfits = Misfits(
        lambda: (misfit for misfit, _ in found()),
        [group for part in parts for group in part.alike()],
        any(part.names.described for part in parts),
    )
    target = TargetFit(
        question.name,
        question.table.runtime,
        sum(map(len, needed)),
        tuple(misfits) if known else misfits,
        LazySequence(lambda: _blamed(found(), [part for part in parts if part.subgraph not in bodies])),
        _cuts([(subgraph, refused[subgraph.index]) for subgraph in needed if not subgraph.disorder]),
        known.total() + gone,
        obstacles=tuple(map(Obstacle, obstacles, is_new)),
    )
    target = replace(target, cause=_cause(target, question.table, needed, misfits.alike))
    asked = tuple(compare(target, verdict) for verdict in question.verdicts)
    memory = micro_memory(model, model.source.wire.size) if question.name == "tflm" and not target.refused else None
    for answer in question.verdicts if memory else ():
        if memory and answer.verdict and answer.verdict.arena_bytes is not None:
            memory = memory.measured(answer.verdict.arena_bytes)
    return replace(target, asked=asked, memory=memory)


def _cause(target: TargetFit, table: Capability, needed: Sequence[Graph], alike: Iterable[Alike]) -> str:
    """Return the cause if a single one explains the verdict on the whole model, otherwise an empty string."""
    if target.obstacles:
        finding = target.obstacles[0].finding
        return f"the model does not load: {finding.code} {finding.location}: {finding.message}"
    if not target.operators:
        return "the model has no operators"
    if table.float_model and target.refused:
        floats = sum(_floats(graph) for graph in needed)
        if 2 * floats > target.operators:
            return f"float model ({floats:,} of {target.operators:,} operators): {table.float_model}"
    old = sum(len(some.places) for some in alike if _OLD_TYPE.search(some.first(1)[0].reason))
    if 2 * old > target.operators:
        return f"UINT8 model ({old:,} of {target.operators:,} operators): quantize the model to INT8 instead"
    return ""


def _floats(graph: Graph) -> int:
    """Return the number of operators with floating-point outputs."""
    kinds = [number for number, name in graph.model.schema.enums["TensorType"].items() if name.startswith("FLOAT")]
    results = graph.first_results
    return int(np.isin(graph.values.type_numbers[results[results >= 0]], kinds).sum())


class _Part:
    """The operators of a subgraph that a target does not support; the object stays valid after the file is closed."""

    def __init__(self, facts: Graph, refusals: Refusals, naming: Naming, question: _Question, caller: str) -> None:
        self.subgraph, self.refusals = facts.index, {at: one for at, one in enumerate(refusals) if one is not None}
        self.codes, self.names = facts.operators.code_names, naming.of(facts)
        self.composites = {at: name for (_, at), name in composites([facts]).items()}
        self.of_sizes = size_remedies(facts, self.refusals, question.sizes)
        self.followers = needed_by(facts, self.refusals).keys()
        if caller:
            self.of_sizes = dict.fromkeys(self.refusals, f"first change {caller}, which calls this subgraph")
        self.bytes = computed_bytes(facts)
        self.kept, answered = "", any(one.verdict for one in question.verdicts)
        self.program = "" if answered else judge_of(question.name)

    def alike(self) -> list[Alike]:
        """Return the operators, grouped by the reason for their refusal."""
        groups: dict[tuple[int, str, str, str], list[int]] = {}  # operators of one kind share a refusal
        for operator, refusal in self.refusals.items():
            key = (
                id(refusal),
                self.codes[operator],
                self.composites.get(operator, ""),
                self.of_sizes.get(operator, ""),
            )
            groups.setdefault(key, []).append(operator)
        return [Alike(operators, lambda operator: self.misfit(operator)[0]) for operators in groups.values()]

    def misfits(self, known: Counter[Key]) -> Iterator[tuple[Misfit, tuple[Source, ...]]]:
        """Yield the misfits with their sources, and remove those in the baseline from `known`."""
        for operator in self.refusals:
            misfit, sources = self.misfit(operator)
            if known:
                key = key_of(misfit.code, misfit.reason, misfit.origin)
                misfit = misfit._replace(is_new=known[key] <= 0)
                known[key] -= not misfit.is_new
            yield misfit, sources

    def misfit(self, operator: int) -> tuple[Misfit, tuple[Source, ...]]:
        """Return the misfit of an operator, and its sources."""
        code, sources, refusal = self.codes[operator], self.names.sources(operator), self.refusals[operator]
        composite = self.composites.get(operator)
        remedy = remedy_of(refusal, code, self.of_sizes.get(operator, ""), self.program)
        if self.kept and refusal.measured and (operator not in self.of_sizes or code == "DEQUANTIZE"):
            cut = f"run it outside the model: `extract IN OUT --operators {self.kept}` keeps the others"
            remedy = cut if code in ("QUANTIZE", "DEQUANTIZE") else f"{remedy}, or {cut}"
        misfit = Misfit(
            self.subgraph,
            operator,
            code,
            f"{composite}: {refusal.reason}" if composite else refusal.reason,
            remedy,
            refusal.measured,
            tuple([name for _, name in sources]),
            sources[0][0] >= 0,
            True,
            self.names.details(sources),
            refusal.wrong,
        )
        return misfit, sources


def _kept(facts: Graph, refused: Set[int]) -> str:
    """Return the other operators as ranges, or nothing if they are a minority or enclose a refused operator."""
    dag = facts.dag
    if 2 * len(refused) > len(facts) or not refused.isdisjoint([*facts.effects.tolist(), *dag.constants]):
        return ""  # `extract` keeps operators that depend only on constants
    before, after = set(dag.constants), set[int]()
    ordered = [operator for operator in dag.order if operator in refused]
    for operator in ordered:
        before.update([operator] if before.issuperset(dag.predecessors[operator]) else ())
    for operator in reversed(ordered):
        after.update([operator] if after.issuperset(dag.successors[operator]) else ())
    return ranges(sorted({*range(len(facts))} - refused)) if refused <= before | after else ""


def _blamed(found: Iterable[tuple[Misfit, tuple[Source, ...]]], parts: Iterable[_Part]) -> Iterator[Blamed]:
    """Yield the sources to change, without operators that are refused only because another operator is refused."""
    of = {part.subgraph: part for part in parts}
    refused = [
        (one, sources)
        for one, sources in found
        if one.measured
        and one.subgraph in of
        and not is_consequence(one.reason)
        and one.operator not in of[one.subgraph].followers
    ]
    places = [(one.subgraph, one.operator) for one, _ in refused]
    for source, rows in fewest_sources([sources for _, sources in refused]):
        operators = tuple([places[row] for row in rows])
        size = int(sum(of[subgraph].bytes[operator] for subgraph, operator in operators))
        (details,) = of[operators[0][0]].names.details((source,)) or (NOTHING,)
        yield Blamed(source[1], operators, size, details, source[0] >= 0)


def computed_bytes(facts: Graph) -> NDArray[np.float64]:
    """Return the size of each operator's outputs in bytes."""
    made = facts.definitions
    return np.bincount(made.operators, facts.values.bytes[made.values], len(facts)).astype(np.float64)


def _cuts(subgraphs: Sequence[tuple[Graph, Refusals]]) -> Cuts:
    """Return the tensors that pass between delegated groups (formed as in LiteRT) and the other operators."""
    partitions, tensors, size_bytes = 0, 0, 0
    for facts, refused in subgraphs:
        if not any(refused):
            partitions += len(facts) > 0
            continue
        elsewhere = np.array([refusal is not None for refusal in refused], np.bool_)
        if elsewhere.all():
            continue
        operators, work = working(facts.dag)
        there = elsewhere[operators]
        if not there.any():
            partitions += len(operators) > 0
        elif not there.all():
            groups = turns(work, there.astype(int).tolist())
            partitions += sum(not there[group[0]] for group in groups)
            readers, read = facts.uses
            makers = facts.producer[read]
            makers[np.isin(makers, facts.folded)] = -1
            crosses = np.zeros(len(facts.values), np.bool_)
            crosses[read[(makers >= 0) & (elsewhere[makers] != elsewhere[readers])]] = True
            tensors += int(crosses.sum())
            size_bytes += int(facts.values.bytes[crosses].sum())
    return Cuts(partitions, tensors, size_bytes)


def refused_bodies(model: ModelGraph, refused: Sequence[Refusals]) -> dict[int, str]:
    """Return the comparators and reductions that only refused operators call, and the last of these operators.

    The body of a composite is not included: without the composite, its operators remain.
    """
    bodies = model.source.patterns if len(model) > 1 else frozenset[int]()
    kept, callers = set[int](), dict[int, str]()
    for one in model.graphs if bodies else ():
        for operator in one.callees:
            refusal, code = refused[one.index][operator], one.operators.code_names[operator]
            if refusal is None or not refusal.measured or code == COMPOSITE:
                kept |= one.called([operator])
            caller = f"operator {f'{one.index}/' * bool(one.index)}{operator} ({code})"
            callers.update(dict.fromkeys(one.called([operator]), caller))
    return {body: callers.get(body, "") for body in bodies - kept}
