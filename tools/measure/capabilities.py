"""Measure which operators each device accepts, and write the capability tables.

    python -m tools.measure.capabilities                  measure, and write the tables
    python -m tools.measure.capabilities --check          measure, and exit with 1 if a file would change
    python -m tools.measure.capabilities --only xnnpack   one device
    python -m tools.measure.capabilities --codes ADD SUB  these operators; others stay unchanged in the file
    python -m tools.measure.capabilities --codes --context       only the rules about pairs of operators
    python -m tools.measure.capabilities --where                 only the comparisons of forms

Each question is a model with one operator, which is loaded, compiled and, if that is cheap, run in a separate process
that the runtime may crash. docs/capabilities.md describes the questions and the tables.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

from tools.measure.capability import (
    asked,
    company,
    forms,
    pairs,
    signals,
    special,
    stateful,
    templates,
    templates_structured,
    variations,
    variations_axes,
    variations_shapes,
    witness,
)
from tools.measure.capability.runtimes import DEVICES, LEFT, TAKEN, Device, Question
from tools.measure.capability.single import Probe
from tools.measure.capability.template import Template
from tools.measure.capability.variation import Variation, compared
from tools.measure.isolation import CRASH, ROOT, answers

TABLES = ROOT / "circletools" / "affinity" / "capability" / "tables"
_FAMILIES: tuple[Callable[[], Iterator[Template]], ...] = (
    templates.elementwise,
    templates.conversions,
    templates.reductions,
    templates.movements,
    templates_structured.matrices,
    templates_structured.pools,
    templates_structured.joints,
    templates_structured.choices,
    templates_structured.recurrences,
)


_PROCESSES = 2
_KEYS = (
    *("schema_version", "device", "runtime", "method", "float_model", "unread"),
    *("rules", "measured", "context", "operators"),
)

Wanted = Callable[[str], bool]
"""A function that returns whether to ask about an operator code."""


def all_templates() -> list[Template]:
    """Return all templates."""
    return [template for family in _FAMILIES for template in family()]


_VARIATIONS: tuple[Callable[[], Iterator[Variation]], ...] = (
    variations.equal_scales,
    variations.ratios,
    variations.joined_scales,
    variations.pools,
    variations_shapes.broadcasts,
    variations_shapes.convolutions,
    variations_shapes.transposed,
    variations_shapes.slices,
    variations_axes.axes,
    variations_shapes.images,
    variations_shapes.products,
)


@cache
def all_companies() -> tuple[company.Company, ...]:
    """Return the questions that templates cannot express."""
    families = (
        company.variables, company.sparse, special.customs, special.detections, signals.signals, special.composites,
        special.blockwise,
    )  # fmt: skip
    return tuple(one for family in (*families, stateful.recurrent) for one in family())


def all_variations() -> list[Variation]:
    """Return all variations."""
    return [variation for family in _VARIATIONS for variation in family()]


def ask(device: Device, questions: Sequence[Question]) -> list[str]:
    """Return the answers, asked in several processes."""
    parts = _PROCESSES
    if device.forks:
        device.prepare()  # once, and not in each process that replaces a crashed one
    size = -(-len(questions) // parts) or 1
    pieces = [questions[start : start + size] for start in range(0, len(questions), size)]
    work = partial(answers, ask=device.ask, prepare=device.prepare, cpu_seconds=device.cpu_seconds)
    with ThreadPoolExecutor(parts) as threads:
        outcomes = list(chain.from_iterable(threads.map(work, pieces)))
        print(f"{device.name}: {len(questions)} asked", file=sys.stderr, flush=True)
        # An earlier question may have corrupted memory: only a question that crashes alone is to blame.
        crashed = [index for index, outcome in enumerate(outcomes) if outcome == CRASH]
        again = threads.map(work, [[questions[index]] for index in crashed])
        for index, (outcome,) in zip(crashed, again, strict=True):
            outcomes[index] = outcome
    return outcomes


def measure(device: Device, found: Sequence[Template], wanted: Wanted) -> list[tuple[Probe, str]]:
    """Return the outcome of each probe: first one or two of each signature, then all of the accepted signatures."""
    owned = [
        (template, device.bases(bases))
        for template in found
        if wanted(template.code)
        for bases in template.bases_of()
        if device.asks_first(bases[0])
    ]
    first = [probe for _, bases in owned for probe in bases]
    outcomes: dict[int, str] = {}
    # For a slow device, the first template of a signature decides whether the others are asked about.
    seen: dict[tuple[str, Any], list[Probe]] = {}
    for probe in first:
        seen.setdefault((probe.code, probe.signature), []).append(probe)
    leading = [probes[0] for probes in seen.values()] if device.is_brief else first
    outcomes.update(zip(map(id, leading), ask(device, leading), strict=True))
    lead = {(probe.code, probe.signature): outcomes[id(probe)].startswith(TAKEN) for probe in leading}
    following = [probe for probe in first if id(probe) not in outcomes and lead[probe.code, probe.signature]]
    outcomes.update(zip(map(id, following), ask(device, following), strict=True))
    result = [(probe, outcomes[id(probe)]) for probe in first if id(probe) in outcomes]
    rest = [
        probe
        for template, bases in owned
        for base, rank in _taken(template, bases, outcomes)
        for probe in template.rest_of(base, rank)
        if device.asks(probe, base)
    ]
    result += zip(rest, ask(device, rest), strict=True)
    others = [one for one in all_companies() if wanted(one.probe.code) and device.asks_first(one.probe)]
    result += zip((other.probe for other in others), ask(device, others), strict=True)
    return result


def compare(
    device: Device,
    operators: dict[str, list[dict[str, Any]]],
    wanted: Wanted,
    taken: set[tuple[str, Any]] | None = None,
) -> None:
    """Ask which properties other than types, ranks and options matter for accepted operators; add these to the forms.

    `taken` holds the accepted codes and signatures; None asks about all.
    """
    found = [one for family in _VARIATIONS for one in family() if wanted(one.probes[0].code) and device.varies]
    probes = [
        probe
        for one in found
        for probe in one.probes
        if probe.code in operators and (taken is None or (probe.code, probe.signature) in taken)
    ]
    candidates: dict[str, list[str]] = defaultdict(list)
    for one in found:
        candidates[one.probes[0].code] += one.candidates
    answers = [
        (probe, outcome.startswith(TAKEN))
        for probe, outcome in zip(probes, ask(device, probes), strict=True)
        if outcome != CRASH
    ]
    for code, form, wrong in compared(operators, answers, candidates):
        print(f"{device.name}: {code}: {len(wrong)} probes are not explained, such as {wrong[0]}; {form}")


def unpacking(device: Device, wanted: Wanted) -> set[tuple[str, str, str]]:
    """Return the code, input and output of each operator that unpacks constants on a device."""
    found = [one for one in company.unpackings() if wanted(one.probe.code)]
    fed, feeding, isolated = (
        ask(device, [getattr(one, name) for one in found]) for name in ("fed", "feeding", "isolated")
    )
    return {
        (one.probe.code, one.probe.signature[0][0], one.probe.signature[1][0])
        for one, weights, operator, alone in zip(found, fed, feeding, isolated, strict=True)
        if weights.startswith(TAKEN) and operator.startswith(TAKEN) and (device.folds or alone == LEFT)
    }


def witnessed(device: Device, known: set[str]) -> list[tuple[witness.Witness, bool]]:
    """Return the operators of those models of the project that run as a whole, except codes that are known."""
    if device.name == "xnnpack":
        return []  # it accepts parts of models, and the tests compare the table with these parts
    paths = witness.models(device)
    outcomes = ask(device, [witness.Whole(path.read_bytes()) for path in paths])
    running = [path for path, outcome in zip(paths, outcomes, strict=True) if outcome == TAKEN]
    return [(one, True) for one in witness.witnesses(running) if one.code not in known]


def _taken(template: Template, bases: Sequence[Probe], outcomes: dict[int, str]) -> Iterator[tuple[Probe, int]]:
    ranks = [rank for rank in template.bases if rank in template.ranks] or [template.ranks[0]]
    for probe, rank in zip(bases, ranks[-len(bases) :], strict=True):
        if outcomes.get(id(probe), "").startswith(TAKEN):
            yield probe, rank
            return


def asked_of(device: Device, found: Sequence[Template], wanted: Wanted) -> list[dict[str, Any]]:
    """Return the operators that a device is asked about, as the table describes them."""
    own = [template for template in found if wanted(template.code)]
    first = [(base, template.ranks) for template in own for bases in template.bases_of() for base in bases]
    others = [(one.probe, one.probe.ranks) for one in all_companies() if wanted(one.probe.code)]
    return asked.asked((probe, ranks) for probe, ranks in (*first, *others) if device.asks_first(probe))


def controlling(device: Device, wanted: Wanted) -> dict[str, list[dict[str, Any]]]:
    """Return the forms of IF and WHILE: any form if none was refused, otherwise only those found in models."""
    of_codes = (stateful.control(code) for code in ("IF", "WHILE") if wanted(code))
    found = [one for one in chain.from_iterable(of_codes) if device.asks_first(one.probe)]
    outcomes = ask(device, found)
    refused = {one.probe.code for one, outcome in zip(found, outcomes, strict=True) if not outcome.startswith(TAKEN)}
    return {
        code: [{"inputs": ["*", "..."], "outputs": ["*", "..."]}]
        for code in {one.probe.code for one in found} - refused
    }


def table(device: Device, found: Sequence[Template], wanted: Wanted) -> dict[str, Any]:
    """Measure these operators; return their part of the file."""
    result, unpacked = measure(device, found, wanted), unpacking(device, wanted)
    known = {probe.code for probe, _ in result}
    answered = [(probe, outcome.startswith(TAKEN)) for probe, outcome in result]
    of_models = [(one, taken) for one, taken in witnessed(device, known) if wanted(one.code)]
    operators = forms.operators([*answered, *of_models]) | controlling(device, wanted)
    taken = {(probe.code, probe.signature) for probe, is_taken in answered if is_taken}
    compare(device, operators, wanted, taken)
    for code in {code for code, _, _ in unpacked} & operators.keys():
        operators[code] = forms.mark_unpacking(
            operators[code], {(one, other) for of, one, other in unpacked if of == code}
        )
    return {
        "schema_version": "1",
        "device": device.name,
        "runtime": device.runtime(),
        "method": device.method,
        "measured": asked_of(device, found, wanted),
        "operators": operators,
    }


def updated(device: Device, path: Path, document: dict[str, Any], wanted: Wanted) -> dict[str, Any]:
    """Return the document with the other operators' part of the existing file."""
    before = json.loads(path.read_text()) if path.exists() else {"operators": {}, "measured": []}
    measured = asked.joined(before["measured"], document["measured"])
    kept = {code: found for code, found in before["operators"].items() if not wanted(code)}
    operators = dict(sorted({**kept, **document["operators"]}.items()))
    return {**document, "measured": measured, "context": before.get("context", []), "operators": operators}


