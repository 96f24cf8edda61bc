"""The shipped capability tables against the runtimes themselves."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import signal
from functools import cache
from pathlib import Path

import pytest

from circletools.affinity.capability.file import load_capability
from circletools.affinity.capability.table import Capability, why_not
from circletools.affinity.solvers.groups import Partition, working
from circletools.affinity.solvers.partitions import fewest_turns, with_constants
from circletools.graph.build import graph_of
from circletools.model.model import open_model
from circletools.runtimes import plan as plan_of
from tests.kit.build import Code
from tests.kit.presence import need
from tests.kit.public import public_models
from tests.kit.support import TESTDATA
from tools.measure.capabilities import all_templates, ask
from tools.measure.capability.runtimes import DEVICES, TAKEN, Device
from tools.measure.capability.single import Operand, Probe, Writer
from tools.measure.isolation import CRASH, answers

load = cache(load_capability)
BY_NAME = {device.name: device for device in DEVICES}

# LiteRT does these with memory that is not theirs: how it ends is not the same twice.
UNSETTLED_CODES = {"FAKE_QUANT", "MATRIX_DIAG", "MATRIX_SET_DIAG"}
UNSETTLED_TYPES = {"INT4", "UINT4", "INT2"}
# Known limits of the tables, docs/capabilities.md: code and ranks.
LIMITS = {("SPLIT", (0, 2))}


def _litert() -> object:
    return importlib.import_module("ai_edge_litert.interpreter")


def plans(question: bytes | Path) -> str:
    """Return the plan of each subgraph as LiteRT's default delegate leaves it, as text; empty if it does not load."""
    from ai_edge_litert.interpreter import Interpreter  # noqa: PLC0415 - in the process that may die of it

    data = question if isinstance(question, bytes) else question.read_bytes()
    try:
        interpreter = Interpreter(model_content=data, num_threads=1)
    except (RuntimeError, ValueError):
        return "()"
    # That an operator is missing shows after the delegate took its own.
    with contextlib.suppress(RuntimeError, ValueError):
        interpreter.allocate_tensors()
    return repr(
        tuple(
            tuple(step.operators if step.delegate else step.operators[0] for step in plan)
            for plan in plan_of.plans(interpreter)
        )
    )


Plan = tuple[int | tuple[int, ...], ...]


def read_plans(questions: list[bytes | Path]) -> list[tuple[Plan, ...]]:
    need("ai_edge_litert")
    texts = answers(questions, plans, _litert, cpu_seconds=20)
    assert CRASH not in texts
    # What our own process wrote is not a foreign input.
    return [eval(text, {"__builtins__": {}}) for text in texts]  # noqa: S307


def members(plan: Plan) -> set[int]:
    return {member for step in plan if isinstance(step, tuple) for member in step}


def differences(table: Capability, path: Path, found: tuple[Plan, ...]) -> list[str]:
    """Return where a table and a plan do not agree."""
    wrong = []
    with open_model(path) as model:
        for subgraph, plan in enumerate(found):
            reasons = why_not(table, graph_of(model, subgraph))
            whole = {step for step in plan if isinstance(step, int)} | members(plan)
            assert whole == set(range(len(reasons)))
            for index, (reason, name) in enumerate(zip(reasons, model.code_names(subgraph), strict=True)):
                if (reason is None or reason.measured) and (reason is None) != (index in members(plan)):
                    wrong.append(f"{path.name}: subgraphs[{subgraph}].operators[{index}] {name}: {reason}")
    return wrong


def _agree(paths: list[Path]) -> None:
    table = load("xnnpack")
    found = read_plans([*paths])
    assert sum(len(members(plan)) for of_model in found for plan in of_model) > 100
    wrong = [line for path, of_model in zip(paths, found, strict=True) for line in differences(table, path, of_model)]
    assert wrong == []


def measured_models() -> list[Path]:
    return sorted((TESTDATA / "tflite").glob("*.tflite"))


def test_xnnpack_accepts_the_operators_in_its_table() -> None:
    _agree(measured_models())


def test_xnnpack_accepts_the_operators_in_its_table_in_public_models() -> None:
    paths = [path for path in public_models() if path.suffix == ".tflite"]
    if not paths:
        pytest.skip("no public models beside this checkout")
    _agree(paths)


def available(device: Device) -> bool:
    return importlib.util.find_spec(device.package.replace("-", "_")) is not None


def is_settled(probe: Probe) -> bool:
    types = {operand.element for operand in (*probe.inputs, *probe.outputs)}
    is_limit = (probe.code, probe.ranks) in LIMITS
    return probe.code not in UNSETTLED_CODES and not types & UNSETTLED_TYPES and not is_limit


