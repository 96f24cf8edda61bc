"""What keeps a target from running a model although it takes every operator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import circletools as ct
from circletools.fit.unusual import LARGE_WINDOW
from tests.kit.build import Build, quantization
from tests.kit.command_support import run
from tests.kit.outputs_support import findings_of
from tests.kit.support import own_models


def signed(outputs: list[str], times: int = 1) -> bytes:
    """Return a model of one operator whose signature, of which there are so many, names its output so many times."""
    build = Build()
    graph = build.graph()
    x = graph.tensor("x", (1, 4))
    y = graph.compute("TANH", [x], "y", (1, 4))
    graph.ends([x], [y])
    for _ in range(times):
        build.signature("serve", [("x", x)], [(name, y) for name in outputs])
    return build.to_bytes("tflite")


def pooled(subgraph: int = 0) -> bytes:
    """Return a model of a pool whose window is larger than its open input."""
    build = Build()
    for _ in range(subgraph):
        build.graph().ends([], [])
    graph = build.graph()
    x, y = (graph.tensor(name, (1, 1, 1, 4), shape_signature=[1, -1, -1, 4]) for name in "xy")
    options = {"padding": "VALID", "stride_h": 1, "stride_w": 1, "filter_height": 3, "filter_width": 3}
    graph.operator("MAX_POOL_2D", [x], [y], "Pool2DOptions", **options)
    graph.ends([x], [y])
    return build.to_bytes("tflite")


def fitted(data: bytes, *targets: str, baseline: Path | None = None) -> ct.types.Fit:
    with ct.open(data) as model:
        return ct.fit(model, ct.FitRequest(on=targets, baseline=baseline))


@pytest.mark.parametrize("outputs", [[], ["y", "again"]])
def test_a_signature_stops_what_reads_it(outputs: list[str]) -> None:
    gpu, cpu = fitted(signed(outputs), "litert-gpu", "xnnpack").targets
    assert (gpu.verdict, gpu.misfits, gpu.new_count) == ("not_resident", (), 1)
    assert [(one.finding.code, one.finding.location) for one in gpu.obstacles] == [
        ("INCOMPLETE_SIGNATURE", "signature_defs[0].outputs")
    ]
    assert (cpu.verdict, cpu.obstacles) == ("resident", ())
    assert fitted(signed(["y"]), "litert-gpu").targets[0].verdict == "resident"


def test_a_missing_name_is_no_obstacle() -> None:
    """LiteRT takes the name of the tensor, and the first of the signatures that have one key."""
    assert fitted(signed([""]), "litert-gpu").targets[0].verdict == "resident"
    assert fitted(signed(["", ""]), "litert-gpu").targets[0].verdict == "not_resident"
    assert fitted(signed(["y"], 2), "litert-gpu").targets[0].verdict == "resident"


def test_an_obstacle_is_a_finding_until_the_baseline_has_it(tmp_path: Path) -> None:
    first = fitted(signed([]), "litert-gpu")
    assert first.new_refusals == 1
    baseline = tmp_path / "old.json"
    baseline.write_text(json.dumps(ct.render.fit_json(first)), encoding="utf-8")
    again = fitted(signed([]), "litert-gpu", baseline=baseline)
    assert (again.new_refusals, again.targets[0].new_count, again.targets[0].fixed) == (0, 0, 0)
    assert again.targets[0].verdict == "not_resident"
    assert [one.is_new for one in again.targets[0].obstacles] == [False]
    assert len(list(ct.render.fit_text(again))) == 2  # the table alone
    assert [one["baselineState"] for one in ct.render.fit_sarif(again)["results"]] == ["unchanged"]
    other = fitted(signed(["y", "again"]), "litert-gpu", baseline=baseline)
    assert (other.new_refusals, other.targets[0].fixed) == (1, 1)
    assert [one["baselineState"] for one in ct.render.fit_sarif(other)["results"]] == ["new"]
    assert fitted(signed(["y"]), "litert-gpu", baseline=baseline).targets[0].fixed == 1


def test_an_obstacle_is_known_though_its_numbers_change(tmp_path: Path) -> None:
    def two(outputs: int) -> bytes:
        """Return a model of so many outputs, of which the signature names the first, behind a good signature."""
        build = Build()
        graph = build.graph()
        x = graph.tensor("x", (1, 4))
        made = [graph.compute("TANH", [x], f"y{number}", (1, 4)) for number in range(outputs)]
        graph.ends([x], made)
        if outputs == 3:
            build.signature("good", [("x", x)], [(f"y{number}", y) for number, y in enumerate(made)])
        build.signature("serve", [("x", x)], [("y", made[0])])
        return build.to_bytes("tflite")

    baseline = tmp_path / "old.json"
    baseline.write_text(json.dumps(ct.render.fit_json(fitted(two(2), "litert-gpu"))), encoding="utf-8")
    found = fitted(two(3), "litert-gpu", baseline=baseline)
    assert (found.new_refusals, found.targets[0].fixed, found.targets[0].verdict) == (0, 0, "not_resident")


def test_obstacles_are_reported_in_every_form(tmp_path: Path) -> None:
    found = fitted(signed([]), "litert-gpu")
    message = "the signature has no name for the output of the subgraph"
    text = list(ct.render.fit_text(found))
    cause = f"the model does not load: INCOMPLETE_SIGNATURE signature_defs[0].outputs: {message}"
    assert text[-1] == f"litert-gpu: not resident: {cause}"
    (result,) = ct.render.fit_sarif(found)["results"]
    assert (result["ruleId"], result["level"]) == ("REFUSED_MODEL", "error")
    assert result["message"]["text"] == f"litert-gpu does not load the model: {message}."
    (target,) = ct.render.fit_json(found)["targets"]
    assert [(one["message"], one["is_new"]) for one in target["obstacles"]] == [(message, True)]
    assert target["new_count"] == 1
    path = tmp_path / "m.tflite"
    path.write_bytes(signed([]))
    assert run("fit", path, "--on", "litert-gpu").returncode == 1
    assert run("fit", path, "--on", "xnnpack").returncode == 0


@pytest.mark.parametrize("subgraph", [0, 1])
def test_a_window_that_does_not_fit_is_not_known(subgraph: int) -> None:
    (target,) = fitted(pooled(subgraph), "litert-gpu").targets
    (misfit,) = target.misfits
    assert target.verdict == "not_known"
    assert (misfit.subgraph, misfit.operator, misfit.measured, misfit.reason) == (subgraph, 0, False, LARGE_WINDOW)
    assert misfit.remedy == "give the model an input shape into which the window fits"
    (refused,) = fitted(pooled(), "ethos-u55").targets
    assert refused.verdict == "not_resident"


@pytest.mark.parametrize(("read", "made", "verdict"), [
    (0.5, 0.5, "resident"), (0.0, 0.5, "not_known"), (-0.5, 0.5, "not_known"), (0.5, 1e-40, "not_resident"),
    (float("nan"), 0.5, "not_resident"), (0.5, float("inf"), "not_resident"),
])  # fmt: skip
def test_a_model_with_an_odd_scale_is_never_resident(read: float, made: float, verdict: str) -> None:
    build = Build()
    graph = build.graph()
    x, y = (graph.tensor("t", (1, 4, 4, 4), "INT8", quantization=quantization([one], [0])) for one in (read, made))
    graph.operator("LEAKY_RELU", [x], [y], "LeakyReluOptions", alpha=0.5)
    graph.ends([x], [y])
    npu, cpu = fitted(build.to_bytes(), "ethos-u55", "litert-cpu").targets
    assert (npu.verdict, cpu.verdict) == (verdict, verdict.replace("not_resident", "not_known"))


@pytest.mark.parametrize(("code", "refusing"), [("ADD", "onert-cpu openvino-cpu"), ("ADD_N", "")])
def test_shapes_that_do_not_fit_are_never_resident(code: str, refusing: str) -> None:
    build = Build()
    graph = build.graph()
    ends = [graph.tensor("x", (2, 3)), graph.tensor("y", (1, 4))]
    graph.ends(ends, [graph.compute(code, ends, "z", (2, 4))])
    for one in fitted(build.to_bytes(), "onert-cpu", "openvino-cpu", "tflm").targets:
        assert one.verdict == ("not_resident" if one.name in refusing.split() else "not_known")


@pytest.mark.parametrize("device", ["litert-cpu", "onert-cpu", "openvino-cpu", "tflm"])
def test_a_loop_without_a_body_is_refused(device: str) -> None:
    build = Build()
    graph = build.graph()
    x, y = graph.tensor("x"), graph.tensor("y")
    graph.operator("WHILE", [x], [y], cond_subgraph_index=0, body_subgraph_index=9)
    graph.ends([x], [y])
    assert fitted(build.to_bytes(), device).targets[0].verdict == "not_resident"


def test_an_input_that_does_not_exist_is_never_resident() -> None:
    build = Build()
    graph = build.graph()
    x, y = graph.tensor("x", (1, 4), "INT16"), graph.tensor("y", (1, 4), "INT16")
    graph.operator("STRIDED_SLICE", [x, *(graph.tensor(f"{at}", (2,), "INT32") for at in range(3))], [y])
    graph.ends([x, 1024], [y])
    litert, onert = fitted(build.to_bytes(), "litert-cpu", "onert-cpu").targets
    assert litert.verdict == "not_resident"
    assert onert.verdict == "not_known"


@pytest.mark.parametrize(("program", "target"), [("litert", "litert-cpu"), ("onert", "onert-cpu")])
def test_fit_and_check_refuse_the_same_models(program: str, target: str) -> None:
    for path in own_models()[::2]:
        data = path.read_bytes()
        errors = {one.code for one in findings_of(data, program) if one.severity == "error"}
        if errors.isdisjoint({"OUTPUT_TAP", "WRONG_RESULT"}):  # it loads the model
            assert bool(errors) == (fitted(data, target).targets[0].verdict == "not_resident"), path


def test_litert_does_not_load_circle_files() -> None:
    build = Build()
    graph = build.graph()
    graph.ends([graph.tensor("x")], [graph.compute("ABS", [0], "y")])
    litert, onert = fitted(build.to_bytes().replace(b"TFL3", b"CIR0", 1), "litert-cpu", "onert-cpu").targets
    assert "give it the TFLite model" in litert.cause
    assert not onert.obstacles


def test_a_cycle_is_not_known_to_run() -> None:
    build = Build()
    graph = build.graph()
    x, y, z = (graph.tensor(name) for name in "xyz")
    graph.operator("ADD", [x, z], [y])
    graph.operator("ABS", [y], [z])
    graph.ends([x], [z])
    (found,) = fitted(build.to_bytes(), "litert-cpu").targets
    assert (found.verdict, [one.reason for one in found.misfits]) == ("not_known", ["the operators form a cycle"])
