"""The results of `fit`, as text, JSON and SARIF."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, TypeVar

from circletools.cost.micro import MicroMemory
from circletools.findings import Finding, Findings, fingerprint
from circletools.fit import verdicts
from circletools.fit.request import key_of
from circletools.judging import Judgement
from circletools.origin.exchange import details_json
from circletools.render.findings import sarif_result, sarif_run
from circletools.render.origins import operator_label, with_line
from circletools.render.table import fields_json, places_json, places_text, table_text
from circletools.wording import SCHEMA_VERSION, counted

_Refused = TypeVar("_Refused", verdicts.Misfit, verdicts.RefusedOperators)
_MOST_ROWS, _MOST_REASONS, _FEW_ROWS = 30, 5, 4
_NUMBERED = re.compile(r"operator \d+")
_FAILS = frozenset({"error", "warning"})
_CUSTOM = "CUSTOM:"
_STATES = {True: "new", False: "unchanged"}
_RULES = ("REFUSED_OPERATOR", "REFUSED_MODEL", "TABLE_DISAGREES", "NOT_MEASURED")


def fit_json(found: verdicts.Fit) -> dict[str, Any]:
    """Return the JSON document, which can be the baseline of later runs."""
    return {
        "schema_version": SCHEMA_VERSION,
        "file": found.file,
        "format": found.model_format,
        "targets": [row | _target_json(target) for row, target in zip(found.to_rows(), found.targets, strict=True)],
    }


def _target_json(target: verdicts.TargetFit) -> dict[str, Any]:
    return {
        "runtime": target.runtime,
        "cause": target.cause,
        "new_count": target.new_count,
        "fixed_count": target.fixed,
        **({"memory": memory_json(target.memory)} if target.memory else {}),
        "obstacles": [
            row | {"is_new": one.is_new}
            for row, one in zip(
                Findings(one.finding for one in target.obstacles).to_rows(), target.obstacles, strict=True
            )
        ],
        "findings": [
            row | ({"origin_details": list(map(details_json, misfit.details))} if misfit.details else {})
            for row, misfit in zip(target.to_rows(), target.misfits, strict=True)
        ],
        "sources": [
            {"source": source.name, "operators": places_json(source.operators), "computed_bytes": source.size_bytes}
            | details_json(source.details)
            for source in target.sources
        ],
        "asked": [{key: one for key, one in fields_json(asked).items() if key != "left"} for asked in target.asked],
    }


def fit_text(found: verdicts.Fit, *, full: bool = False) -> Iterator[str]:
    """Yield a table of the targets; then, for each with refusals, the new refusals and the sources to change.

    If one cause explains the verdict, only that cause is shown; otherwise, the most frequent reasons are shown or,
    with `full`, all.
    """
    head = ["target", "verdict", "operators", "refused", "not measured", "partitions", "bytes across"]
    rows = [head + ["new", "fixed"] * found.has_baseline]
    for target in found.targets:
        numbers = [target.operators, target.refused, len(target.misfits) - target.refused]
        numbers += [target.cuts.partitions, target.cuts.size_bytes]
        if found.has_baseline:
            numbers += [target.new_count, target.fixed]
        rows.append([target.name, _words(target), *(f"{number:,}" for number in numbers)])
    yield from table_text(rows, right=range(2, len(rows[0])), indent="")
    yield from (memory_text(target.name, target.memory) for target in found.targets if target.memory)
    for target in found.targets:
        if target.new_count:
            yield ""
            yield f"{target.name}: {_words(target)}" + (f": {target.cause}" if target.cause else "")
            for one in [obstacle.finding for obstacle in target.obstacles[1:] if obstacle.is_new]:
                yield f"  {one.code} {one.location}: {one.message}"
            if target.obstacles and target.refused and not full:
                yield f"  once loaded, the model would have {counted(target.refused, 'refused operator')} (--full)"
                words = {word.strip(":") for one in target.obstacles for word in one.finding.message.split()}
                yield from _misfits_text([one for one in target.misfits if one.code in words], full)
            if full or not target.cause:
                yield from _misfits_text(target.misfits, full)
                yield from _sources_text(target, _MOST_ROWS if full else 2 * _MOST_REASONS)
    for target in found.targets:
        for asked in target.asked:
            if asked.verdict != "not_known":
                yield ""
                yield from _asked_text(target, asked)


def memory_json(memory: MicroMemory) -> dict[str, Any]:
    """Return the memory that TFLM needs, as part of a JSON document."""
    return {"arena_bytes": memory.arena_bytes, **fields_json(memory)}


def memory_text(target: str, memory: MicroMemory) -> str:
    """Return the memory that TFLM needs, as a line of text."""
    origin = (
        "measured by its allocator"
        if memory.is_measured
        else "predicted for 64 bits; 32 bits need less, CMSIS-NN more"
    )
    origin += ", dynamic dimensions as in the file" if memory.is_open else ""
    least = "at least " if memory.unknown else ""
    unknown = f"; not counted: {', '.join(memory.unknown)}" if memory.unknown else ""
    unknown += "; `--with tflm` measures it" if unknown and "CUSTOM:" not in unknown else ""
    return (
        f"{target}: arena {least}{memory.arena_bytes:,} bytes ({origin}{unknown}): {memory.activation_bytes:,} for "
        f"activations, {memory.persistent_bytes:,} persistent; flash {memory.flash_bytes:,} bytes for the model"
    )


def _words(found: verdicts.TargetFit | verdicts.Asked) -> str:
    return found.verdict.replace("_", " ")


def _asked_text(target: verdicts.TargetFit, asked: verdicts.Asked) -> Iterator[str]:
    """Yield the verdict of a program, and its disagreements with the target's table."""
    program = " ".join(filter(None, (asked.program, asked.version)))
    words = asked.words or (f"{counted(asked.left, 'operator')} left to the CPU" if asked.left else "")
    yield f"{target.name}: {': '.join(filter(None, (f'{_words(asked)} according to {program}', words)))}"
    for one in asked.disagreements:
        label = operator_label(one.subgraph or 0, one.operator_index or 0, bool(one.subgraph))
        place = "the model" if one.operator_index is None else f"operator {label}"
        table, verb = ("accepts", "refuses it") if one.table_takes else ("refuses", "accepts it")
        yield f"  the table {table} {place}, but {asked.program} {verb}" + (f": {one.words}" if one.words else "")


