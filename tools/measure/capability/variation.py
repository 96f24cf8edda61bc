"""Find the fewest comparisons, among those possible, that explain the answers for a form."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

from circletools.affinity.capability.comparison import Comparison, Term, parse_comparison
from circletools.affinity.capability.file import parse_capability
from circletools.affinity.capability.form import Form
from circletools.affinity.capability.table import mismatches
from circletools.affinity.capability.traits import OperatorTraits, SubgraphTraits
from circletools.graph.build import graph_of
from circletools.model.model import open_model
from tools.measure.capability.single import Probe

_MOST = 5
"""The maximum number of comparisons that explain one form."""


@dataclass(frozen=True)
class Variation:
    """Probes of one operator that differ in sizes, scales, values or options, and comparisons to separate them."""

    probes: tuple[Probe, ...]
    candidates: tuple[str, ...]


Answered = Sequence[tuple[Probe, bool]]


def compared(
    operators: dict[str, list[dict[str, Any]]], answers: Answered, candidates: Mapping[str, Iterable[str]]
) -> Iterator[tuple[str, dict[str, Any], list[Probe]]]:
    """Add comparisons to forms, by code; yield the probes of each form that no comparison explains."""
    by_code: dict[str, list[tuple[Probe, bool]]] = defaultdict(list)
    for probe, taken in answers:
        by_code[probe.code].append((probe, taken))
    for code in sorted(by_code.keys() & operators.keys()):
        possible = [parse_comparison(text) for text in dict.fromkeys(candidates[code])]
        read = [(probe, traits_of(probe, possible, operators[code]), taken) for probe, taken in by_code[code]]
        split: list[dict[str, Any]] = []
        for form in operators[code]:
            for one, wrong in _split(form, [one for one in read if _fits(one, form)], possible):
                split.append(one)
                if wrong:
                    yield code, one, wrong
        operators[code] = split


Read = tuple[Probe, OperatorTraits, bool]


def _fits(one: Read, form: Mapping[str, Any]) -> bool:
    probe, traits, _ = one
    return not mismatches(_parsed(json.dumps({"operators": {probe.code: [form]}}), probe.code), traits)


@cache
def _parsed(document: str, code: str) -> Form:
    (form,) = parse_capability(document.encode(), "form").operators[code]
    return form


def _split(
    form: dict[str, Any], answers: Sequence[Read], possible: Sequence[Comparison]
) -> Iterator[tuple[dict[str, Any], list[Probe]]]:
    """Yield forms with comparisons and unexplained probes; types that need other comparisons get another form."""
    for side in ("inputs", "outputs"):
        for place, texts in enumerate(form[side]):
            if not isinstance(texts, list):
                continue
            groups: dict[tuple[Comparison, ...], list[str]] = defaultdict(list)
            for text in texts:
                mine = [one for one in answers if _fits(one, _with(form, side, place, text))]
                groups[tuple(_chosen(mine, possible))].append(text)
            if len(groups) > 1:
                for group in groups.values():
                    part = _with(form, side, place, group[0] if len(group) == 1 else group)
                    yield from _split(part, [one for one in answers if _fits(one, part)], possible)
                return
    for chosen in _alternatives([(traits.settings, taken) for _, traits, taken in answers], possible):
        mine = [one for one in answers if _all_true(chosen, one[1].settings)]
        where = {"where": [comparison.text for comparison in chosen]} if chosen else {}
        yield {**form, **where}, [probe for probe, _, taken in mine if not taken]


Settings = Mapping[Term, float]


def _alternatives(
    answers: Sequence[tuple[Settings, bool]], possible: Sequence[Comparison], depth: int = 3
) -> Iterator[list[Comparison]]:
    """Yield lists of comparisons, one of which is true for each accepted probe, and for the fewest refused probes.

    If one list does not separate all probes, another is added for those accepted although a comparison is false.
    """
    refused = [settings for settings, taken in answers if not taken]
    taken = [settings for settings, is_taken in answers if is_taken]

    def let_through(some: Sequence[Settings]) -> int:
        true = [comparison for comparison in possible if all(_all_true([comparison], one) for one in some)]
        return sum(_all_true(true, one) for one in refused)

    fewest, halves = let_through(taken) if depth else 0, None
    for pivot in possible if fewest else ():
        sides = [[one for one in taken if _all_true([pivot], one) is side] for side in (True, False)]
        if all(sides) and (count := sum(map(let_through, sides))) < fewest:
            fewest, halves = count, sides
    if halves is None:
        yield explained(answers, possible)
    for half in halves or ():
        yield from _alternatives(
            [*((one, True) for one in half), *((one, False) for one in refused)], possible, depth - 1
        )


def _all_true(comparisons: Sequence[Comparison], settings: Settings) -> bool:
    return all(comparison.mismatch(settings) is None for comparison in comparisons)


def _with(form: Mapping[str, Any], side: str, place: int, text: str | list[str]) -> dict[str, Any]:
    return {**form, side: [*form[side][:place], text, *form[side][place + 1 :]]}


def _chosen(answers: Sequence[Read], possible: Sequence[Comparison]) -> list[Comparison]:
    return explained([(traits.settings, taken) for _, traits, taken in answers], possible)


def traits_of(probe: Probe, comparisons: Sequence[Comparison], forms: Sequence[Mapping[str, Any]]) -> OperatorTraits:
    """Return the properties of a probe's operator that a table may use."""
    terms: set[Term] = {term for comparison in comparisons for term in comparison.terms}
    terms |= {name for form in forms for name in form.get("options", {})}
    with open_model(probe.model) as model:
        ordered = tuple(sorted(terms, key=str))
        traits = SubgraphTraits(graph_of(model, 0), lambda code: ordered if code == probe.code else ())
        return traits.operator(probe.focus)


def explained(answers: Sequence[tuple[Settings, bool]], possible: Sequence[Comparison]) -> list[Comparison]:
    """Return the fewest comparisons that are true for all accepted probes, and false for most refused ones."""
    refused = [settings for settings, taken in answers if not taken]
    taken = [settings for settings, is_taken in answers if is_taken]
    if not refused or not taken:
        return []
    useful = {
        comparison: frozenset(at for at, settings in enumerate(refused) if comparison.mismatch(settings) is not None)
        for comparison in possible
        if all(comparison.mismatch(settings) is None for settings in taken)
    }
    useful = {comparison: stopped for comparison, stopped in useful.items() if stopped}
    best: tuple[Comparison, ...] = ()
    most = 0
    for count in range(1, _MOST + 1):
        for some in combinations(useful, count):
            stopped = len(frozenset().union(*(useful[comparison] for comparison in some)))
            if stopped > most:
                best, most = some, stopped
        if most == len(refused):
            break
    return list(best)
