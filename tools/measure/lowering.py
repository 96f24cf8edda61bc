"""Try the lowest versions of operator forms (circletools/requires/forms.json) in old runtimes.

    python -m tools.measure.lowering --wheels DIR

Each form of the templates of the capability tables is written with the version that `forms.json` gives it, run in
the first runtime that resolves this version and in the newest one, and compared with the newest version there. A line
of the file that no form tried, or that one contradicts, is printed, and the exit status is then 1. Kernels that read
what is not there (a permutation that is computed and wrong) contradict by chance.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import circletools as ct
from circletools.graph.build import graph_of
from circletools.requires.forms import Form, form_of, forms
from circletools.requires.table import runtime_table
from tools.measure.capabilities import all_templates
from tools.measure.capability.single import Probe
from tools.measure.requirements import PACKAGES, ask, case


def main() -> None:
    """Try all forms; print what contradicts the file."""
    parser = argparse.ArgumentParser(prog="tools.measure.lowering", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--wheels", required=True, type=Path, help="directory for wheels and environments")
    wheels = parser.parse_args().wheels
    table = runtime_table()
    chosen = list(lowered())
    newest = PACKAGES[-1]
    today = ask(wheels, newest, [case(replace(probe, version=top(probe.code)).model, "run") for probe, _ in chosen])
    runs = [
        (probe, form, values) for (probe, form), values in zip(chosen, today, strict=True) if isinstance(values, list)
    ]
    by_runtime: dict[str, list[tuple[Probe, Form, Any]]] = defaultdict(list)
    for run in runs:
        first = table.first_for_operator(run[0].code, run[1].version)
        for package in {PACKAGES[first], newest}:
            by_runtime[package].append(run)
    tried: Counter[tuple[str, str]] = Counter()
    wrong = []
    for package, some in by_runtime.items():
        answers = ask(
            wheels, package, [case(replace(probe, version=form.version).model, "run") for probe, form, _ in some]
        )
        for (probe, form, values), answer in zip(some, answers, strict=True):
            tried[probe.code, form.line] += 1
            same = isinstance(answer, list) and len(answer) == len(values)
            tolerance = 0 if package == newest else 1e-4  # kernels of old runtimes round otherwise
            exact = answer == values or (
                same
                and not isinstance(values[0], str)
                and np.allclose(values, answer, rtol=tolerance, atol=tolerance, equal_nan=True)
            )
            if not exact:
                wrong.append(
                    f"{probe.code} [{form.line}] in {package}: {probe.signature} {probe.options}: {str(answer)[:200]}"
                )
    untried = [(code, form.line) for code, lines in forms().items() for form in lines if not tried[code, form.line]]
    for text in (*wrong, *(f"{code} [{line}]: no form tried it" for code, line in untried)):
        print(text)
    print(f"{sum(tried.values())} runs of {len(runs)} forms; {len(wrong)} contradict, {len(untried)} lines untried")
    sys.exit(bool(wrong or untried))


def top(code: str) -> int:
    """Return the highest version of a code that the newest runtime resolves."""
    return runtime_table().operators[code][1][-1]


def lowered() -> Iterator[tuple[Probe, Form]]:
    """Yield each form of the templates that the file has a version for."""
    for template in all_templates():
        if template.code not in forms():
            continue
        for bases in template.bases_of():
            base = bases[-1]
            others = [one for one in template.rest_of(base, base.ranks[1]) if _matters(one, base)]
            for probe in {one.model: one for one in (*bases, *others)}.values():
                with ct.open(probe.model) as model:
                    form = form_of(graph_of(model, 0), 0)
                if form is not None and form.version < top(template.code):
                    yield probe, form


def _matters(probe: Probe, base: Probe) -> bool:
    """Return whether a probe differs from its base by what forms are about: an option, or a rank of 5 or 6."""
    moved = probe.ranks != base.ranks
    return not probe.dynamic and probe.version == base.version and (not moved or probe.ranks[1] in (5, 6))


if __name__ == "__main__":
    main()
