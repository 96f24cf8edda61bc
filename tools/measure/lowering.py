"""Try the lowest versions of operator forms (circletools/requires/forms.json) in old runtimes.

    python -m tools.measure.lowering --wheels DIR

Each form in the templates of the capability tables is written with its version in `forms.json`, run in the first
runtime that resolves this version and in the newest one, and compared with the newest version there. Lines of the
file that no form tests, or that a form contradicts, are printed; the exit status is then 1. Forms whose values in the
newest runtime differ from run to run read memory out of bounds, and are left out.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import circletools as ct
from circletools.graph.build import graph_of
from circletools.requires.forms import Form, form_of, forms
from circletools.requires.table import runtime_table
from tools.measure.capabilities import all_templates
from tools.measure.capability.single import Probe
from tools.measure.requirements import PACKAGES, ask, case

NEWEST = PACKAGES[-1]


def main() -> None:
    """Try all forms; print those that contradict the file."""
    parser = argparse.ArgumentParser(prog="tools.measure.lowering", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--wheels", required=True, type=Path, help="directory for wheels and environments")
    wheels = parser.parse_args().wheels
    runs, unsteady = steady(wheels, list(lowered()))
    by_runtime: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        first = runtime_table().first_for_operator(run.probe.code, run.form.version)
        for package in dict.fromkeys((PACKAGES[first], NEWEST)):
            by_runtime[package].append(run)
    wrong, rounded = [], 0
    for package, some in by_runtime.items():
        answers = ask(wheels, package, [case_of(run.probe, run.form.version) for run in some])
        for run, answer in zip(some, answers, strict=True):
            if answer == run.values:
                continue
            if package != NEWEST and near(answer, run.values, run.probe):
                rounded += 1
                continue
            probe = run.probe
            wrong.append(
                f"{probe.code} [{run.form.line}] in {package}: {probe.signature} {probe.options}: {str(answer)[:160]}"
            )
    tried = {(run.probe.code, run.form.line) for run in runs}
    untried = [(code, form.line) for code, lines in forms().items() for form in lines if form.version]
    untried = [pair for pair in untried if pair not in tried]
    for text in (*wrong, *(f"{code} [{line}]: no form tried it" for code, line in untried)):
        print(text)
    print(
        f"{len(runs)} forms, {unsteady} more without a steady answer; {rounded} rounded otherwise in the old "
        f"runtime; {len(wrong)} contradict, {len(untried)} lines untried"
    )
    sys.exit(bool(wrong or untried))


class Run(NamedTuple):
    """A form, its line of the file, and the values that the newest runtime computes."""

    probe: Probe
    form: Form
    values: list[Any]


def steady(wheels: Path, chosen: Sequence[tuple[Probe, Form]]) -> tuple[list[Run], int]:
    """Return the forms that compute the same values in two runs of the newest runtime, and the number of others."""
    cases = [case_of(probe, top(probe.code)) for probe, _ in chosen]
    once, again = ask(wheels, NEWEST, cases), ask(wheels, NEWEST, cases[::-1])[::-1]
    runs = [
        Run(probe, form, values)
        for (probe, form), values, others in zip(chosen, once, again, strict=True)
        if isinstance(values, list) and values == others
    ]
    return runs, sum(isinstance(one, list) for one in once) - len(runs)


def case_of(probe: Probe, version: int) -> dict[str, str]:
    """Return the case for a form with a version."""
    return case(replace(probe, version=version).model, "run")


def near(answer: Any, values: Sequence[Any], probe: Probe) -> bool:
    """Return whether values are equal up to rounding: one step of a quantized output, or 2% of a float."""
    if not isinstance(answer, list) or len(answer) != len(values) or isinstance(values[0], str):
        return False
    output = probe.outputs[0]
    relative, absolute = (0.02, 0.02) if "FLOAT" in output.type else (0, int(output.quantization != "n"))
    return bool(np.allclose(answer, values, rtol=relative, atol=absolute, equal_nan=True))


def top(code: str) -> int:
    """Return the highest version of a code that the newest runtime resolves."""
    return runtime_table().operators[code][1][-1]


def lowered() -> Iterator[tuple[Probe, Form]]:
    """Yield each form of the templates for which the file has a version."""
    for template in all_templates():
        if template.code not in forms():
            continue
        for bases in template.bases_of():
            base = bases[-1]
            others = [one for one in template.rest_of(base, base.ranks[1]) if _matters(one, base)]
            for probe in {one.model: one for one in (*bases, *others)}.values():
                with ct.open(probe.model) as model:
                    form = form_of(graph_of(model, 0), 0)
                if form and 0 < form.version < top(template.code) and not _is_blind(probe):
                    yield probe, form


def _is_blind(probe: Probe) -> bool:
    """Return whether the worker would feed an invalid permutation."""
    return probe.code == "TRANSPOSE" and probe.inputs[1].kind == "computed"


def _matters(probe: Probe, base: Probe) -> bool:
    """Return whether a probe differs from its base in a property of forms: an option, or a rank of 3, 5 or 6."""
    moved = probe.ranks != base.ranks
    return not probe.dynamic and probe.version == base.version and (not moved or probe.ranks[1] in (3, 5, 6))


if __name__ == "__main__":
    main()
