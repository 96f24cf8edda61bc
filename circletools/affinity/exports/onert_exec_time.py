"""`exec_time.json`, the times that onert's scheduler chooses backends by (USE_SCHEDULER=1, EXECUTOR=Dataflow).

    {"cpu": {"FullyConnected": {"0": [[2368, 3], [672, 1]]}, "ruy": {"0": [[64, 5]]}}, "ruy": ...}

backend -> onert's name of an operation -> 1 if an input is quantized UINT8, else 0 -> pairs of the bytes of all
inputs and outputs, and microseconds. A backend's name in the place of an operation's stands for a copy to it, whose
bytes count twice. 2147483647 microseconds: the backend cannot run it. The format is onert's own
(core/src/exec/JSONExecTime.cc); tests/test_costs_onert.py has onert 0.1.0 write such a file, and read ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

import numpy as np

from circletools.affinity.costs.problem import Problem, tensor_bytes
from circletools.affinity.exports.placement import at
from circletools.errors import EditError
from circletools.model import Model
from circletools.model.graph import operator_tensors

NEVER_US = 2**31 - 1
_BUILTIN_CODES = ("IF", "WHILE")
Names = Mapping[tuple[int, int], str]
"""onert's name of an operator, by subgraph and index."""
ExecTimes = dict[str, dict[str, dict[str, list[list[int]]]]]


def exec_times(model: Model, problems: Sequence[Problem], devices: Sequence[str], names: Names) -> ExecTimes:
    """Return the document. Operators that share name and bytes share a time: their mean.

    Raises EditError for an operator without a name, for one that no backend can run, and for IF and WHILE.
    """
    found: dict[tuple[str, str, str, int], list[float]] = {}
    for subgraph, problem in enumerate(problems):
        _check_codes(model, subgraph)
        sizes, quantized = _operators(model, subgraph)
        for operator, row in enumerate(problem.times_us.tolist()):
            name = names.get((subgraph, operator))
            if name is None or min(row) == np.inf:
                said = "no trace of onert has the operator" if name is None else "no backend has a time for it"
                raise EditError(said, location=at(subgraph, operator), hint="--trace cpu=trace.chrome.json has both")
            for device, time_us in zip(devices, row, strict=True):
                found.setdefault((device, name, quantized[operator], sizes[operator]), []).append(time_us)
        _add_copies(model, subgraph, problem, devices, found)
    document: ExecTimes = {}
    for (device, name, is_quantized, size), times in sorted(found.items()):
        mean = min(sum(times) / len(times), NEVER_US)
        rows = document.setdefault(device, {}).setdefault(name, {}).setdefault(is_quantized, [])
        rows.append([size, max(round(mean), 1)])
    return document


def _check_codes(model: Model, subgraph: int) -> None:
    for operator, code in enumerate(model.code_names(subgraph)):
        if code in _BUILTIN_CODES:
            raise EditError(
                f"onert's scheduler puts {code} on cpu, which cannot run it (measured with onert 0.1.0)",
                location=at(subgraph, operator),
                hint="use --to onert without it",
            )


def _operators(model: Model, subgraph: int) -> tuple[list[int], list[str]]:
    """Return the bytes of all inputs and outputs of each operator, and whether an input is quantized UINT8."""
    sizes = tensor_bytes(model, subgraph)
    count = len(model.subgraphs[subgraph].operators)
    total = np.zeros(count)
    operators, tensors = operator_tensors(model, subgraph, "inputs")
    total += np.bincount(operators, sizes[tensors], minlength=count)
    unsigned = np.array([tensor.type == "UINT8" for tensor in model.subgraphs[subgraph].tensors], np.bool_)
    quantized = np.bincount(operators, unsigned[tensors], minlength=count) > 0
    operators, tensors = operator_tensors(model, subgraph, "outputs")
    total += np.bincount(operators, sizes[tensors], minlength=count)
    return total.astype(np.int64).tolist(), [str(int(flag)) for flag in quantized]


def _add_copies(
    model: Model,
    subgraph: int,
    problem: Problem,
    devices: Sequence[str],
    found: dict[tuple[str, str, str, int], list[float]],
) -> None:
    sizes, tensors = tensor_bytes(model, subgraph), model.subgraphs[subgraph].tensors
    (_, made), (_, read) = operator_tensors(model, subgraph, "outputs"), operator_tensors(model, subgraph, "inputs")
    kinds = {(int(sizes[tensor]), tensors[tensor].type == "UINT8") for tensor in np.intersect1d(made, read).tolist()}
    links = problem.links
    for source, target in permutations(range(len(devices)), 2):
        for size, is_quantized in kinds:
            copy_us = float(links.overhead_us[source, target] + size * links.us_per_byte[source, target])
            found[devices[source], devices[target], str(int(is_quantized)), 2 * size] = [copy_us]
