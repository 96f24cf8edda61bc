"""Compare a capability table with its program, probe by probe, and count the evidence for each rule.

    VELA-PYTHON -m tools.measure.hold ethos-u65 --one-in 50      ask about some probes; print the differences
    VELA-PYTHON -m tools.measure.hold ethos-u65 --codes MEAN     ask about all probes of one operator

Probes are models with one operator: all templates with their types, ranks, versions and options, and the variations
of sizes, scales and constants. Rules that the program contradicts are printed first, then forms that the table
accepts and the program refuses, and the share of probes that the table does not cover.
"""

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from circletools.affinity.capability.file import load_capability
from circletools.affinity.capability.table import Capability, refused_by, why_not
from circletools.affinity.capability.traits import SubgraphTraits
from circletools.graph.build import graph_of
from circletools.model.model import open_model
from tools.measure.capabilities import TABLES, all_companies, all_templates, all_variations, ask, dump
from tools.measure.capability.runtimes import DEVICES, TAKEN, Device, Question

_SHOWN = 3


def questions(device: Device, codes: Sequence[str] | None) -> Iterator[Question]:
    """Yield the questions: each signature at each rank, then its other versions and options at the first rank."""
    for template in all_templates():
        if codes is None or template.code in codes:
            for bases in template.bases_of():
                yield from bases
                if device.asks_first(bases[0]):
                    yield from (one for one in template.rest_of(bases[-1], template.bases[-1]) if _is_moderate(one))
    for variation in all_variations():
        if codes is None or variation.probes[0].code in codes:
            yield from variation.probes
    for other in all_companies():
        if codes is None or other.probe.code in codes:
            yield other


def _is_moderate(probe: Any) -> bool:
    return probe.feature != "version" or probe.version in (2, 4, 16)


def answer(table: Capability, question: Question) -> tuple[str, str]:
    """Return a table's verdict on the operator in question (taken, refused, unknown), and its reason."""
    with open_model(question.model) as model:
        refusal = why_not(table, graph_of(model, 0))[question.focus]
        code = model.subgraphs[0].operators[question.focus].code.name
    if refusal is None:
        return "taken", code
    return ("refused" if refusal.measured else "unknown"), f"{code}: {refusal.reason}"


def evidence(table: Capability, asked: Sequence[Question], outcomes: Sequence[str]) -> Counter[int]:
    """Return the number of probes that support each rule: those refused by the rule and by the program."""
    found: Counter[int] = Counter()
    for question, outcome in zip(asked, outcomes, strict=True):
        if not outcome.startswith(TAKEN):
            with open_model(question.model) as model:
                operator = SubgraphTraits(graph_of(model, 0), table.terms).operator(question.focus)
                rule = next((at for at, rule in enumerate(table.rules) if refused_by(rule, operator)), None)
            found.update([] if rule is None else [rule])
    return found


def write(path: Path, counts: Counter[int]) -> None:
    """Write the numbers of probes next to the rules of a table."""
    document = json.loads(path.read_text())
    rules = [rule | ({"probes": counts[at]} if counts[at] else {}) for at, rule in enumerate(document["rules"])]
    path.write_text(dump(document | {"rules": rules}))


def _text(question: Question) -> str:
    probe: Any = getattr(question, "probe", question)
    sides = (" ".join(f"{one.text()}{list(one.shape)}" for one in side) for side in (probe.inputs, probe.outputs))
    options = {key: value for key, value in probe.options if value}
    return f"{' -> '.join(sides)} {options or ''} {probe.feature} {probe.version if probe.version > 1 else ''}"


def compared(table: Capability, asked: Sequence[Question], outcomes: Sequence[str]) -> Iterator[str]:
    """Yield the differences between table and program, the most frequent reasons first."""
    wrong: dict[tuple[str, str], list[str]] = defaultdict(list)
    count: Counter[tuple[str, bool]] = Counter()
    for question, outcome in zip(asked, outcomes, strict=True):
        mine, words = answer(table, question)
        takes = outcome.startswith(TAKEN)
        count[mine, takes] += 1
        if mine != "unknown" and (mine == "taken") != takes:
            wrong[mine, words].append(f"{_text(question)} {outcome}")
    for (mine, words), found in sorted(wrong.items(), key=lambda item: (item[0][0], -len(item[1]))):
        yield f"{mine} {words}: the program differs x{len(found)}"
        yield from (f"      {one}" for one in found[:_SHOWN])
    yield f"{table.device}: {dict(count)}"


def main() -> None:
    """Ask the program, and print the comparison."""
    parser = argparse.ArgumentParser(prog="tools.measure.hold", description=__doc__.split("\n", 1)[0])
    parser.add_argument("device", choices=[device.name for device in DEVICES])
    parser.add_argument("--codes", nargs="+", metavar="CODE", help="only these operators")
    parser.add_argument("--table", help="the table, if not the one that is built in")
    parser.add_argument("--one-in", type=int, default=1, metavar="N", help="only each N-th probe")
    parser.add_argument("--write", action="store_true", help="keep the numbers of probes with the rules")
    options = parser.parse_args()
    device = next(device for device in DEVICES if device.name == options.device)
    table = load_capability(options.table or device.name)
    asked = list(questions(device, options.codes))[:: options.one_in]
    outcomes = ask(device, asked)
    sys.stdout.writelines(f"{line}\n" for line in compared(table, asked, outcomes))
    if options.write:
        write(TABLES / f"{device.name}.json", evidence(table, asked, outcomes))


if __name__ == "__main__":
    main()
