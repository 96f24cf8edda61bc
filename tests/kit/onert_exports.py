"""Models exported for onert, run there: what the tests of that export share."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from circletools.affinity.exports.export import onert_environment
from circletools.affinity.exports.pictures import current_affinity
from circletools.graph.build import model_graph
from circletools.model.model import open_model
from tests.kit.exports_support import codes_of, with_affinity
from tests.kit.oracles import Outcome, Pool, run_onert
from tests.kit.support import read

GEMM = ("CONV_2D", "FULLY_CONNECTED")
FLOAT32 = 0  # in both schemas


def exported(data: bytes, *devices: Sequence[str | None]) -> dict[str, str]:
    """Return what is exported for an affinity."""
    with open_model(with_affinity(data, *devices)) as model:
        return onert_environment(model_graph(model), current_affinity(model_graph(model)))


class Run(NamedTuple):
    """A model on the disk, the backend that each operator of subgraph 0 should have, and the environment for it."""

    path: Path
    devices: list[str]
    environment: dict[str, str]


def traced(runs: Sequence[Run], folder: Path) -> tuple[list[Outcome], list[dict[int, str]]]:
    """Run models in one process; return also the backend of each operator of subgraph 0, by onert's own trace."""
    with Pool(environment={"TRACING_MODE": "1", "WORKSPACE_DIR": str(folder)}) as pool:
        outcomes = [pool.run("onert", run.path, environment=run.environment) for run in runs]
    backends: list[dict[int, str]] = [{} for _ in runs]
    for event in json.loads((folder / "trace.chrome.json").read_text())["traceEvents"]:
        if event.get("ph") == "B" and event["name"].startswith("@"):  # @3 Conv2D, by $7 sess, $0 subg, ruy
            session, subgraph, backend = event["tid"].split(", ")
            if subgraph == "$0 subg":
                backends[int(session[1:].split()[0])][int(event["name"][1:].split()[0])] = backend
    return outcomes, backends


def run_with(data: bytes, folder: Path, environment: dict[str, str]) -> Outcome:
    """Run a Circle model with an environment."""
    path = folder / "model.circle"
    path.write_bytes(data)
    return run_onert(path, environment=environment)


def close(one: Outcome, two: Outcome) -> bool:
    """Say whether values agree up to rounding: the backends sum in another order."""
    return len(one.outputs) == len(two.outputs) and all(
        mine[1:3] == theirs[1:3]
        and np.allclose(np.frombuffer(mine[3], mine[1]), np.frombuffer(theirs[3], theirs[1]), rtol=1e-5, atol=1e-6)
        for mine, theirs in zip(one.outputs, two.outputs, strict=True)
    )


def for_ruy(data: bytes, subgraph: int) -> list[int]:
    """Return the operators that ruy can run, as an independent reader sees them."""
    model = read(data)
    graph = model["subgraphs"][subgraph]
    found = []
    for index, (operator, code) in enumerate(zip(graph["operators"] or (), codes_of(data, subgraph), strict=True)):
        tensors = [graph["tensors"][tensor] for tensor in (*operator["inputs"], *operator["outputs"]) if tensor >= 0]
        if code in GEMM and all(tensor["type"] == FLOAT32 for tensor in tensors):
            found.append(index)
    return found


def placed(data: bytes, keep: Callable[[int], bool]) -> list[list[str]]:
    """Return devices for all subgraphs: ruy for those operators that it can run and `keep` names."""
    devices = []
    for subgraph, graph in enumerate(read(data)["subgraphs"]):
        able = for_ruy(data, subgraph)
        count = len(graph["operators"] or ())
        devices.append(["ruy" if index in able and keep(index) else "cpu" for index in range(count)])
    return devices