def _misfits_text(misfits: Sequence[verdicts.Misfit], full: bool) -> Iterator[str]:
    """Yield the newly refused operators by reason, the most frequent reason first."""
    if isinstance(misfits, verdicts.Misfits):
        known = misfits.alike
    else:
        known = [verdicts.Alike((at,), misfits.__getitem__) for at, one in enumerate(misfits) if one.is_new]
    kinds = {kind.first(1)[0][:2]: kind for kind in known}
    groups = [
        (sum(len(kinds[one[:2]].places) for one in alike), alike)
        for alike in refusals_alike(kind.first(1)[0] for kind in kinds.values())
    ]
    groups.sort(key=lambda group: (not group[1][0].measured, -group[0], group[1][0].operator))
    shown = groups if full else groups[:_MOST_REASONS]
    most = _MOST_ROWS if full or len(groups) == 1 else _FEW_ROWS
    for count, alike in shown:
        yield from refused_text(count, alike)
        found = sorted((one for first in alike for one in kinds[first[:2]].first(most)), key=itemgetter(0, 1))
        rows = [(operator_label(one.subgraph, one.operator, one.subgraph > 0), _origin(one)) for one in found[:most]]
        yield from _first_rows(rows, count, "      ")
    left = [count for count, _ in groups[len(shown) :]]
    if left:
        yield f"  and {counted(len(left), 'other reason')} for {counted(sum(left), 'operator')} (--full)"


def refusals_alike(refused: Iterable[_Refused]) -> list[list[_Refused]]:
    """Group refusals that differ only in their place, operators that their reasons name, and custom codes."""
    groups: dict[tuple[object, ...], list[_Refused]] = {}
    for one in refused:
        code = _CUSTOM if one.code.startswith(_CUSTOM) else one.code
        reason, remedy = (_NUMBERED.sub("", text.replace(one.code, code)) for text in (one.reason, one.remedy))
        groups.setdefault((one.measured, code, reason, remedy), []).append(one)
    return list(groups.values())


def refused_text(count: int, alike: Sequence[verdicts.Misfit | verdicts.RefusedOperators]) -> Iterator[str]:
    """Yield the number of operators with the same code and similar reasons, then the reason, then the remedy."""
    codes = list(dict.fromkeys(one.code for one in alike))
    what, code = counted(count, codes[0], codes[0]), codes[0]
    if len(codes) > 1:
        names = [one.removeprefix(_CUSTOM) for one in codes]
        what = (
            f"{counted(count, 'custom operator')} ({', '.join(names[:_FEW_ROWS])}{', …' * (len(names) > _FEW_ROWS)})"
        )
        code = "the code"
    reasons, remedies = ({getattr(one, key).replace(one.code, code) for one in alike} for key in ("reason", "remedy"))
    reason, remedy = min(reasons), min(remedies)
    if len(reasons) > 1:
        reason, remedy = _NUMBERED.sub("an operator", reason), _NUMBERED.sub("that operator", remedy)
    elif len(remedies) > 1:
        remedy = _NUMBERED.sub("another operator", remedy)
    yield f"  {what}: {'' if alike[0].measured else 'not measured: '}{reason}"
    yield f"    {remedy}"


def _origin(misfit: verdicts.Misfit) -> str:
    names = map(with_line, misfit.origin, misfit.details) if misfit.details else misfit.origin
    return ", ".join(names) + ("" if misfit.from_tables else " (output)")


