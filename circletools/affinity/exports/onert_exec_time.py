"""`exec_time.json`, the times that onert's scheduler chooses backends by (USE_SCHEDULER=1, EXECUTOR=Dataflow).

    {"cpu": {"FullyConnected": {"0": [[2368, 3], [672, 1]]}, "ruy": {"0": [[64, 5]]}}, "ruy": ...}

backend -> onert's name of an operation -> 1 if an input is quantized UINT8, else 0 -> pairs of the bytes of all
inputs and outputs, and microseconds. A backend's name in the place of an operation's stands for a copy to it, whose
bytes count twice. 2147483647 microseconds: the backend cannot run it. The format is onert's own
(core/src/exec/JSONExecTime.cc); tests/affinity/test_costs_onert.py has onert 0.1.0 write such a file, and read ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

import numpy as np

from circletools.affinity.costs.table import CostTable
from circletools.errors import EditError
from circletools.graph.graph import Graph

NEVER_US = 2**31 - 1
_BUILTIN_CODES = ("IF", "WHILE")
Names = Mapping[tuple[int, int], str]
"""onert's name of an operator, by subgraph and index."""
Found = dict[tuple[str, str, str, int], list[float]]
"""Times by backend, name, whether quantized, and bytes."""
ExecTimes = dict[str, dict[str, dict[str, list[list[int]]]]]


def exec_times(
    facts: Sequence[Graph], problems: Sequence[CostTable], devices: Sequence[str], names: Names
) -> ExecTimes:
    """Return the document. Operators that share name and bytes share a time: their mean.

    Raises EditError for an operator without a name, for one that no backend can run, and for IF and WHILE.
    """
    found: Found = {}
    for subgraph, problem in zip(facts, problems, strict=True):
        _check_codes(subgraph)
        sizes, quantized = _operators(subgraph)
        for operator, row in enumerate(problem.times_us.tolist()):
            name = names.get((subgraph.index, operator))
            if name is None or min(row) == np.inf:
                said = "no trace of onert has the operator" if name is None else "no backend has a time for it"
                hint = "`traces=cpu=trace.chrome.json` has both"
                raise EditError(said, location=subgraph.place(operator), hint=hint)
            for device, time_us in zip(devices, row, strict=True):
                found.setdefault((device, name, quantized[operator], sizes[operator]), []).append(time_us)
        _add_copies(subgraph, problem, devices, found)
    document: ExecTimes = {}
    for (device, name, is_quantized, size), times in sorted(found.items()):
        mean = min(sum(times) / len(times), NEVER_US)
        rows = document.setdefault(device, {}).setdefault(name, {}).setdefault(is_quantized, [])
        rows.append([size, max(round(mean), 1)])
    return document


def _check_codes(facts: Graph) -> None:
    for operator, code in enumerate(facts.operators.code_names):
        if code in _BUILTIN_CODES:
            message = f"onert's scheduler puts {code} on cpu, which cannot run it (measured with onert 0.1.0)"
            raise EditError(message, location=facts.place(operator), hint="use `target=onert` without it")


def _operators(facts: Graph) -> tuple[list[int], list[str]]:
    """Return the bytes of all inputs and outputs of each operator, and whether an input is quantized UINT8."""
    facts.check_values()
    total = np.zeros(len(facts))
    for operators, tensors in (facts.uses, facts.definitions):
        total += np.bincount(operators, facts.values.bytes[tensors], minlength=len(facts))
    operators, tensors = facts.uses
    quantized = np.bincount(operators, facts.values.is_type("UINT8")[tensors], minlength=len(facts)) > 0
    return total.astype(np.int64).tolist(), [str(int(flag)) for flag in quantized]


def _add_copies(facts: Graph, problem: CostTable, devices: Sequence[str], found: Found) -> None:
    sizes, unsigned = facts.values.bytes.tolist(), facts.values.is_type("UINT8").tolist()
    handed_on = np.intersect1d(facts.definitions.values, facts.uses.values).tolist()
    kinds = {(int(sizes[tensor]), unsigned[tensor]) for tensor in handed_on}
    links = problem.links
    for source, target in permutations(range(len(devices)), 2):
        for size, is_quantized in kinds:
            copy_us = float(links.overhead_us[source, target] + size * links.us_per_byte[source, target])
            found[devices[source], devices[target], str(int(is_quantized)), 2 * size] = [copy_us]
