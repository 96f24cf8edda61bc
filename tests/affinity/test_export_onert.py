"""The environment for onert, in onert: each operator runs on its device; refused maps fail there."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from circletools.affinity.exports import export
from circletools.affinity.exports.export import BACKENDS, VARIABLE_BYTES
from circletools.errors import EditError
from tests.kit.build import Build, Graph, quantization
from tests.kit.exports_support import codes_of, with_affinity
from tests.kit.onert_exports import Run, close, exported, placed, run_with, traced
from tests.kit.oracles import Pool, run_onert
from tests.kit.outputs_support import fixed
from tests.kit.presence import need
from tests.kit.support import own_models, title

BOTH = {"BACKENDS": "cpu;ruy"}


ASSIGNMENTS: dict[str, Callable[[int], bool]] = {"all": lambda _: True, "odd": lambda index: index % 2 == 1}
CALLING = ("circle/if_cond", "circle/while_loop", "tflite/if_cond", "tflite/while_loop", "tflite/while_nested")


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_every_operator_runs_on_its_device(assignment: str, tmp_path: Path) -> None:
    runs, refused, computed_alone = [], {}, []
    for path in own_models():
        data = fixed(path.read_bytes(), "all", detach_taps=True)
        plain = tmp_path / f"fixed{path.suffix}"
        plain.write_bytes(data)
        if (alone := run_onert(plain)).stage != "ok":
            continue  # whatever the environment
        devices = placed(data, ASSIGNMENTS[assignment])
        file = tmp_path / title(path).replace("/", ".")
        file = file.with_name(f"{file.name}{path.suffix}")
        file.write_bytes(with_affinity(data, *devices))
        try:
            runs.append(Run(file, devices[0], exported(data, *devices)))
            computed_alone.append(alone)
        except EditError as error:
            refused[title(path)] = error.message
    outcomes, backends = traced(runs, tmp_path)
    assert sum("ruy" in run.devices for run in runs) >= (20 if assignment == "all" else 8)
    for run, outcome, ran, alone in zip(runs, outcomes, backends, computed_alone, strict=True):
        inserted = {index for index in ran if index >= len(run.devices)}  # by onert, for outputs
        answer = dict(enumerate(run.devices))
        assert {index: ran[index] for index in ran.keys() - inserted} == answer, run.path.name
        assert close(outcome, alone), (run.path.name, outcome)
    expected = dict.fromkeys(CALLING, "onert runs (IF|WHILE) on a separate backend")
    if assignment == "odd":
        expected["circle/output_twice"] = "the constants .* are each read on cpu and ruy"
    assert refused.keys() == expected.keys()
    assert all(re.match(reason, refused[name]) for name, reason in expected.items())


def test_one_backend_and_two() -> None:
    data = chain("TANH", "NEG").to_bytes("circle")
    assert exported(data, ["cpu", "cpu"]) == {"BACKENDS": "cpu", "OP_BACKEND_MAP": "0=cpu;1=cpu"}
    data = chain("FULLY_CONNECTED", "TANH").to_bytes("circle")
    assert exported(data, ["ruy", "cpu"]) == {"BACKENDS": "cpu;ruy", "OP_BACKEND_MAP": "0=ruy;1=cpu"}


def test_a_model_without_operators() -> None:
    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    graph.ends([x], [x])
    assert exported(build.to_bytes("circle"), []) == {"BACKENDS": "cpu", "OP_BACKEND_MAP": ""}


def chain(*codes: str, graphs: int = 1) -> Build:
    """Return a model of operators one after the other."""
    build = Build()
    for number in range(graphs):
        graph = build.graph(f"graph{number}")
        value = start = graph.tensor("x", (1, 4))
        for index, code in enumerate(codes):
            value = computed(graph, code, value, f"t{index}")
        graph.ends([start], [value])
    return build


def computed(graph: Graph, code: str, value: int, name: str) -> int:
    """Append an operator on values of shape (1, 4). The constant of FULLY_CONNECTED makes every sum exact."""
    inputs = [value]
    if code == "FULLY_CONNECTED":
        inputs += [graph.constant(f"{name}/w", np.eye(4, dtype=np.float32)[[1, 2, 3, 0]]), -1]
    return graph.compute(code, inputs, name, (1, 4))


def refusal(data: bytes, *devices: Sequence[str | None]) -> str:
    """Return why an affinity is refused."""
    with pytest.raises(EditError) as caught:
        exported(data, *devices)
    return str(caught.value)


def prepared(data: bytes, folder: Path, op_map: str) -> str:
    """Return the words with which onert fails to prepare a model."""
    outcome = run_with(data, folder, BOTH | {"OP_BACKEND_MAP": op_map})
    assert outcome.stage == "prepare"
    return outcome.message


def test_a_backend_that_is_not_there(tmp_path: Path) -> None:
    data = chain("FULLY_CONNECTED", "TANH").to_bytes("circle")
    assert "onert has no backend 'npu'" in refusal(data, ["npu", "cpu"])
    assert "Fail to find backend for FullyConnected" in prepared(data, tmp_path, "0=npu")
    # What the map names has to be in BACKENDS, and a space counts as part of a name.
    with Pool() as pool:  # a process that has not loaded ruy before
        alone = pool.run(
            "onert", tmp_path / "model.circle", environment={"BACKENDS": "cpu", "OP_BACKEND_MAP": "0=ruy"}
        )
    assert (alone.stage, "Fail to find backend" in alone.message) == ("prepare", True)
    assert "Fail to find backend" in prepared(data, tmp_path, "0= ruy")


@pytest.mark.parametrize("backend", ["builtin", "train"])
def test_backends_that_are_not_for_ordinary_operators(backend: str, tmp_path: Path) -> None:
    data = chain("TANH", "NEG").to_bytes("circle")
    assert "onert has no backend" in refusal(data, ["cpu", backend])
    outcome = run_with(data, tmp_path, {"BACKENDS": f"cpu;{backend}", "OP_BACKEND_MAP": f"1={backend}"})
    assert outcome.stage in ("prepare", "crash")


def test_an_index_past_the_end_is_ignored_silently(tmp_path: Path) -> None:
    data = chain("FULLY_CONNECTED", "TANH").to_bytes("circle")
    assert run_with(data, tmp_path, BOTH | {"OP_BACKEND_MAP": "0=ruy;99=ruy"}).stage == "ok"


def test_an_operator_that_ruy_does_not_have(tmp_path: Path) -> None:
    data = chain("FULLY_CONNECTED", "TANH").to_bytes("circle")
    assert "ruy has no kernel for TANH" in refusal(data, ["cpu", "ruy"])
    assert "NYI for operation 'ElementwiseActivation'" in prepared(data, tmp_path, "1=ruy")


def test_one_map_for_all_subgraphs(tmp_path: Path) -> None:
    build = chain("FULLY_CONNECTED")
    graph = build.graph("second")
    x = graph.tensor("x", (1, 4))
    graph.ends([x], [computed(graph, "TANH", computed(graph, "FULLY_CONNECTED", x, "a"), "b")])
    data = build.to_bytes("circle")
    assert "one map serves all subgraphs" in refusal(data, ["ruy"], ["cpu", "cpu"])
    # Only the second subgraph has an operator 1.
    assert "NYI for operation 'ElementwiseActivation'" in prepared(data, tmp_path, "1=ruy")
    assert exported(data, ["ruy"], ["ruy", "cpu"])["OP_BACKEND_MAP"] == "0=ruy;1=cpu"
    assert "subgraphs[1].operators[0]: the operator has no device" in refusal(data, ["ruy"])


def test_control_flow(tmp_path: Path) -> None:
    data = next(path for path in own_models() if title(path) == "circle/if_cond").read_bytes()
    devices = [["cpu"] * len(codes_of(data, index)) for index in range(3)]
    assert "onert runs IF on a separate backend" in refusal(data, *devices)
    assert "NYI for operation 'If'" in prepared(data, tmp_path, "0=cpu")


def tap(first: str, second: str) -> bytes:
    """Return a model of two operators, both of whose results are outputs."""
    build = Build()
    graph = build.graph()
    x = graph.tensor("x", (1, 4))
    a = computed(graph, first, x, "a")
    graph.ends([x], [a, computed(graph, second, a, "b")])
    return build.to_bytes("circle")


SESSION = """
import sys, numpy as np
from onert import infer
session = infer.session(sys.argv[1], backends=sys.argv[2])
for output in session.infer([np.array([[0.5, -0.25, 0.75, 1]], np.float32)]):
    print(*output.ravel().tolist())