def _sources_text(target: verdicts.TargetFit, most: int) -> Iterator[str]:
    """Yield the sources to change; those called from the same line of code share a row."""
    misfits = target.misfits
    is_named = (
        misfits.named if isinstance(misfits, verdicts.Misfits) else any(misfit.from_tables for misfit in misfits)
    )
    if not is_named and target.sources:
        yield "  the model has no origins; `embed-origins` can name the lines to change"
    if not is_named or not target.sources:
        return
    by_line: dict[object, list[verdicts.Blamed]] = {}
    for number, source in enumerate(target.sources):
        by_line.setdefault(source.details.place or number, []).append(source)
    groups = {tuple(sorted(place for one in group for place in one.operators)): group for group in by_line.values()}
    rows = [
        [
            counted(len(places), "operator"),
            counted(sum(one.size_bytes for one in groups[places]), "byte"),
            places_text(places),
            _origin_of(groups[places]),
        ]
        for places in sorted(groups, key=len, reverse=True)[:most]
    ]
    unknown = len(target.misfits) - target.refused
    but = f", except {counted(unknown, 'operator')} not measured" if unknown else ""
    has_lines = all(source.details.place for source in target.sources)
    what = "line" if has_lines else "source"
    these = f"this {what}" if len(groups) == 1 else f"these {len(groups):,} {what}s"
    yield f"  change {these} and nothing is refused{but}:"
    yield from _first_rows(rows, len(groups), "    ", right=(0, 1))


def _origin_of(group: Sequence[verdicts.Blamed]) -> str:
    """Return the name of a source, or the line of code that several sources share."""
    first = group[0]
    if len(group) > 1:
        return f"{first.details.place} ({first.name} and {counted(len(group) - 1, 'other')})"
    return with_line(first.name, first.details) + ("" if first.from_tables else " (output)")


def _first_rows(rows: Sequence[Sequence[str]], count: int, indent: str, right: Sequence[int] = ()) -> Iterator[str]:
    """Yield the first rows of a table of `count` rows, and the number of the others."""
    yield from table_text(rows, right=right, indent=indent)
    if count > len(rows):
        yield f"{indent}and {counted(count - len(rows), 'other')} (--full or --json)"


def fit_sarif(found: verdicts.Fit, *, strict: bool = False) -> dict[str, Any]:
    """Return the run of a SARIF log; a baseline tells which results are new. With `strict`, unknowns are errors."""
    results = []
    for finding, is_new, *key in _findings(found, strict):
        state = {} if not found.has_baseline or is_new is None else {"baselineState": _STATES[is_new]}
        results.append(sarif_result(found.file, finding, *key) | state)
    return sarif_run("fit", found.file, _RULES, results)


def fit_judgement(found: verdicts.Fit, *, strict: bool = False) -> Judgement:
    """Return the findings for the formats of `check`; with `strict`, unknown operators are errors."""
    every = list(_findings(found, strict))
    fixed = sum(target.fixed for target in found.targets) if found.has_baseline else None
    return Judgement(tuple(one for one, *_ in every), tuple(new is not False for _, new, *_ in every), fixed, _FAILS)


def _findings(found: verdicts.Fit, strict: bool) -> Iterator[tuple[Any, ...]]:
    """Yield each finding, whether it is new (None: baselines hold no such findings), and words that identify it."""
    for target in found.targets:
        for misfit in target.misfits:
            yield _refusal(target.name, misfit, strict)
    for target in found.targets:
        for obstacle in target.obstacles:
            words = f"{target.name} does not load the model: {obstacle.finding.message}."
            finding = Finding("REFUSED_MODEL", "error", obstacle.finding.location, words)
            yield finding, obstacle.is_new, target.name, fingerprint(obstacle.finding)
    for target in found.targets:
        for asked in target.asked:
            yield from (_disagreement(target.name, asked, one) for one in asked.disagreements)


def _disagreement(target: str, asked: verdicts.Asked, one: verdicts.Disagreement) -> tuple[Any, ...]:
    path = f"subgraphs[{one.subgraph}].operators[{one.operator_index}]"
    place, subject = ("model", "model") if one.operator_index is None else (path, "operator")
    table, program = ("accepts", "refuses") if one.table_takes else ("refuses", "accepts")
    words = f": {one.words}" if one.words else ""
    text = f"the table of {target} {table} the {subject}, but the program {asked.program} {program} it{words}."
    return Finding("TABLE_DISAGREES", "warning", place, text), None, target, place


def _refusal(target: str, misfit: verdicts.Misfit, strict: bool) -> tuple[Any, ...]:
    verb = "does not support" if misfit.measured else "was not tested with"
    code, reason, names = key_of(misfit.code, misfit.reason, misfit.origin)
    finding = Finding(
        "REFUSED_OPERATOR" if misfit.measured else "NOT_MEASURED",
        "error" if misfit.measured or strict else "info",
        f"subgraphs[{misfit.subgraph}].operators[{misfit.operator}]",
        f"{target} {verb} {misfit.code} from {_origin(misfit)}: {misfit.reason}. To do: {misfit.remedy}.",
    )
    return finding, misfit.is_new, target, code, reason, *names