@pytest.mark.parametrize(
    ("name", "step"),
    [("litert-cpu", 160), ("xnnpack", 120), ("onert-cpu", 400), ("onert-ruy", 400), ("openvino-cpu", 800)],
)
def test_a_sample_of_the_probes_agrees_with_its_table(name: str, step: int) -> None:
    device = BY_NAME[name]
    if not available(device):
        pytest.skip(f"{device.package} is not installed")
    table = load(name)
    asked = (probes[0] for template in all_templates() for probes in template.bases_of())
    sample = [probe for probe in asked if device.asks_first(probe) and is_settled(probe)][::step]
    settled = [pair for pair in zip(sample, ask(device, sample), strict=True) if pair[1] != CRASH]
    assert len(settled) > 0.9 * len(sample)
    for probe, outcome in settled:
        with open_model(probe.model) as model:
            (reason,) = why_not(table, graph_of(model, 0))
        is_known = reason is None or (reason.measured and not reason.wrong)
        message = f"{probe.code} {probe.signature} {probe.ranks}: {outcome}, {reason}"
        assert not is_known or (reason is None) == outcome.startswith(TAKEN), message


def epochs(operators: list[tuple[tuple[int, ...], tuple[int, ...]]], taken: set[int]) -> Plan:
    """Return the plan that LiteRT makes: of all operators that are ready, those like the first one, in turns."""
    producers = {tensor: index for index, (_, outputs) in enumerate(operators) for tensor in outputs}
    waits_for = [{producers[tensor] for tensor in inputs if tensor in producers} for inputs, _ in operators]
    plan: list[int | tuple[int, ...]] = []
    done: list[int] = []
    while len(done) < len(operators):
        first = len(done)
        for index in range(len(operators)):
            alike = len(done) == first or (index in taken) == (done[first] in taken)
            if index not in done and alike and waits_for[index] <= set(done):
                done.append(index)
        plan += [tuple(done[first:])] if done[first] in taken else done[first:]
    return tuple(plan)


def test_the_plan_is_one_of_epochs() -> None:
    """What was taken and who feeds whom is all that it takes to know the partitions, and their order."""
    paths = [*(TESTDATA / "tflite").glob("*.tflite"), *(path for path in public_models() if path.suffix == ".tflite")]
    found = read_plans([*paths])
    assert max(len(plan) for of_model in found for plan in of_model) > 1
    for path, of_model in zip(paths, found, strict=True):
        with open_model(path) as model:
            for subgraph, plan in enumerate(of_model):
                operators = [(operator.inputs, operator.outputs) for operator in model.subgraphs[subgraph].operators]
                assert epochs(operators, members(plan)) == plan, path


def test_the_table_and_turns_predict_the_partitions() -> None:
    """From the file alone, without asking the runtime."""
    table, seen = load("xnnpack"), 0
    paths = measured_models()
    for path, of_model in zip(paths, read_plans([*paths]), strict=True):
        with open_model(path) as model:
            for subgraph, plan in enumerate(of_model):
                devices = [int(reason is not None) for reason in why_not(table, graph_of(model, subgraph))]
                dag = graph_of(model, subgraph).dag
                operators, work = working(dag)
                rows = fewest_turns(work, [devices[operator] for operator in operators])
                parts = (Partition(devices[operators[row[0]]], tuple(operators[at] for at in row)) for row in rows)
                predicted = [part.operators for part in with_constants(dag, tuple(parts)) if part.device == 0]
                assert predicted == [tuple(sorted(step)) for step in plan if isinstance(step, tuple)], path
                seen += len(predicted)
    assert seen >= 20


def chain(*codes: str, fork: bool = False) -> bytes:
    """Return a model of unary operators: one after the other, or with `fork` all on the same input."""
    writer = Writer()
    shape = (2, 3)
    last = writer.operand(Operand("FLOAT32", shape))
    inputs, outputs = [last], []
    for code in codes:
        result = writer.operand(Operand("FLOAT32", shape))
        writer.operator(Code(code), [last], [result])
        outputs.append(result)
        last = inputs[0] if fork else result
    return writer.ends(inputs, outputs)


@pytest.mark.parametrize(
    ("model", "plan"),
    [
        (chain("RELU"), ((0,),)),
        (chain("RELU", "SIGN", "RELU"), ((0,), 1, (2,))),
        (chain("SIGN", "RELU", "SIGN", "SIGN", "RELU"), (0, (1,), 2, 3, (4,))),
        (chain("RELU", "SIGN", "RELU", fork=True), ((0, 2), 1)),
        (chain("SIGN", "RELU", "SIGN", "RELU", fork=True), (0, 2, (1, 3))),
    ],
    ids=["one", "chain", "chain of five", "fork", "fork of four"],
)
def test_a_partition_takes_all_that_is_ready(model: bytes, plan: Plan) -> None:
    """One operator makes a partition, and members of a partition need not be connected."""
    assert read_plans([model]) == [(plan,)]


def test_a_dead_runtime_is_seen_as_a_crash() -> None:
    def ask(unit: int) -> str:
        if unit % 2:
            return "fine"
        os.kill(os.getpid(), signal.SIGKILL)
        return "still there"

    assert answers([0, 1, 2, 3], ask, lambda: None) == [CRASH, "fine", CRASH, "fine"]
    assert answers([0, 1], ask, lambda: None, limit="stopped") == ["stopped", "fine"]