"""


def in_a_session(data: bytes, folder: Path, environment: dict[str, str]) -> list[list[float]]:
    """Run a model in onert's own Python session, which lets the runtime allocate the outputs."""
    need("onert")
    path = folder / "model.circle"
    path.write_bytes(data)
    command = [sys.executable, "-c", SESSION, str(path), environment["BACKENDS"]]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=True)
    return [[float(number) for number in line.split()] for line in done.stdout.splitlines()]


@pytest.mark.parametrize(("codes", "devices"), [
    (("FULLY_CONNECTED", "TANH"), ["ruy", "cpu"]), (("TANH", "FULLY_CONNECTED"), ["cpu", "ruy"]),
])  # fmt: skip
def test_an_output_that_is_read_on_another_backend(
    codes: tuple[str, str], devices: list[str], tmp_path: Path
) -> None:
    data = tap(*codes)
    assert "the output 'a' of subgraphs[0].operators[0]" in refusal(data, devices)
    mapped = BOTH | {"OP_BACKEND_MAP": f"0={devices[0]};1={devices[1]}", "EXECUTOR": "Dataflow"}
    (_, right), (_, wrong) = (in_a_session(data, tmp_path, env) for env in ({"BACKENDS": "cpu"}, mapped))
    assert 0 not in right
    assert wrong == [0, 0, 0, 0]
    # With a copy of its own for the output, all is well.
    detached = fixed(data, detach_taps=True)
    environment = exported(detached, [*devices, "cpu"])
    _, after = in_a_session(detached, tmp_path, environment)
    assert after == right