def with_rules(path: Path, document: dict[str, Any]) -> dict[str, Any]:
    """Return a document with the existing file's rules, which come from the source of programs."""
    before = json.loads(path.read_text()) if path.exists() else {}
    return document | {key: before[key] for key in ("rules", "unread", "float_model") if key in before}


def compared_again(device: Device, document: dict[str, Any]) -> dict[str, Any]:
    """Return a document with the comparisons of its forms measured again."""
    found = {
        code: [{key: value for key, value in form.items() if key != "where"} for form in forms_]
        for code, forms_ in document["operators"].items()
    }
    compare(device, found, lambda _: True)
    return {**document, "operators": found}


def context(device: Device) -> list[dict[str, Any]]:
    """Return rules for operators that are refused together, although each is accepted alone."""

    def taken(questions: Sequence[Question]) -> list[bool]:
        return [outcome.startswith(TAKEN) for outcome in ask(device, questions)]

    return pairs.rules(taken, device.asks_first)


def dump(document: dict[str, Any]) -> str:
    """Return JSON with one line for each row, and one for the forms of each operator."""
    parts = []
    for key in _KEYS:
        value = document.get(key)
        if value and key in ("rules", "measured", "context"):
            rows = ",\n".join(f"  {json.dumps(row)}" for row in value)
            parts.append(f' "{key}": [\n{rows}\n ]')
        elif key == "operators":
            rows = ",\n".join(f"  {json.dumps(code)}: {json.dumps(found)}" for code, found in document[key].items())
            parts.append(f' "operators": {{\n{rows}\n }}')
        elif value:
            parts.append(f' "{key}": {json.dumps(value)}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    """Measure, and write the tables or compare them with the files."""
    parser = argparse.ArgumentParser(prog="tools.measure.capabilities", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 when a file would change")
    parser.add_argument("--only", metavar="DEVICE", choices=[device.name for device in DEVICES])
    parser.add_argument("--codes", metavar="CODE", nargs="*", help="only these operators; none, with --context")
    parser.add_argument("--where", action="store_true", help="only the comparisons of the forms that the file has")
    parser.add_argument("--no-context", action="store_true", help="without what is not taken together")
    parser.add_argument("--context", action="store_true", help="also what is not taken together")
    options = parser.parse_args()
    codes = options.codes
    same = True
    for device in DEVICES:
        if options.only in {None, device.name}:
            path = TABLES / f"{device.name}.json"
            if options.where:
                same &= _report(path, dump(compared_again(device, json.loads(path.read_text()))), options)
                continue
            document = table(device, all_templates(), lambda code: codes is None or code in codes)
            if codes is not None:
                document = updated(device, path, document, lambda code: code in codes)
            if options.context or (codes is None and not options.no_context):
                document["context"] = context(device) if device.pairs else []
            same &= _report(path, dump(with_rules(path, document)), options)
    if options.check:
        sys.exit(not same)


def _report(path: Path, text: str, options: argparse.Namespace) -> bool:
    same = path.exists() and path.read_text() == text
    print(f"{path.relative_to(ROOT)}: {'as measured' if same else 'differs' if options.check else 'written'}")
    if not same and not options.check:
        path.write_text(text)
    return same


if __name__ == "__main__":
    main()