def test_linear_reuses_what_the_other_backend_has_yet_to_read(tmp_path: Path) -> None:
    build = Build()
    graph = build.graph()
    x = graph.tensor("x", (1, 4))
    a = b = computed(graph, "TANH", x, "a")
    for name, code in (("b", "NEG"), ("c", "TANH"), ("d", "NEG")):
        b = computed(graph, code, b, name)
    e = computed(graph, "FULLY_CONNECTED", a, "e")
    graph.ends([x], [graph.compute("ADD", [b, e], "f", (1, 4))])
    data = build.to_bytes("circle")
    environment = exported(data, ["cpu", "cpu", "cpu", "cpu", "ruy", "cpu"])
    assert environment["EXECUTOR"] == "Dataflow"
    right = run_with(data, tmp_path, {"BACKENDS": "cpu"})
    assert right.outputs == run_with(data, tmp_path, environment).outputs
    assert not close(right, run_with(data, tmp_path, environment | {"EXECUTOR": "Linear"}))


def test_numbers_that_ruy_gets_wrong(tmp_path: Path) -> None:
    build = Build()
    graph = build.graph()
    x, y = graph.tensor("x", (2, 4)), graph.tensor("y", (2, 3))
    kernel = graph.tensor(
        "w", (3, 4), "INT8", data=np.arange(12, dtype=np.int8).tobytes(), quantization=quantization([0.1])
    )
    graph.operator("FULLY_CONNECTED", [x, kernel, -1], [y])
    graph.ends([x], [y])
    data = build.to_bytes("circle")
    assert "ruy computes only in FLOAT32; 'w' is INT8" in refusal(data, ["ruy"])
    right = run_with(data, tmp_path, {"BACKENDS": "cpu"})
    wrong = run_with(data, tmp_path, BOTH | {"OP_BACKEND_MAP": "0=ruy"})
    assert (right.stage, wrong.stage) == ("ok", "ok")
    assert not close(right, wrong)


def test_what_depends_on_constants_only_runs_on_cpu(tmp_path: Path) -> None:
    """In the affinity it has the device of its reader, which may not take it."""
    build = Build()
    graph = build.graph()
    x, kernel, y = graph.tensor("x", (2, 4)), graph.tensor("w", (3, 4)), graph.tensor("y", (2, 3))
    packed = graph.tensor(
        "packed", (3, 4), "INT8", data=np.arange(12, dtype=np.int8).tobytes(), quantization=quantization([0.5])
    )
    graph.operator("DEQUANTIZE", [packed], [kernel])
    graph.operator("FULLY_CONNECTED", [x, kernel, -1], [y])
    graph.ends([x], [y])
    data = build.to_bytes("circle")
    environment = exported(data, ["ruy", "ruy"])
    assert environment == BOTH | {"OP_BACKEND_MAP": "0=cpu;1=ruy"}
    assert close(run_with(data, tmp_path, {"BACKENDS": "cpu"}), run_with(data, tmp_path, environment))
    assert "onert has no backend 'npu'" in refusal(data, ["npu", "ruy"])


@pytest.mark.parametrize("shared", [1, 2])
def test_constants_that_both_backends_read(shared: int, tmp_path: Path) -> None:
    build = Build()
    graph = build.graph()
    value = x = graph.tensor("x", (1, 4))
    constants: list[int] = []
    for number in range(2):
        eye, zero = np.eye(4, dtype=np.float32), np.zeros(4, np.float32)
        fresh = [graph.constant(f"w{number}", eye), graph.constant(f"b{number}", zero)]
        constants = [*constants[:shared], *fresh[shared:]] if constants else fresh
        value = graph.compute("FULLY_CONNECTED", [value, *constants], f"t{number}", (1, 4))
    graph.ends([x], [value])
    data = build.to_bytes("circle")
    environment = BOTH | {"OP_BACKEND_MAP": "0=cpu;1=ruy"}
    outcome = run_with(data, tmp_path, environment)
    if shared == 1:
        assert exported(data, ["cpu", "ruy"]) == environment
        assert outcome.outputs == run_with(data, tmp_path, {"BACKENDS": "cpu"}).outputs
    else:
        assert "the constants 'w0' and 'b0' are each read on cpu and ruy" in refusal(data, ["cpu", "ruy"])
        assert (outcome.stage, "ShapeValidator failed" in outcome.message) == ("prepare", True)


def test_whatever_is_exported_computes_the_same(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    for seed in range(150):
        rng = random.Random(seed)  # noqa: S311
        data, codes = made(rng)
        devices = [rng.choice(BACKENDS) if code == "FULLY_CONNECTED" else "cpu" for code in codes]
        try:
            environment = exported(data, devices)
        except EditError as error:
            seen["constants" if "constants" in error.message else "output"] += 1
            continue
        seen[f"{environment['BACKENDS']} {environment.get('EXECUTOR')}"] += 1
        right = run_with(data, tmp_path, {"BACKENDS": "cpu"})
        assert right.stage == "ok"
        assert run_with(data, tmp_path, environment).outputs == right.outputs, seed
    assert seen.pop("ruy None") > 0
    assert seen.keys() == {"cpu None", "cpu;ruy None", "cpu;ruy Dataflow", "constants", "output"}
    assert min(seen.values()) >= 10


def made(rng: random.Random) -> tuple[bytes, list[str]]:
    """Return a random model and its operators; some share constants, some outputs are read, all sums are exact."""
    build = Build()
    graph = build.graph()
    values = [graph.tensor("x", (1, 4))]
    eye = np.eye(4, dtype=np.float32)
    kernels = [graph.constant(f"w{number}", eye[rng.sample(range(4), 4)]) for number in range(9)]
    biases = [-1, -1, *(graph.constant(f"b{number}", np.zeros(4, np.float32)) for number in range(3))]
    codes = rng.choices(["FULLY_CONNECTED", "FULLY_CONNECTED", "ADD", "NEG", "TANH"], k=rng.randint(2, 14))
    used = set()
    for index, code in enumerate(codes):
        inputs = [rng.choice(values[-4:])]
        if code == "FULLY_CONNECTED":
            inputs += [rng.choice(kernels), rng.choice(biases)]
        elif code == "ADD":
            inputs.append(rng.choice(values[-4:]))
        used |= set(inputs)
        values.append(graph.compute(code, inputs, f"t{index}", (1, 4)))
    read_too = rng.sample(values[1:], rng.choice([0, 0, 1]))
    graph.ends(values[:1], [value for value in values[1:] if value not in used or value in read_too])
    return build.to_bytes("circle"), codes


def test_a_map_that_no_program_can_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for size, arrives in ((VARIABLE_BYTES, True), (VARIABLE_BYTES + 1, False)):
        try:
            subprocess.run([sys.executable, "-c", ""], env={"A": "x" * (size - 2)}, check=True)
        except OSError:
            assert not arrives
        else:
            assert arrives
    data = chain("NEG", "NEG").to_bytes("circle")
    size = len("OP_BACKEND_MAP=0=cpu;1=cpu")
    monkeypatch.setattr(export, "VARIABLE_BYTES", size)
    exported(data, ["cpu", "cpu"])
    monkeypatch.setattr(export, "VARIABLE_BYTES", size - 1)
    assert f"takes {size} bytes; Linux allows at most {size - 1}" in refusal(data, ["cpu", "cpu"])
